// Adds up what recordings say of their steps.
#pragma once

#include <torch/csrc/autograd/profiler_kineto.h>

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "profiler/profiler.h"

namespace trainctl {

/// A step is a span of this name with its number behind it, as TensorBoard's profiler page knows it.
inline constexpr std::string_view kStepSpan = "ProfilerStep#";

class StepTimes {
 public:
  void add(const torch::autograd::profiler::ProfilerResult& recording);

  /// Fills in the number of steps, their time, its split and the dearest operators.
  void summarise(ProfileSummary& summary) const;

 private:
  using Event = torch::autograd::profiler::experimental_event_t;

  struct Operator {
    std::int64_t calls = 0;
    std::int64_t self_ns = 0;
    std::map<std::string, std::int64_t> calls_by_shapes;
  };

  void add_step(const Event& step);
  void add_operators(const Event& event);

  std::int64_t num_steps_ = 0;
  std::int64_t steps_ns_ = 0;
  std::vector<std::pair<std::string, std::int64_t>> spans_ns_;  // in the order in which they first came
  std::map<std::string, Operator> operators_;
};

}  // namespace trainctl
