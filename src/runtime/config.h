// `device:`: where tensors live and how the host's cores and memory are used.
#pragma once

#include <cstdint>
#include <optional>

#include "config/field.h"

namespace trainctl::runtime {

enum class DeviceKind { auto_, cpu, cuda };

struct DeviceConfig {
  DeviceKind kind = DeviceKind::auto_;
  config::AutoOr<std::int64_t> num_threads{};
  bool caching_allocator = true;
  bool expandable_segments = false;
  bool deterministic = false;
  std::optional<std::int64_t> memory_limit_mib;

  static constexpr auto fields() {
    using config::field;
    return config::Fields{
        field<&DeviceConfig::kind>("Where the model runs; `auto` takes a GPU when there is one."),
        field<&DeviceConfig::num_threads>(
            "Threads of one operator on the CPU; `auto` takes every core this process may use.",
            config::between(1, 8'192)),
        field<&DeviceConfig::caching_allocator>(
            "Keep freed host memory for the next tensor instead of returning it to the "
            "system, which costs page faults on every step."),
        field<&DeviceConfig::expandable_segments>(
            "On a GPU: let the allocator's segments grow instead of making new ones, so that sizes which change from "
            "step to step leave no holes. Nothing on a CPU."),
        field<&DeviceConfig::deterministic>(
            "Refuse operators whose result depends on timing (on a GPU; the CPU's are deterministic)."),
        field<&DeviceConfig::memory_limit_mib>(
            "Memory that this process's tensors may take on the device; MiB. More is refused as if the device had no "
            "more, and plans reckon with it. null takes what there is.",
            config::at_least(1)),
    };
  }
};

}  // namespace trainctl::runtime
