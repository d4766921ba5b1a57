#include "exporters/trace.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/jit/frontend/tracer.h>
#include <torch/csrc/jit/ir/scope.h>
#include <torch/csrc/jit/passes/dead_code_elimination.h>

#include <algorithm>
#include <map>
#include <memory>

#include "core/error.h"
#include "exporters/dynamic_axes.h"
#include "kernels/portable.h"

namespace trainctl::exporters {
namespace {

using torch::jit::Graph;
using torch::jit::Module;

enum class TensorKind { parameter, buffer };

/// A tree of tensors by the parts of their names.
struct Branch {
  std::map<std::string, Branch> children;
  std::vector<std::tuple<std::string, at::Tensor, TensorKind>> tensors;

  void add(const std::string& name, const at::Tensor& tensor, TensorKind kind) {
    const std::size_t dot = name.find('.');
    if (dot == std::string::npos)
      tensors.emplace_back(name, tensor, kind);
    else
      children[name.substr(0, dot)].add(name.substr(dot + 1), tensor, kind);
  }
};

Module module_of(const Branch& branch, const std::shared_ptr<torch::jit::CompilationUnit>& unit) {
  Module module("__torch__.trainctl.Module", unit, /*shouldMangle=*/true);
  module.register_attribute("training", c10::BoolType::get(), false);
  for (const auto& [name, tensor, kind] : branch.tensors)
    module.register_parameter(name, tensor, kind == TensorKind::buffer);
  for (const auto& [name, child] : branch.children) {
    std::string own = name;  // the factors of a layer_scale have their layer's name, and its levels begin with it
    while (module.hasattr(own) || (own != name && branch.children.contains(own))) own += '_';
    module.register_module(own, module_of(child, unit));
  }
  return module;
}

Module mirror(model::Model& model) {
  Branch root;
  model.visit_parameters([&](const std::string& name, model::TensorDecl& decl) {
    decl.value.requires_grad_(true);  // what adapters froze, too: they are merged
    root.add(name, decl.value, TensorKind::parameter);
  });
  model.visit_buffers(
      [&](const std::string& name, model::TensorDecl& decl) { root.add(name, decl.value, TensorKind::buffer); });
  return module_of(root, std::make_shared<torch::jit::CompilationUnit>());
}

/// A scope in which blocks' names become the scopes of their nodes.
class NamedBlocks {
 public:
  explicit NamedBlocks(model::Model& model) : model_(model), before_(model.block_runner()) {
    model_.set_block_runner([](const model::Block& block, const at::Tensor& input,
                               const model::SequenceContext& context) {
      const auto& graph = torch::jit::tracer::getTracingState()->graph;
      const torch::jit::WithCurrentScope scope(*graph, graph->current_scope()->push(c10::Symbol::scope(block.name)));
      return block.forward(input, context);
    });
  }
  NamedBlocks(const NamedBlocks&) = delete;
  NamedBlocks& operator=(const NamedBlocks&) = delete;
  ~NamedBlocks() { model_.set_block_runner(before_); }

 private:
  model::Model& model_;
  model::BlockRunner before_;
};

at::Tensor example(const GraphInput& input, const Signature& signature, const AxisSizes& sizes) {
  std::vector<std::int64_t> shape = input.shape;
  std::replace(shape.begin(), shape.end(), kBatchAxis, sizes.batch);
  std::replace(shape.begin(), shape.end(), kSequenceAxis, sizes.length);
  switch (input.role) {
    case InputRole::values:
      return signature.is_sequence() ? at::randint(signature.vocab_size, shape, at::kLong) : at::rand(shape);
    case InputRole::attention_mask:
      return at::ones(shape, at::kLong);
    case InputRole::token_types:
      return at::zeros(shape, at::kLong);
  }
  throw std::logic_error("unknown role");
}

SizedGraph trace_at(model::Model& model, const Signature& signature, Module& module, const AxisSizes& sizes) {
  torch::jit::Stack inputs;
  std::vector<std::string> names;
  for (const GraphInput& input : signature.inputs) {
    inputs.emplace_back(example(input, signature, sizes));
    names.push_back(input.name);
  }
  const NamedBlocks named(model);
  const auto forward = [&](const torch::jit::Stack& given) -> torch::jit::Stack {
    const torch::jit::tracer::NoWarn quiet;
    std::vector<at::Tensor> tensors;
    for (const c10::IValue& value : given) tensors.push_back(value.toTensor());
    const at::Tensor outputs = model.forward(model_input(signature, tensors));
    if (!signature.restores_labels()) return {outputs};
    return {outputs.to(at::kDouble).mul(signature.labels.deviation).add(signature.labels.mean)};
  };
  const auto no_name = [](const at::Tensor&) { return std::string(); };
  const auto traced = torch::jit::tracer::trace(std::move(inputs), forward, no_name, /*strict=*/true,
                                                /*force_outplace=*/true, &module, names);
  return {.graph = traced.first->graph, .sizes = sizes};
}

}  // namespace

Module trace(model::Model& model, const Signature& signature) {
  core::ensure(!model.is_training(), "what is exported is the network in evaluation");
  if (signature.longest == 1) throw core::Error("sequences of one token leave no free axis to export");
  const kernels::PortableOperators portable;
  const at::NoGradGuard no_grad;
  Module module = mirror(model);
  const bool is_short = signature.longest < 9;
  const SizedGraph first =
      trace_at(model, signature, module, {.batch = 2, .length = is_short ? signature.longest - 1 : 5});
  const SizedGraph second =
      trace_at(model, signature, module, {.batch = 5, .length = is_short ? signature.longest : 9});
  free_axes(first, second);
  torch::jit::EliminateDeadCode(first.graph);
  const auto name = c10::QualifiedName(*module.type()->name(), "forward");
  module.type()->addMethod(module._ivalue()->compilation_unit()->create_function(name, first.graph));
  return module;
}

void follow_training_flag(Module& module) {
  const std::shared_ptr<Graph> graph = module.get_method("forward").graph();
  torch::jit::Value* flag = nullptr;
  for (torch::jit::Node* node : graph->nodes()) {
    const torch::jit::FunctionSchema* schema = node->maybeSchema();
    if (schema == nullptr) continue;
    for (std::size_t i = 0; i < node->inputs().size(); ++i) {
      const std::string& argument = schema->arguments()[i].name();
      if (argument != "train" && argument != "training") continue;
      if (flag == nullptr) {
        torch::jit::Node* get = graph->createGetAttr(graph->inputs()[0], "training");
        graph->prependNode(get);
        flag = get->output();
      }
      node->replaceInput(i, flag);
    }
  }
}

}  // namespace trainctl::exporters
