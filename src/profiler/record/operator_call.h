// An operator call as LibTorch's profiler records it, in the form that the cost model takes.
#pragma once

#include <torch/csrc/profiler/collection.h>

#include <string_view>
#include <vector>

#include "roofline/op_cost.h"

namespace trainctl::profiler {

using OperatorFields = torch::profiler::impl::ExtraFields<torch::profiler::impl::EventType::TorchOp>;

/// Our own convolution (kernels/winograd.cpp): stride 1 and padding 1.
constexpr std::string_view kWinograd = "trainctl::winograd_convolution";

/// Integer lists among an operator's arguments, such as a convolution's stride, padding and dilation.
std::vector<std::vector<std::int64_t>> integer_lists(const OperatorFields& fields);

/// Returns the call that `fields` describe. The profiler records no outputs: `allocated` bytes stand for them, or the
/// first input if the operator works in place. The shape of a convolution's output follows from its other arguments.
roofline::DispatchedOperator recorded_call(const OperatorFields& fields, double allocated);

}  // namespace trainctl::profiler
