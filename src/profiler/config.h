// `profiler:`: which steps are recorded, and what of them.
#pragma once

#include <cstdint>
#include <optional>

#include "config/field.h"

namespace trainctl::profiler {

/// The schedule of torch.profiler: `wait` steps idle, `warmup` recorded and thrown away, `active` kept; `repeat` times.
struct ProfilerConfig {
  std::int64_t wait = 2;
  std::int64_t warmup = 1;
  std::int64_t active = 3;
  std::int64_t repeat = 1;
  bool record_shapes = true;
  bool profile_memory = true;
  std::int64_t max_trace_mib = 200;
  std::optional<std::int64_t> start_step;

  static constexpr auto fields() {
    using config::field;
    using C = ProfilerConfig;
    return config::Fields{
        field<&C::wait>("Steps that pass unrecorded before each cycle; they show what recording costs.",
                        config::at_least(0)),
        field<&C::warmup>("Steps recorded and thrown away, while the profiler itself warms up.", config::at_least(0)),
        field<&C::active>("Steps that are kept.", config::between(1, 1000)),
        field<&C::repeat>("Cycles.", config::between(1, 100)),
        field<&C::record_shapes>("Record the operators' input shapes."),
        field<&C::profile_memory>("Record allocations: memory over time, by category and module."),
        field<&C::max_trace_mib>(
            "Size that a trace is kept below; the shortest events are left out, and the report says so.",
            config::between(1, 1 << 20)),
        field<&C::start_step>("`train` records itself too: the schedule begins with this step. null: it doesn't.",
                              config::at_least(1)),
    };
  }
};

}  // namespace trainctl::profiler
