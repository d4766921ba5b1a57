#include "quantization/quantization.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <map>
#include <set>

#include "core/error.h"
#include "core/name_pattern.h"
#include "core/text.h"
#include "quantization/block/quantized_block.h"
#include "quantization/layer/quantized_embedding.h"
#include "quantization/layer/quantized_linear.h"
#include "quantization/layer/quantized_lstm.h"

namespace trainctl::quantization {
namespace {

constexpr const char* kAskedFor = "asked for";

std::string join(const std::string& prefix, const std::string& name) {
  if (prefix.empty()) return name;
  return name.empty() ? prefix : prefix + "." + name;
}

/// Returns the name of each layer in lists of state.
std::map<const model::Layer*, std::string> names_of_layers(model::Model& model) {
  std::map<const model::Layer*, std::string> names;
  model.visit_layers([&](const std::string& name, model::Layer& layer) { names[&layer] = name; });
  return names;
}

std::int64_t num_weights(model::Model& model, const std::string& layer) {
  std::int64_t count = 0;
  model.visit_parameters([&](const std::string& name, model::TensorDecl& decl) {
    if (name == join(layer, "weight")) count = decl.value.numel();
  });
  return count;
}

}  // namespace

bool rounds_activations_ahead(QuantizationMethod method) {
  return method == QuantizationMethod::static_ || method == QuantizationMethod::qat;
}

bool activations_exceed_seven_bits(const QuantizationRecipe& recipe) {
  if (recipe.method == QuantizationMethod::dynamic) return recipe.activation_bits > 7;
  return rounds_activations_ahead(recipe.method);
}

Quantization::Quantization(model::Model& model, const QuantizationRecipe& recipe, const at::Tensor& example,
                           TrainedLevelsByLayer trained)
    : model_(model), recipe_(recipe), trained_(std::move(trained)) {
  core::ensure(!model.is_training(), "what is quantized is the network in evaluation");
  select_backend(recipe.backend);
  if (rounds_activations_ahead(recipe.method)) {
    check_activations(recipe.activation_bits, recipe.activations);
    add_blocks(example);
  }
  add_layers();
  add_recurrences();
  check_patterns();
  if (parts_.empty()) throw core::Error("no layer of this model is left to quantize");
}

bool Quantization::wants_calibration() const {
  return rounds_activations_ahead(recipe_.method);
}

ObserverOptions Quantization::observer() const {
  return {.range = recipe_.observer,
          .percentile = recipe_.percentile,
          .bits = recipe_.activation_bits,
          .activations = recipe_.activations};
}

bool Quantization::wants(const std::string& name) {
  bool kept = false;
  for (const std::string& pattern : recipe_.skip_modules)
    if (core::matches_name(pattern, name)) {
      used_patterns_.push_back(pattern);
      kept = true;
    }
  return !kept;
}

const TrainedLevels* Quantization::trained(const std::string& name) const {
  const auto found = trained_.find(name);
  return found == trained_.end() ? nullptr : &found->second;
}

/// Returns the levels to which training rounded the input of a block.
std::optional<QParams> Quantization::trained_input(const std::string& block, const BlockGraph& graph) const {
  for (const BlockOp& op : graph.ops)
    if (const TrainedLevels* levels = trained(join(block, op.name));
        levels != nullptr && levels->input && std::count(op.inputs.begin(), op.inputs.end(), 0) > 0)
      return levels->input;
  return std::nullopt;
}

void Quantization::check_patterns() const {
  std::set<std::string> names;
  for (const LayerChoice& layer : layers_) names.insert(layer.name);
  for (const std::string& pattern : recipe_.skip_modules)
    if (std::find(used_patterns_.begin(), used_patterns_.end(), pattern) == used_patterns_.end())
      throw core::Error("skip_modules: no layer that could be quantized is called `" + pattern + "`")
          .hint("there are " + core::list_words(std::vector<std::string>(names.begin(), names.end())));
}

void Quantization::add(const std::string& name, model::UnaryLayer& layer, std::unique_ptr<QuantizedLayer> stand_in) {
  parts_.push_back({name, stand_in.get()});
  layer.set_override(std::move(stand_in));
}

/// Adds blocks of networks for images, as long as all of their operators have an eight-bit form.
void Quantization::add_blocks(const at::Tensor& example) {
  const at::NoGradGuard no_grad;
  const std::map<const model::Layer*, std::string> names = names_of_layers(model_);
  struct Found {
    model::UnaryLayer* layer;
    BlockGraph graph;
  };
  std::vector<std::optional<Found>> found;
  at::Tensor value = example;
  if (example.is_floating_point()) {
    for (const model::Block& block : model_.blocks()) {
      auto* layer = dynamic_cast<model::UnaryLayer*>(block.layer);
      if (layer == nullptr) break;
      std::string why;
      std::optional<BlockGraph> graph = capture(*layer, value, why);
      found.push_back(graph ? std::optional(Found{layer, fused(std::move(*graph))}) : std::nullopt);
      value = layer->forward(value);
    }
  }
  const QParamBuffers* given = nullptr;
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (!found[i]) {
      given = nullptr;
      continue;
    }
    const std::string& prefix = names.at(found[i]->layer);
    std::set<std::string> kept;
    QuantizedBlockOptions options{
        .label = prefix.empty() ? model_.blocks()[i].name : "",
        .given = given,
        .observer = observer(),
        .result = i + 1 < found.size() && found[i + 1] ? BlockResult::levels : BlockResult::floats,
        .backend = recipe_.backend,
        .engine_workarounds = recipe_.engine_workarounds,
        .is_quantized =
            [&](const std::string& name) {
              const bool wanted = wants(join(prefix, name));
              if (!wanted) kept.insert(join(prefix, name));
              return wanted;
            },
        .trained = [this, prefix](const std::string& name) { return trained(join(prefix, name)); },
        .trained_result = i + 1 < found.size() && found[i + 1]
                              ? trained_input(names.at(found[i + 1]->layer), found[i + 1]->graph)
                              : std::nullopt};
    auto stand_in = quantized_block(*found[i]->layer, std::move(found[i]->graph), options);
    given = &stand_in->output_levels();
    add(prefix, *found[i]->layer, std::move(stand_in));
    for (const QuantizedUnit& unit : parts_.back().layer->units())
      layers_.push_back({.name = join(prefix, unit.name), .num_weights = unit.num_weights});
    for (const std::string& name : kept)  // sums among them
      if (const std::int64_t count = num_weights(model_, name); count > 0)
        layers_.push_back({.name = name, .num_weights = count, .kept_because = kAskedFor});
  }
}

