#include "quantization/quantization.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <map>
#include <set>

#include "core/error.h"
#include "core/name_pattern.h"
#include "core/text.h"
#include "model/layer_list/operators.h"
#include "model/layers/batch_norm.h"
#include "model/layers/convolution.h"
#include "model/layers/embedding.h"
#include "model/layers/layer_norm.h"
#include "model/layers/rms_norm.h"
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

std::int64_t num_weights(model::Model& model, const std::string& layer) {
  std::int64_t count = 0;
  model.visit_parameters([&](const std::string& name, model::TensorDecl& decl) {
    if (name == join(layer, "weight")) count = decl.value.numel();
  });
  return count;
}

/// Returns what a layer is called among the layers of a list, if it is one of them.
std::string_view kind_of(const model::Layer& layer) {
  if (dynamic_cast<const model::Convolution*>(&layer) != nullptr) return "conv2d";
  if (dynamic_cast<const model::TransposedConvolution*>(&layer) != nullptr) return "conv_transpose2d";
  if (dynamic_cast<const model::BatchNorm*>(&layer) != nullptr) return "batch_norm";
  if (dynamic_cast<const model::LayerNorm*>(&layer) != nullptr) return "layer_norm";
  if (dynamic_cast<const model::RmsNorm*>(&layer) != nullptr) return "rms_norm";
  if (dynamic_cast<const model::GroupNorm*>(&layer) != nullptr) return "group_norm";
  if (dynamic_cast<const model::LayerScale*>(&layer) != nullptr) return "layer_scale";
  if (dynamic_cast<const model::Embedding*>(&layer) != nullptr) return "embedding";
  if (dynamic_cast<const model::PositionEmbedding*>(&layer) != nullptr) return "position_embedding";
  return "layer";
}

/// Returns the convolution as a block of its own.
BlockGraph graph_of(model::Convolution& layer) {
  const ConvolutionOp convolution{.weight = own_parameter(layer, "weight"),
                                  .bias = own_parameter(layer, "bias"),
                                  .shape = {.stride = {layer.spec().stride, layer.spec().stride},
                                            .padding = {layer.spec().padding_or_same(), layer.spec().padding_or_same()},
                                            .dilation = {layer.spec().dilation, layer.spec().dilation},
                                            .groups = layer.spec().groups}};
  return {.ops = {{.what = convolution, .inputs = {0}, .output = 1}}, .num_values = 2, .output = 1};
}

}  // namespace

bool rounds_activations_ahead(QuantizationMethod method) {
  return method == QuantizationMethod::static_ || method == QuantizationMethod::qat;
}

bool activations_exceed_seven_bits(const QuantizationRecipe& recipe) {
  if (recipe.method == QuantizationMethod::dynamic) return recipe.activation_bits > 7;
  return rounds_activations_ahead(recipe.method);
}

