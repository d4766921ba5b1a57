#include "activation_checkpointing/saved_tensors.h"

#include <torch/csrc/autograd/engine.h>

namespace trainctl::activation_checkpointing {
namespace {

/// The policy that autograd asks for at each saved tensor, on the thread that saves it.
thread_local SavedTensorPolicy* current_saved_policy = nullptr;

/// An engine that supplies the hooks of all saved tensors. LibTorch lets only Python set them, but asks its engine for
/// them.
class HookEngine final : public torch::autograd::Engine {
 public:
  /// Returns the process's engine: LibTorch keeps a function that returns one, not an object.
  static torch::autograd::Engine& get() {
    static HookEngine engine;
    return engine;
  }
  HookEngine(const HookEngine&) = delete;
  HookEngine& operator=(const HookEngine&) = delete;
  ~HookEngine() override { stop(); }

  std::unique_ptr<torch::autograd::SavedVariableHooks> get_default_saved_variable_hooks() override {
    return current_saved_policy == nullptr ? nullptr : current_saved_policy->hooks();
  }

 private:
  HookEngine() = default;
};

}  // namespace

SavedTensorScope::SavedTensorScope(SavedTensorPolicy& policy) : outer_(current_saved_policy) {
  current_saved_policy = &policy;
}

SavedTensorScope::~SavedTensorScope() {
  current_saved_policy = outer_;
}

void install_saved_tensor_hooks() {
  torch::autograd::set_default_engine_stub(&HookEngine::get);
}

}  // namespace trainctl::activation_checkpointing
