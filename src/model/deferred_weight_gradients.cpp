#include "model/deferred_weight_gradients.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/functions/basic_ops.h>

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
  /// What one call keeps. Lives in the graph, and then in the queue. It holds edges of the cut graph, and no value of
  /// input or output. Only the graph saves values, so that activation checkpointing can drop them.
  struct Call final : torch::CustomClassHolder {
    torch::autograd::Edge input;  // invalid: it needs no gradient
    torch::autograd::Edge output;
    std::vector<at::Tensor> weights;
    std::shared_ptr<Queue> queue;

    torch::autograd::variable_list run(const at::Tensor& gradient, const torch::autograd::edge_list& wanted,
                                       bool keeps_graph, bool accumulates) const {
      return torch::autograd::Engine::get_default_engine().execute({output}, {gradient}, keeps_graph,
                                                                   /*create_graph=*/false, accumulates, wanted);
    }
    at::Tensor input_gradient(const at::Tensor& gradient) const {
      if (!input.is_valid()) return {};
      return run(gradient, {input}, /*keeps_graph=*/true, /*accumulates=*/false).front();
    }
    void add_weight_gradients(const at::Tensor& gradient) const {
      torch::autograd::edge_list wanted;
      for (const at::Tensor& weight : weights) wanted.push_back(torch::autograd::impl::gradient_edge(weight));
      run(gradient, wanted, /*keeps_graph=*/false, /*accumulates=*/true);
    }
  };

  /// `anchor`, which requires a gradient and gets none, lets the output require one where the input doesn't.
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& input, const at::Tensor&,
                            const std::function<at::Tensor(const at::Tensor&)>& compute,
                            const c10::intrusive_ptr<Call>& call) {
    const at::AutoGradMode with_graph(true);
    at::Tensor inner = input.detach();
    // A leaf's node would hold the value of the input.
    if (input.requires_grad())
      torch::autograd::create_gradient_edge(inner, std::make_shared<torch::autograd::Identity>());
    const at::Tensor output = compute(inner);
    if (input.requires_grad()) call->input = torch::autograd::impl::gradient_edge(inner);
    call->output = torch::autograd::impl::gradient_edge(output);
    context->saved_data["call"] = c10::IValue::make_capsule(call);
    return output.detach();
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    const auto capsule = context->saved_data.at("call").toCapsule();
    const auto call = c10::static_intrusive_pointer_cast<Call>(capsule);
    context->saved_data.clear();
    const at::Tensor input_gradient = call->input_gradient(gradients[0]);
    const std::lock_guard lock(call->queue->mutex);
    call->queue->work.push_back([call, gradient = gradients[0]] { call->add_weight_gradients(gradient); });
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
