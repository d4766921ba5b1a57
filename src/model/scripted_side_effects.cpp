#include "model/scripted_side_effects.h"

#include <torch/csrc/jit/api/function_impl.h>
#include <torch/csrc/jit/ir/ir.h>
#include <torch/csrc/jit/passes/inliner.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "core/error.h"

namespace trainctl::model {
namespace {

/// Refuses the block's calls of what a network has no use for. Returns whether calls remain whose targets only the run
/// knows: those of an interface's methods.
bool refuse_in(const torch::jit::Block& block, const std::string& path) {
  constexpr std::array<std::string_view, 6> kRefused = {"aten::from_file",      "aten::save",     "prim::PythonOp",
                                                        "prim::profile_ivalue", "aten::set_data", "prim::fork"};
  bool has_open_calls = false;
  for (const torch::jit::Node* node : block.nodes()) {
    const std::string_view kind = node->kind().toQualString();
    if (std::find(kRefused.begin(), kRefused.end(), kind) != kRefused.end())
      throw core::Error(path + " is refused: it calls " + std::string(kind) + ", which is no part of a network");
    has_open_calls |= node->kind() == torch::jit::prim::CallMethod;
    for (const torch::jit::Block* inner : node->blocks()) has_open_calls |= refuse_in(*inner, path);
  }
  return has_open_calls;
}

}  // namespace

void refuse_side_effects(const torch::jit::Method& forward, const std::string& path) {
  const std::shared_ptr<torch::jit::Graph> graph = forward.graph()->copy();
  torch::jit::Inline(*graph);
  if (!refuse_in(*graph->block(), path)) return;
  for (torch::jit::Function* function : forward.raw_owner()->compilation_unit()->get_functions())
    if (function->isGraphFunction()) refuse_in(*torch::jit::toGraphFunction(*function).graph()->block(), path);
}

}  // namespace trainctl::model
