// The memory that a kernel holds beside its results while it runs, by laws of the operator and its arguments.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace trainctl::plan {

/// The shape, layout and type of a tensor.
struct TensorOutline {
  std::vector<std::int64_t> sizes;
  std::vector<std::int64_t> strides;
  at::ScalarType dtype = at::kFloat;

  std::int64_t bytes() const;
};

/// A call of an operator whose kernel holds memory of its own. The outlines replace the tensors among the arguments.
struct KernelCall {
  c10::OperatorHandle op;
  std::vector<c10::IValue> arguments;                   // None in the place of a tensor
  std::vector<std::optional<TensorOutline>> tensors{};  // one for each argument
  std::vector<std::size_t> batched{};                   // tensors whose first dim is the batch; empty: none
  std::int64_t usual = 0;                               // bytes that most CPUs' kernels hold
  std::int64_t bound = 0;                               // bytes that no CPU's kernel is known to exceed

  /// Samples of the batch; 0 if no argument has them.
  std::int64_t batch() const;
  /// The FLOPs of one sample, or of the whole call if it has no batch.
  double flops_per_sample() const;
  /// Operator, shapes without the batch, layouts, types and options, as a key of a file.
  std::string key() const;
};

/// The call on top of the stack, if a CPU kernel of its operator holds memory.
std::optional<KernelCall> find_kernel_call(const c10::OperatorHandle& op, const torch::jit::Stack& stack);

/// cuDNN's algorithms take up to a limit; the fast ones take at least a copy of the weights.
std::int64_t cuda_kernel_memory(const c10::OperatorHandle& op, const torch::jit::Stack& stack);

}  // namespace trainctl::plan
