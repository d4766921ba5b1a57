#include "model/lora.h"

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/name_pattern.h"
#include "core/text.h"
#include "model/config.h"
#include "model/layers/low_rank.h"

namespace trainctl::model {
namespace {

/// Lists the distinct last parts of the names, which targets usually give.
std::string short_names(const std::vector<std::string>& names) {
  std::set<std::string> last;
  for (const std::string& name : names) last.insert(name.substr(name.rfind('.') + 1));
  return core::list_words(std::vector<std::string>(last.begin(), last.end()));
}

struct NamedLayer {
  std::string name;
  MatrixLayer* layer;
};

std::vector<NamedLayer> matrix_layers(Model& model) {
  std::vector<NamedLayer> found;
  model.visit_layers([&](const std::string& name, Layer& layer) {
    if (auto* matrix = dynamic_cast<MatrixLayer*>(&layer)) found.push_back({name, matrix});
  });
  return found;
}

/// Heads, which begin afresh: the classifiers of all networks, BERT's pooler, and the second head of a distilled ViT.
std::vector<std::string> usual_heads() {
  std::vector<std::string> modules{"pooler", "head_dist"};
  for (const NetworkKind& network : kNetworkKinds)
    if (const std::string_view weight = *network.traits->classifier; !weight.empty())
      modules.emplace_back(weight.substr(0, weight.rfind('.')));
  return modules;
}

/// Freezes the other parameters; returns the names of those that stay trainable.
std::set<std::string> freeze(Model& model, const LoraConfig& config) {
  const std::vector<std::string> patterns = config.modules_to_save ? *config.modules_to_save : usual_heads();
  std::set<std::string> trained;
  std::set<std::string> used;
  model.visit_parameters([&](const std::string& name, TensorDecl& decl) {
    decl.trainable = false;
    for (const std::string& pattern : patterns) {
      if (!core::covers_parameter(pattern, name)) continue;
      decl.trainable = true;
      trained.insert(name);
      used.insert(pattern);
    }
  });
  if (!config.modules_to_save) return trained;
  for (const std::string& pattern : patterns)
    if (!used.contains(pattern))
      throw core::Error("model.lora.modules_to_save: no layer or parameter is called `" + pattern + "`");
  return trained;
}

}  // namespace

void add_adapters(Model& model, const LoraConfig& config) {
  const std::set<std::string> trained = freeze(model, config);
  std::vector<NamedLayer> layers = matrix_layers(model);
  std::vector<std::string> names;
  for (const NamedLayer& named : layers) names.push_back(named.name);
  for (const std::string& pattern : config.target_modules)
    if (std::none_of(names.begin(), names.end(),
                     [&](const std::string& name) { return core::matches_name(pattern, name); }))
      throw core::Error("model.lora.target_modules: no linear layer is called `" + pattern + "`")
          .hint(names.empty() ? "this model has no linear layer" : "there are " + short_names(names));
  const LowRankSpec spec{
      .rank = config.rank, .scale = config.alpha / static_cast<double>(config.rank), .dropout = config.dropout};
  bool has_adapters = config.target_modules.empty();
  for (const NamedLayer& named : layers) {
    const bool is_target =
        std::any_of(config.target_modules.begin(), config.target_modules.end(),
                    [&](const std::string& pattern) { return core::matches_name(pattern, named.name); });
    // A layer that is trained in full needs no adapter.
    if (!is_target || trained.contains(named.name + ".weight")) continue;
    named.layer->adapt(spec);
    has_adapters = true;
  }
  if (!has_adapters)
    throw core::Error(
        "model.lora.target_modules: no layer gets an adapter: model.lora.modules_to_save trains these in full")
        .hint(config.modules_to_save
                  ? "there are " + short_names(names)
                  : "modules_to_save is the classification head; set it to [], or name other layers");
}

void merge_adapters(Model& model) {
  for (const NamedLayer& named : matrix_layers(model)) named.layer->merge();
}

bool is_adapter(std::string_view parameter_name) {
  return parameter_name.ends_with(".lora_A.weight") || parameter_name.ends_with(".lora_B.weight");
}

}  // namespace trainctl::model
