// What the kernels of a device hold beside their results while they run.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <cstdint>

namespace trainctl {

std::int64_t cpu_kernel_memory(const c10::OperatorHandle& op, const torch::jit::Stack& stack);
std::int64_t cuda_kernel_memory(const c10::OperatorHandle& op, const torch::jit::Stack& stack);

}  // namespace trainctl
