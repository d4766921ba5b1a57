#include "exporters/dynamic_axes.h"

#include <ATen/ops/equal.h>
#include <torch/csrc/jit/ir/constants.h>

#include <map>
#include <optional>

#include "core/error.h"

namespace trainctl::exporters {
namespace {

using torch::jit::Node;
using torch::jit::Value;

/// The size factor · B^batch · T^length + offset.
struct Expression {
  std::int64_t factor = 1;
  int batch = 0;
  int length = 0;
  std::int64_t offset = 0;

  std::int64_t at(const AxisSizes& sizes) const {
    return factor * (batch != 0 ? sizes.batch : 1) * (length != 0 ? sizes.length : 1) + offset;
  }
  auto operator<=>(const Expression&) const = default;
};

/// Returns the simplest expression that gives both numbers.
std::optional<Expression> expression_of(std::int64_t first, const AxisSizes& at_first, std::int64_t second,
                                        const AxisSizes& at_second) {
  const auto fits = [&](const Expression& e) { return e.at(at_first) == first && e.at(at_second) == second; };
  for (const std::int64_t offset : {0, -1, 1})
    for (const Expression axis : {Expression{.batch = 1}, {.length = 1}, {.batch = 1, .length = 1}}) {
      const std::int64_t unit = axis.at(at_first);
      if (unit == 0 || (first - offset) % unit != 0) continue;
      Expression candidate = axis;
      candidate.factor = (first - offset) / unit;
      candidate.offset = offset;
      if (candidate.factor > 0 && fits(candidate)) return candidate;
    }
  return std::nullopt;
}

class Freeing {
 public:
  Freeing(const SizedGraph& graph, const SizedGraph& other) : graph_(graph), other_(other) {}

  void run() {
    auto theirs = other_.graph->nodes().begin();
    std::vector<std::pair<Node*, Expression>> found;
    for (Node* node : graph_.graph->nodes()) {
      if (theirs == other_.graph->nodes().end() || theirs->kind() != node->kind() ||
          theirs->inputs().size() != node->inputs().size())
        throw core::Error("the network computes other operators for other sizes: it can't be traced; first " +
                          describe(*node));
      if (node->kind() == c10::prim::Constant)
        if (const auto expression = compare(*node, **theirs)) found.emplace_back(node, *expression);
      ++theirs;
    }
    for (const auto& [node, expression] : found) node->output()->replaceAllUsesWith(value_of(expression));
    for (const auto& [node, expression] : found) node->destroy();
  }

 private:
  std::optional<Expression> compare(const Node& mine, const Node& theirs) const {
    const c10::IValue a = torch::jit::toIValue(mine.output()).value();
    const c10::IValue b = torch::jit::toIValue(theirs.output()).value();
    if (a.isTensor() && b.isTensor()) {
      if (a.toTensor().defined() == b.toTensor().defined() &&
          (!a.toTensor().defined() ||
           (a.toTensor().sizes() == b.toTensor().sizes() && at::equal(a.toTensor(), b.toTensor()))))
        return std::nullopt;
    } else if (a == b) {
      return std::nullopt;
    } else if (a.isInt() && b.isInt()) {
      if (auto expression = expression_of(a.toInt(), graph_.sizes, b.toInt(), other_.sizes)) return expression;
    }
    const auto& uses = mine.output()->uses();
    throw core::Error("a constant of " + (uses.empty() ? "the graph" : describe(*uses[0].user)) +
                      " depends on the batch's sizes in a way that no operator expresses");
  }

  /// Returns the value of an expression, computed once at the graph's start.
  Value* value_of(const Expression& expression) {
    const auto [at, is_new] = values_.try_emplace(expression, nullptr);
    if (!is_new) return at->second;
    Value* value = nullptr;
    if (expression.batch != 0) value = size(0);
    if (expression.length != 0) value = value == nullptr ? size(1) : binary(c10::aten::mul, value, size(1));
    if (expression.factor != 1) value = binary(c10::aten::mul, value, constant(expression.factor));
    if (expression.offset != 0) value = binary(c10::aten::add, value, constant(expression.offset));
    return at->second = value;
  }
  Value* size(std::int64_t dim) {
    Value*& value = sizes_[dim];
    if (value == nullptr) value = binary(c10::aten::size, graph_.graph->inputs()[1], constant(dim));
    return value;
  }
  Value* constant(std::int64_t number) {
    Node* node = graph_.graph->create(c10::prim::Constant);
    node->i_(c10::attr::value, number);
    return insert(node);
  }
  Value* binary(c10::Symbol kind, Value* left, Value* right) {
    return insert(graph_.graph->create(kind, {left, right}));
  }
  Value* insert(Node* node) {
    node->output()->setType(c10::IntType::get());
    if (last_ == nullptr)
      graph_.graph->prependNode(node);
    else
      node->insertAfter(last_);
    last_ = node;
    return node->output();
  }

  const SizedGraph& graph_;
  const SizedGraph& other_;
  Node* last_ = nullptr;  // of those inserted
  std::map<Expression, Value*> values_;
  std::map<std::int64_t, Value*> sizes_;
};

}  // namespace

std::string describe(const Node& node) {
  const std::string scope = node.scopeName();
  return std::string(node.kind().toQualString()) + (scope.empty() ? "" : " of " + scope);
}

void free_axes(const SizedGraph& graph, const SizedGraph& other) {
  Freeing(graph, other).run();
}

}  // namespace trainctl::exporters
