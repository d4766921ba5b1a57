// Which samples a forward pass computes with, so that what is random about a sample (dropout) is a function of (seed,
// epoch, the sample's place in the epoch's order): the same however samples are cut into micro-batches, ranks and
// replicas.
#pragma once

#include <cstdint>
#include <optional>

namespace trainctl::runtime {

/// Row i of the batch is sample number `first_sample` + i of the epoch's order, counted over all ranks.
struct SampleRange {
  std::uint64_t seed = 0;
  std::int64_t epoch = 0;
  std::int64_t first_sample = 0;
};

/// A scope, `const SampleRandomness randomness(samples);`, that lasts until the end of its block, on its thread. The
/// state is thread-local, as autocast's is. Layers draw deep inside a forward pass, whose signature has no samples.
/// Each replica that is a thread has its own state. Threads of a backward pass open the scope again for recomputation.
class SampleRandomness {
 public:
  /// Where a forward pass stands: its samples, and how often something was drawn for them.
  struct State {
    SampleRange samples;
    std::uint64_t num_draws = 0;
    bool has_drawn = false;  // in any part
  };

  explicit SampleRandomness(const SampleRange& samples) : SampleRandomness(State{.samples = samples}) {}
  /// Goes on from there: the same numbers come again.
  explicit SampleRandomness(const State& state);
  SampleRandomness(const SampleRandomness&) = delete;
  SampleRandomness& operator=(const SampleRandomness&) = delete;
  ~SampleRandomness();

  /// Goes to part number `part` of the innermost scope. What is drawn for it doesn't depend on how often something was
  /// drawn for the parts before it, which may be on another rank.
  static void begin_part(std::size_t part);
  /// Returns the state of this thread's innermost scope; none outside of all.
  static std::optional<State> state();

  /// What one call draws with: numbers are a function of (key, sample, place in the sample).
  struct Draw {
    std::uint64_t key = 0;
    std::int64_t first_sample = 0;
  };
  /// Counts; none outside of all scopes.
  static std::optional<Draw> next_draw();

 private:
  State state_;
  SampleRandomness* outer_;
};

}  // namespace trainctl::runtime
