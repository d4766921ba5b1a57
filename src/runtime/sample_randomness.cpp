#include "runtime/sample_randomness.h"

#include "runtime/random.h"

namespace trainctl::runtime {
namespace {

thread_local SampleRandomness* innermost = nullptr;

}  // namespace

SampleRandomness::SampleRandomness(const State& state) : state_(state), outer_(innermost) {
  innermost = this;
}

SampleRandomness::~SampleRandomness() {
  innermost = outer_;
}

void SampleRandomness::begin_part(std::size_t part) {
  if (innermost != nullptr) innermost->state_.num_draws = static_cast<std::uint64_t>(part) << 32;
}

std::optional<SampleRandomness::State> SampleRandomness::state() {
  return innermost == nullptr ? std::nullopt : std::optional(innermost->state_);
}

std::optional<SampleRandomness::Draw> SampleRandomness::next_draw() {
  if (innermost == nullptr) return std::nullopt;
  auto& [samples, num_draws, has_drawn] = innermost->state_;
  has_drawn = true;
  const std::uint64_t key =
      mix(samples.seed, key_of("sample randomness"), static_cast<std::uint64_t>(samples.epoch), num_draws++);
  return Draw{.key = key, .first_sample = samples.first_sample};
}

}  // namespace trainctl::runtime
