// Sees the operators that take most of a forward pass's time (products of matrices, convolutions, attention) before
// they run, on any device, wherever in a layer they are called.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <cstdint>

namespace trainctl::activation_checkpointing {

/// When an operator's results are worth the memory to keep them. Products of many small matrices include attention's
/// scores, which are large and cheap.
enum class Worth { always, when_smaller_than_inputs };

/// One call of such an operator. The stack holds its arguments, last on top.
struct CostlyCall {
  const c10::OperatorHandle& op;
  torch::jit::Stack& stack;
  /// Tensors that autograd saves for this operator after it ran: LibTorch's nodes save their inputs before, an
  /// autograd::Function of ours after.
  std::int64_t saves_after = 0;
  Worth worth = Worth::always;
};

/// What is done instead of, or after, running costly operators.
class CostlyOperatorPolicy {
 public:
  virtual ~CostlyOperatorPolicy() = default;
  /// Replaces the arguments with the results, or leaves them and returns false: then the operator runs.
  virtual bool replace(const CostlyCall& call) = 0;
  /// The stack holds the results.
  virtual void ran(const CostlyCall& call) = 0;
};

/// `const CostlyOperatorScope scope(policy);` lasts until the end of its scope, on its thread.
class CostlyOperatorScope {
 public:
  explicit CostlyOperatorScope(CostlyOperatorPolicy& policy);
  CostlyOperatorScope(const CostlyOperatorScope&) = delete;
  CostlyOperatorScope& operator=(const CostlyOperatorScope&) = delete;
  ~CostlyOperatorScope();

 private:
  CostlyOperatorPolicy* outer_;
  bool outer_key_;
};

}  // namespace trainctl::activation_checkpointing
