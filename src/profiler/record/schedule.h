// Which steps are recorded: torch.profiler's schedule as a pure function.
#pragma once

#include <cstdint>

#include "profiler/config.h"

namespace trainctl::profiler {

enum class ProfilePhase { idle, warmup, active };

/// What to do in step `step` (from 0); idle after the last cycle.
constexpr ProfilePhase phase_of(const ProfilerConfig& config, std::int64_t step) {
  const std::int64_t cycle = config.wait + config.warmup + config.active;
  if (step < 0 || step >= cycle * config.repeat) return ProfilePhase::idle;
  const std::int64_t in_cycle = step % cycle;
  if (in_cycle < config.wait) return ProfilePhase::idle;
  return in_cycle < config.wait + config.warmup ? ProfilePhase::warmup : ProfilePhase::active;
}

/// Whether `step` is the last of its cycle.
constexpr bool ends_cycle(const ProfilerConfig& config, std::int64_t step) {
  const std::int64_t cycle = config.wait + config.warmup + config.active;
  return step % cycle == cycle - 1;
}

constexpr std::int64_t num_profiled_steps(const ProfilerConfig& config) {
  return (config.wait + config.warmup + config.active) * config.repeat;
}

}  // namespace trainctl::profiler