/// Adds products, tables and the head, each on its own, unless a quantized block has them already.
void Quantization::add_layers() {
  struct Named {
    std::string name;
    model::UnaryLayer* layer;
  };
  std::vector<Named> all;
  std::set<const model::Layer*> covered;
  model_.visit_layers([&](const std::string& name, model::Layer& layer) {
    if (auto* unary = dynamic_cast<model::UnaryLayer*>(&layer)) {
      if (unary->stand_in() != nullptr)
        unary->visit_layers([&](const std::string&, model::Layer& below) { covered.insert(&below); });
      if (!covered.contains(unary)) all.push_back({name, unary});
    }
  });
  model::VocabularyHead* head = model_.vocabulary_head();
  const std::string head_name = name_of_head(model_);
  std::map<const void*, QuantizedTable*> tables;  // by where their float rows lie
  const auto offer = [&](const Named& named, std::int64_t num_weights, std::string why_not, const auto& make) {
    if (why_not.empty() && !wants(named.name)) why_not = kAskedFor;
    layers_.push_back({.name = named.name, .num_weights = num_weights, .kept_because = why_not});
    if (why_not.empty()) add(named.name, *named.layer, make());
  };
  const WeightOnlyFormat format{.bits = recipe_.weight_bits, .group_size = recipe_.group_size};
  for (const Named& named : all) {
    if (auto* embedding = dynamic_cast<model::Embedding*>(named.layer)) {
      if (embedding->weight().size(0) < kFewRows) continue;
      const bool is_tied = head != nullptr && head->weight().data_ptr() == embedding->weight().data_ptr();
      offer(named, embedding->weight().numel(), is_tied && !wants(head_name) ? head_name + " shares it" : "", [&] {
        auto table = quantized_table(*embedding);
        tables[embedding->weight().data_ptr()] = table.get();
        return table;
      });
    } else if (auto* matrix = dynamic_cast<model::MatrixLayer*>(named.layer)) {
      const at::Tensor weight = matrix_of(*matrix);
      const bool only_weights = recipe_.method == QuantizationMethod::weight_only;
      offer(named, weight.numel(), only_weights ? refusal(format, weight.size(1), weight.size(0)) : "",
            [&]() -> std::unique_ptr<QuantizedLayer> {
              if (only_weights) return weight_only_linear(*matrix, format);
              return rounds_activations_ahead(recipe_.method)
                         ? static_linear(*matrix, {.backend = recipe_.backend,
                                                   .observer = observer(),
                                                   .trained = trained(named.name),
                                                   .engine_workarounds = recipe_.engine_workarounds})
                         : dynamic_linear(*matrix, recipe_.backend);
            });
    }
  }
  if (head == nullptr) return;
  const auto table = tables.find(head->weight().data_ptr());
  QuantizedTable* tied = table == tables.end() ? nullptr : table->second;
  offer({head_name, head}, tied ? 0 : head->weight().numel(), "", [&] {
    return quantized_head(
        *head, tied,
        recipe_.method == QuantizationMethod::weight_only ? HeadProduct::weight_only : HeadProduct::dynamic,
        recipe_.backend);
  });
}