void check_weights(const QuantizationRecipe& recipe) {
  const std::int64_t bits = recipe.weight_bits;
  const std::int64_t size = recipe.group_size;
  const std::string subject = "weights of " + std::to_string(bits) + " bits in groups of " + std::to_string(size);
  if (recipe.method != QuantizationMethod::weight_only) {
    if (bits == 8 && size == 0) return;
    throw core::Error(subject + " are weight_only's, and the method is " + std::string(config::name_of(recipe.method)) +
                      "; expected 8 bits and group size 0");
  }
  if (bits != 8 && bits != 4) throw core::Error(subject + ": expected 8 or 4 bits");
  const std::span<const std::int64_t> sizes = std::span(kGroupSizes).subspan(bits == 4 ? 1 : 0);
  if (std::find(sizes.begin(), sizes.end(), size) != sizes.end()) return;
  std::vector<std::string> words;
  for (const std::int64_t one : sizes) words.push_back(std::to_string(one));
  throw core::Error(subject + ": expected a group size of " + core::list_words(words, "or"));
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
  list_floats();
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

/// Returns the levels to which training rounded what these blocks read; none if it didn't.
std::optional<QParams> Quantization::trained_input(std::span<const CapturedBlock> blocks) const {
  for (const CapturedBlock& block : blocks) {
    if (!block.graph) return std::nullopt;
    const std::vector<std::size_t> ranges = ranges_of(*block.graph);
    for (const BlockOp& op : block.graph->ops) {
      const TrainedLevels* levels = is_product(op.what) ? trained(join(block.name, op.name)) : nullptr;
      if (levels != nullptr && levels->input && ranges[op.inputs[0]] == 0) return levels->input;
    }
    if (ranges[block.graph->output] != 0) return std::nullopt;
  }
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

/// Throws if a layer has the name of what eight bits add: a file has one tensor of each name.
void Quantization::check_names() const {
  std::set<std::string> names;
  const auto take = [&](const std::string& name, model::TensorDecl&) {
    if (!names.insert(name).second)
      throw core::Error("model.layers: quantization adds a tensor called `" + name +
                        "`, which is another layer's; expected another name for that layer");
  };
  model_.visit_parameters(take);
  model_.visit_buffers(take);
}

void Quantization::add(const std::string& name, model::UnaryLayer& layer, std::unique_ptr<QuantizedLayer> stand_in) {
  parts_.push_back({name, stand_in.get()});
  layer.set_override(std::move(stand_in));
}

/// Adds blocks of networks for images, as long as all of their operators have an eight-bit form.
void Quantization::add_blocks(const at::Tensor& example) {
  if (!example.is_floating_point()) return;
  std::vector<CapturedBlock> blocks = capture_blocks(model_, example);
  const QParamBuffers* given = nullptr;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    if (!blocks[i].graph) {
      given = nullptr;
      continue;
    }
    const std::string& prefix = blocks[i].name;
    const std::span<const CapturedBlock> next = std::span(blocks).subspan(i + 1);
    for (const BlockOp& op : blocks[i].graph->ops)
      if (const auto* leaf = std::get_if<LayerOp>(&op.what)) float_leaves_.insert(leaf->layer);
    std::set<std::string> kept;
    QuantizedBlockOptions options{
        .label = prefix.empty() ? model_.blocks()[i].name : "",
        .given = given,
        .observer = observer(),
        .result = !next.empty() && next[0].graph ? BlockResult::levels : BlockResult::floats,
        .backend = recipe_.backend,
        .engine_workarounds = recipe_.engine_workarounds,
        .is_quantized =
            [&](const std::string& name) {
              const bool wanted = wants(join(prefix, name));
              if (!wanted) kept.insert(join(prefix, name));
              return wanted;
            },
        .trained = [this, prefix](const std::string& name) { return trained(join(prefix, name)); },
        .trained_result = trained_input(next)};
    auto stand_in = quantized_block(*blocks[i].layer, std::move(*blocks[i].graph), options);
    given = &stand_in->output_levels();
    add(prefix, *blocks[i].layer, std::move(stand_in));
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
      const std::int64_t num_weights = embedding->weight().numel();
      if (embedding->weight().size(0) < kFewRows) {
        layers_.push_back({.name = named.name,
                           .num_weights = num_weights,
                           .kept_because = "embedding of fewer than " + core::format_count(kFewRows) + " rows"});
        continue;
      }
      const bool is_tied = head != nullptr && head->weight().data_ptr() == embedding->weight().data_ptr();
      offer(named, num_weights, is_tied && !wants(head_name) ? head_name + " shares it" : "", [&] {
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
    } else if (auto* convolution = dynamic_cast<model::Convolution*>(named.layer)) {
      const std::string why_not = rounds_activations_ahead(recipe_.method)
                                      ? ""
                                      : "conv2d: " + std::string(config::name_of(recipe_.method)) +
                                            " rounds matrices alone; static converts convolutions";
      offer(named, own_parameter(*convolution, "weight").numel(), why_not, [&] {
        return quantized_block(*convolution, graph_of(*convolution),
                               {.observer = observer(),
                                .result = BlockResult::floats,
                                .backend = recipe_.backend,
                                .engine_workarounds = recipe_.engine_workarounds,
                                .is_quantized = [](const std::string&) { return true; },
                                .trained = [this, name = named.name](const std::string&) { return trained(name); }});
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

/// Lists the layers with weights that no stand-in has.
void Quantization::list_floats() {
  std::set<const model::Layer*> covered;
  std::set<std::string> listed;
  for (const LayerChoice& layer : layers_) listed.insert(layer.name);
  model_.visit_layers([&](const std::string& name, model::Layer& layer) {
    auto* unary = dynamic_cast<model::UnaryLayer*>(&layer);
    if (unary != nullptr && unary->stand_in() != nullptr)
      layer.visit_layers([&](const std::string&, model::Layer& below) {
        if (!float_leaves_.contains(&below)) covered.insert(&below);
      });
    if (covered.contains(&layer) || listed.contains(name)) return;
    constexpr std::string_view kWeight = ".weight";
    std::int64_t count = 0;
    std::string path;  // some layers have their parent's name, and their parameters the rest
    layer.visit_own_parameters([&](model::TensorDecl& decl) {
      if (count == 0) path = join(name, decl.name);
      count += decl.value.numel();
    });
    if (path.ends_with(kWeight)) path.resize(path.size() - kWeight.size());
    if (count > 0 && !listed.contains(path))
      layers_.push_back({.name = path,
                         .num_weights = count,
                         .kept_because = std::string(kind_of(layer)) + " has no eight-bit form here"});
  });
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
  check_names();
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
