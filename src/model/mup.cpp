#include "model/mup.h"

#include <cmath>
#include <map>
#include <set>

#include "core/error.h"
#include "model/layers/layer_norm.h"
#include "model/layers/rms_norm.h"
#include "model/networks.h"

namespace trainctl::model {
namespace {

struct Scales {
  double value = 1;  // of the first values of the base network
  double lr = 1;
};

/// Returns whether the dim's size differs between the network and its base.
std::vector<bool> wide_dims(const at::Tensor& own, const at::Tensor& base) {
  std::vector<bool> wide;
  for (std::int64_t dim = 0; dim < own.dim(); ++dim) wide.push_back(own.size(dim) != base.size(dim));
  return wide;
}

Scales scales_of(const at::Tensor& own, const at::Tensor& base, ParameterRole role, double ratio) {
  const std::vector<bool> wide = wide_dims(own, base);
  const auto num_wide = std::count(wide.begin(), wide.end(), true);
  if (num_wide == 0 || role == ParameterRole::vector || role == ParameterRole::embedding) return {};
  if (num_wide > 1) return {.value = 1 / std::sqrt(ratio), .lr = 1 / ratio};
  // A single wide dim: from inputs to features, or from features to outputs.
  if (role == ParameterRole::hidden && wide.front()) return {};
  return {.value = 1 / ratio, .lr = 1 / ratio};
}

/// Returns the parameters of the head's last norm, whose weight starts at 1; empty: there is no such norm.
std::set<const TensorDecl*> last_norm(VocabularyHead& head) {
  Layer* norm = nullptr;
  head.visit_layers([&](const std::string&, Layer& layer) {
    if (dynamic_cast<LayerNorm*>(&layer) != nullptr || dynamic_cast<RmsNorm*>(&layer) != nullptr) norm = &layer;
  });
  std::set<const TensorDecl*> parameters;
  bool starts_at_one = false;
  if (norm != nullptr)
    norm->visit_own_parameters([&](TensorDecl& decl) {
      starts_at_one = starts_at_one || (decl.init.kind == Init::Kind::constant && decl.init.a == 1);
      parameters.insert(&decl);
    });
  return starts_at_one ? parameters : std::set<const TensorDecl*>{};
}

Init scaled(Init init, double scale) {
  if (init.kind != Init::Kind::normal) init.a *= scale;
  init.b *= scale;
  return init;
}

}  // namespace

void parametrize(Model& model, const ModelConfig& config, const InputSpec& input) {
  const std::int64_t base_width = config.mup->base_width;
  const double ratio = static_cast<double>(width_of(config.network).value()) / static_cast<double>(base_width);
  const std::unique_ptr<Model> base =
      at_width(config.network, base_width).visit([&](const auto& network) { return build(network, input); });
  std::map<std::string, const TensorDecl*> base_decls;
  base->visit_parameters([&](const std::string& name, TensorDecl& decl) { base_decls.emplace(name, &decl); });

  std::set<const TensorDecl*> before_output;
  if (model.shared_head_weight() != nullptr) {
    before_output = last_norm(*model.vocabulary_head());
    if (before_output.empty())
      throw core::Error(
          "model.mup: the output layer has the token embeddings as weights, and no norm before it whose "
          "weights start at 1")
          .hint("set model.tie_embeddings: false");
  }
  const std::map<std::string, ParameterFacts> facts = parameter_facts(model);
  model.visit_parameters([&](const std::string& name, TensorDecl& decl) {
    const auto found = base_decls.find(name);
    if (found == base_decls.end())
      throw core::Error("model.mup: the network of width " + std::to_string(base_width) + " has no " + name)
          .hint("choose a larger model.mup.base_width");
    const TensorDecl& before = *found->second;
    Scales scales = scales_of(decl.value, before.value, facts.at(name).role, ratio);
    if (before_output.contains(&decl)) scales = {.value = 1 / ratio, .lr = 1 / ratio};
    decl.init = scaled(before.init, scales.value);
    decl.lr_scale = scales.lr;
  });
}

}  // namespace trainctl::model