/// Adds recurrent layers, by the one operator that has an eight-bit form.
void Quantization::add_recurrences() {
  std::vector<std::pair<std::string, model::LstmOperator*>> found;
  model_.visit_layers([&](const std::string& name, model::Layer& layer) {
    if (auto* lstm = dynamic_cast<model::LstmOperator*>(&layer)) found.emplace_back(name, lstm);
  });
  for (const auto& [name, lstm] : found) {
    std::int64_t num_weights = 0;
    for (const at::Tensor& weight : lstm->weights()) num_weights += weight.numel();
    std::string why = recipe_.method == QuantizationMethod::weight_only ? "no operator for its weights alone" : "";
    if (why.empty() && !wants(name)) why = kAskedFor;
    layers_.push_back({.name = name, .num_weights = num_weights, .kept_because = why});
    if (!why.empty()) continue;
    auto stand_in = quantized_lstm(*lstm, recipe_.backend);
    parts_.push_back({name, stand_in.get()});
    lstm->set_override(std::move(stand_in));
  }
}

void Quantization::watch() {
  for (const Part& part : parts_) part.layer->set_mode(LayerMode::watched, {});
}

void Quantization::convert() {
  const at::NoGradGuard no_grad;
  for (const Part& part : parts_) part.layer->convert();
  prepare();
  use([](const std::string&) { return true; });
}

void Quantization::use(const QuantizedLayer::UnitFilter& chosen) {
  for (const Part& part : parts_)
    part.layer->set_mode(LayerMode::quantized, [&](const std::string& unit) { return chosen(join(part.name, unit)); });
}

void Quantization::finish() {
  for (const Part& part : parts_) part.layer->finish();
}

void Quantization::prepare() {
  for (const Part& part : parts_) part.layer->prepare();
}

std::int64_t size_of(model::Model& model) {
  std::set<const void*> seen;
  std::int64_t bytes = 0;
  const auto count = [&](const std::string&, model::TensorDecl& decl) {
    if (seen.insert(decl.value.data_ptr()).second) bytes += static_cast<std::int64_t>(decl.value.nbytes());
  };
  model.visit_parameters(count);
  model.visit_buffers(count);
  return bytes;
}

}  // namespace trainctl::quantization
