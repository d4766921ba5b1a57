// `profiler:`: which steps `trainctl profile` records, and what of them.
#pragma once

#include <cstdint>

#include "config/field.h"

namespace trainctl {

/// The schedule of torch.profiler: `wait` steps idle, `warmup` recorded and thrown away, `active` kept; `repeat` times.
struct ProfilerConfig {
  std::int64_t wait = 2;
  std::int64_t warmup = 1;
  std::int64_t active = 3;
  std::int64_t repeat = 1;
  bool shapes = true;
  bool memory = true;

  static constexpr auto fields() {
    using config::field;
    using C = ProfilerConfig;
    return std::tuple{
        field<&C::wait>("Steps that pass unrecorded before each cycle.", config::at_least(0)),
        field<&C::warmup>("Steps recorded and thrown away, while the profiler itself warms up.", config::at_least(0)),
        field<&C::active>("Steps that are kept.", config::between(1, 1000)),
        field<&C::repeat>("Cycles.", config::between(1, 100)),
        field<&C::shapes>("Record the operators' input shapes."),
        field<&C::memory>("Record allocations."),
    };
  }
};

}  // namespace trainctl
