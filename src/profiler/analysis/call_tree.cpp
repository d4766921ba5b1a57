#include <algorithm>
#include <map>
#include <memory>

#include "core/units.h"
#include "profiler/analysis/analysis.h"

namespace trainctl::profiler {
namespace {

constexpr std::size_t kMaxNodes = 2000;

/// A tree of the paths of events; equal paths are one node.
class Tree {
 public:
  struct Node {
    std::int64_t ns = 0;
    std::int64_t calls = 0;
    std::map<std::int32_t, std::unique_ptr<Node>> children;
    std::vector<std::int32_t> order;  // in which they came
  };

  Node& child(Node& parent, std::int32_t name) {
    std::unique_ptr<Node>& slot = parent.children[name];
    if (!slot) {
      slot = std::make_unique<Node>();
      parent.order.push_back(name);
      ++num_nodes_;
    }
    return *slot;
  }
  Node& root() { return root_; }
  std::size_t num_nodes() const { return num_nodes_; }

 private:
  Node root_;
  std::size_t num_nodes_ = 1;
};

/// Returns the caller of each module, by the forward pass.
std::map<std::int32_t, std::int32_t> callers_of_modules(const Capture& capture) {
  std::map<std::int32_t, std::int32_t> callers;
  for (const CapturedEvent& event : capture.events)
    if (event.kind == EventKind::module)
      callers.try_emplace(event.name, event.parent < 0 ? -1 : capture.event(event.parent).module);
  return callers;
}

class Builder {
 public:
  explicit Builder(const Capture& capture) : capture_(capture), callers_(callers_of_modules(capture)) {}

  void add_all() {
    places_.resize(capture_.events.size(), nullptr);
    for (std::size_t i = 0; i < capture_.events.size(); ++i) add(i);
  }

  CallNode result() {
    std::vector<std::int64_t> times;
    collect(tree_.root(), times);
    std::ranges::sort(times, std::greater{});
    const std::int64_t least = times.size() > kMaxNodes ? times[kMaxNodes - 1] + 1 : 0;
    CallNode root = convert(tree_.root(), least);
    root.name = "step";
    return root;
  }

 private:
  using Node = Tree::Node;

  void add(std::size_t index) {
    const CapturedEvent& event = capture_.events[index];
    if (event.step < 0) return;
    Node* parent = event.parent < 0 ? orphan_parent(event) : places_[static_cast<std::size_t>(event.parent)];
    if (capture_.name_of(event.name).starts_with(kStepSpan)) {
      count(tree_.root(), event);
      places_[index] = &tree_.root();
      return;
    }
    if (parent == nullptr) return;
    if (event.is_backward && event.module >= 0) parent = &module_node(*parent, event);
    Node& node = tree_.child(*parent, event.name);
    count(node, event);
    places_[index] = &node;
  }

  static void count(Node& node, const CapturedEvent& event) {
    node.ns += event.duration_ns();
    ++node.calls;
  }

  /// Returns the parent of an event in autograd's own thread. Other threads do not belong to the step: null.
  Node* orphan_parent(const CapturedEvent& event) {
    if (!event.is_backward) return nullptr;
    const std::int32_t backward = capture_.find("backward");
    return backward < 0 ? nullptr : &tree_.child(tree_.root(), backward);
  }

  /// Returns the node of the event's module, below the chain of its callers. Each node of the chain gets the event's
  /// time.
  Node& module_node(Node& parent, const CapturedEvent& event) {
    std::vector<std::int32_t> chain;
    for (std::int32_t module = event.module; module >= 0;) {
      chain.push_back(module);
      const auto caller = callers_.find(module);
      module = caller == callers_.end() || chain.size() > callers_.size() ? -1 : caller->second;
    }
    Node* node = &parent;
    for (auto module = chain.rbegin(); module != chain.rend(); ++module) {
      node = &tree_.child(*node, *module);
      node->ns += event.duration_ns();
      if (module == std::prev(chain.rend())) ++node->calls;
    }
    return *node;
  }

  static void collect(const Node& node, std::vector<std::int64_t>& times) {
    times.push_back(node.ns);
    for (const auto& [name, child] : node.children) collect(*child, times);
  }

  CallNode convert(const Node& node, std::int64_t least) const {
    const double per_step = 1.0 / static_cast<double>(std::max<std::size_t>(1, capture_.steps.size()));
    CallNode result{.name = "",
                    .ms = static_cast<double>(node.ns) / core::kNsPerMs * per_step,
                    .self_ms = 0,
                    .calls = static_cast<double>(node.calls) * per_step,
                    .children = {}};
    result.self_ms = result.ms;
    for (const std::int32_t name : node.order) {
      const Node& child = *node.children.at(name);
      if (child.ns < least) continue;
      result.children.push_back(convert(child, least));
      result.children.back().name = capture_.name_of(name);
      result.self_ms -= result.children.back().ms;
    }
    result.self_ms = std::max(0.0, result.self_ms);
    return result;
  }

  const Capture& capture_;
  std::map<std::int32_t, std::int32_t> callers_;
  Tree tree_;
  std::vector<Node*> places_;  // by event; null: not in the tree
};

}  // namespace

CallNode analyse_calls(const Capture& capture) {
  Builder builder(capture);
  builder.add_all();
  return builder.result();
}

std::vector<ModuleSummary> analyse_modules(const Capture& capture, const std::vector<ModuleFacts>& modules) {
  const double per_step = 1.0 / static_cast<double>(std::max<std::size_t>(1, capture.steps.size()));
  struct Times {
    std::int64_t forward_ns = 0;
    std::int64_t backward_ns = 0;
    std::int64_t calls = 0;
    double flops = 0;
  };
  const std::map<std::int32_t, std::int32_t> callers = callers_of_modules(capture);
  std::map<std::int32_t, Times> times;
  // What is the module's is that of those it was called in.
  const auto for_chain = [&](std::int32_t module, const auto& visit) {
    for (std::size_t depth = 0; module >= 0 && depth <= callers.size(); ++depth) {
      visit(times[module]);
      const auto caller = callers.find(module);
      module = caller == callers.end() ? -1 : caller->second;
    }
  };
  for (const CapturedEvent& event : capture.events) {
    if (event.step < 0) continue;
    const bool in_backward = event.stage >= 0 && capture.name_of(event.stage) == "backward";
    if (event.kind == EventKind::module && !in_backward) {
      times[event.name].forward_ns += event.duration_ns();
      ++times[event.name].calls;
    }
    if (event.is_backward) for_chain(event.module, [&](Times& its) { its.backward_ns += event.duration_ns(); });
    if (event.flops > 0) for_chain(event.module, [&](Times& its) { its.flops += event.flops; });
  }
  std::vector<ModuleSummary> summary;
  for (const ModuleFacts& module : modules) {
    const auto found = times.find(capture.find(module.name));
    const Times its = found == times.end() ? Times{} : found->second;
    if (its.calls == 0 && its.backward_ns == 0) continue;
    summary.push_back({.name = module.name,
                       .is_block = module.is_block,
                       .forward_ms = static_cast<double>(its.forward_ns) / core::kNsPerMs * per_step,
                       .backward_ms = static_cast<double>(its.backward_ns) / core::kNsPerMs * per_step,
                       .calls = static_cast<double>(its.calls) * per_step,
                       .flops = its.flops * per_step,
                       .parameters_mib = static_cast<double>(module.parameter_bytes) / core::kMiB,
                       .activations_mib = 0,
                       .peak_mib = {}});
  }
  return summary;
}

}  // namespace trainctl::profiler
