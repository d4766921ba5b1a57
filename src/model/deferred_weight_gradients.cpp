#include "model/deferred_weight_gradients.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

#include <mutex>
#include <utility>

#include "model/layers/low_rank.h"

namespace trainctl::model {

struct DeferredWeightGradients::Queue {
  std::mutex mutex;  // a GPU's backward pass runs on a thread of its own
  Work work;
};

/// A layer whose graph is cut off from that around it, so that a backward pass can go through it to the input alone.
struct DeferredWeightGradients::Product final : torch::autograd::Function<Product> {
  /// What one call keeps. Lives in the graph, and then in the queue.
  struct Call final : torch::CustomClassHolder {
    at::Tensor input;
    at::Tensor output;
    std::vector<at::Tensor> weights;
    std::shared_ptr<Queue> queue;
  };

  /// `anchor`, which requires a gradient and gets none, lets the output require one where the input doesn't.
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& input, const at::Tensor&,
                            const std::function<at::Tensor(const at::Tensor&)>& compute,
                            const c10::intrusive_ptr<Call>& call) {
    const at::AutoGradMode with_graph(true);
    call->input = input.detach().requires_grad_(input.requires_grad());
    call->output = compute(call->input);
    context->saved_data["call"] = c10::IValue::make_capsule(call);
    return call->output.detach();
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    const auto capsule = context->saved_data.at("call").toCapsule();
    const auto call = c10::static_intrusive_pointer_cast<Call>(capsule);
    context->saved_data.clear();
    at::Tensor input_gradient;
    if (call->input.requires_grad())
      input_gradient =
          torch::autograd::grad({call->output}, {call->input}, {gradients[0]}, /*retain_graph=*/true).front();
    const std::lock_guard lock(call->queue->mutex);
    call->queue->work.push_back([call, gradient = gradients[0]] {
      call->output.backward(gradient, /*retain_graph=*/false, /*create_graph=*/false, call->weights);
    });
    return {input_gradient, at::Tensor(), at::Tensor(), at::Tensor()};
  }
};

class DeferredWeightGradients::Override final : public LayerOverride {
 public:
  explicit Override(std::shared_ptr<Queue> queue) : queue_(std::move(queue)) {}

  at::Tensor compute(UnaryLayer& layer, const at::Tensor& input) override {
    auto call = c10::make_intrusive<Product::Call>();
    layer.visit_parameters([&](const std::string&, TensorDecl& decl) {
      if (decl.value.requires_grad()) call->weights.push_back(decl.value);
    });
    if (!c10::GradMode::is_enabled() || call->weights.empty()) return layer.compute(input);
    call->queue = queue_;
    const at::Tensor anchor = at::empty({0}, at::kFloat).requires_grad_(true);
    return Product::apply(
        input, anchor, [&layer](const at::Tensor& value) { return layer.compute(value); }, call);
  }

 private:
  std::shared_ptr<Queue> queue_;
};

DeferredWeightGradients::DeferredWeightGradients(Model& model) : queue_(std::make_shared<Queue>()) {
  for (const Block& block : model.blocks()) {
    if (block.layer == model.vocabulary_head()) continue;
    std::vector<MatrixLayer*> layers;
    block.layer->visit_layers([&](const std::string&, Layer& layer) {
      auto* matrix = dynamic_cast<MatrixLayer*>(&layer);
      if (matrix != nullptr && matrix->stand_in() == nullptr) layers.push_back(matrix);
    });
    for (MatrixLayer* layer : layers) layer->set_override(std::make_unique<Override>(queue_));
  }
}

DeferredWeightGradients::Work DeferredWeightGradients::take() {
  const std::lock_guard lock(queue_->mutex);
  return std::exchange(queue_->work, {});
}

}  // namespace trainctl::model
