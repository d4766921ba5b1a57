// What becomes of the tensors that autograd saves for the backward pass.
#pragma once

#include <torch/csrc/autograd/saved_variable_hooks.h>

#include <memory>

namespace trainctl::activation_checkpointing {

class SavedTensorPolicy {
 public:
  virtual ~SavedTensorPolicy() = default;
  /// Takes the tensor that autograd is about to save on this thread, and gives it back in the backward pass.
  virtual std::unique_ptr<torch::autograd::SavedVariableHooks> hooks() = 0;
};

/// `const SavedTensorScope scope(policy);` lasts until the end of its scope, on its thread.
class SavedTensorScope {
 public:
  explicit SavedTensorScope(SavedTensorPolicy& policy);
  SavedTensorScope(const SavedTensorScope&) = delete;
  SavedTensorScope& operator=(const SavedTensorScope&) = delete;
  ~SavedTensorScope();

 private:
  SavedTensorPolicy* outer_;
};

/// Once per process, before its first backward pass; again is harmless.
void install_saved_tensor_hooks();

}  // namespace trainctl::activation_checkpointing
