#include "quantization/training.h"

#include <ATen/ops/zeros.h>

#include <algorithm>

#include "core/error.h"
#include "core/name_pattern.h"
#include "model/layers/batch_norm.h"
#include "model/layers/convolution.h"
#include "model/layers/embedding.h"
#include "model/layers/low_rank.h"
#include "model/layers/transposed_linear.h"
#include "quantization/block/block_graph.h"
#include "quantization/layer/quantized_embedding.h"
#include "quantization/qat/fake_quantize.h"
#include "runtime/fake_tensor.h"

namespace trainctl::quantization {
namespace {

/// A scope in which the layer has another weight.
class OtherWeight {
 public:
  OtherWeight(model::TensorDecl& decl, at::Tensor value)
      : decl_(decl), own_(std::exchange(decl.value, std::move(value))) {}
  OtherWeight(const OtherWeight&) = delete;
  OtherWeight& operator=(const OtherWeight&) = delete;
  ~OtherWeight() { decl_.value = std::move(own_); }

 private:
  model::TensorDecl& decl_;
  at::Tensor own_;
};

struct RoundedParts {
  bool input = false;
  bool output = false;
  model::TensorDecl* weight = nullptr;
  std::int64_t out_dim = 0;
};

class RoundedStandIn : public model::LayerOverride {
 public:
  void set_phase(const RoundingPhase& phase) { phase_ = phase; }

 protected:
  RoundingPhase phase_;
};

/// An override of an embedding, which only has to round rows.
class RoundedTable final : public RoundedStandIn {
 public:
  at::Tensor compute(model::UnaryLayer& layer, const at::Tensor& ids) override {
    const at::Tensor rows = layer.compute(ids);
    return phase_.rounds ? rounded_rows(rows) : rows;
  }
};

/// An override of a layer, which computes in floats on rounded values.
class RoundedLayer final : public RoundedStandIn {
 public:
  RoundedLayer(const RoundedParts& parts, ScaleSource step_size, const RoundingLevels& levels)
      : input_(parts.input ? &child<ActivationRounding>("input_rounding", step_size, levels) : nullptr),
        weight_(parts.weight == nullptr
                    ? nullptr
                    : &child<WeightRounding>("weight_rounding", step_size, parts.weight->value, parts.out_dim)),
        output_(parts.output ? &child<ActivationRounding>("output_rounding", step_size, levels) : nullptr),
        decl_(parts.weight) {}

  at::Tensor compute(model::UnaryLayer& layer, const at::Tensor& input) override {
    const at::Tensor value = input_ == nullptr ? input : (*input_)(input, phase_);
    const at::Tensor result = multiply(layer, value);
    return output_ == nullptr ? result : (*output_)(result, phase_);
  }
  TrainedLevels levels() const {
    return {.input = input_ == nullptr ? std::nullopt : input_->levels(),
            .output = output_ == nullptr ? std::nullopt : output_->levels(),
            .weight_scales = weight_ == nullptr ? at::Tensor() : weight_->scales()};
  }

 private:
  at::Tensor multiply(model::UnaryLayer& layer, const at::Tensor& value) {
    if (weight_ == nullptr) return layer.compute(value);
    const OtherWeight rounded(*decl_, (*weight_)(decl_->value, phase_));
    return layer.compute(value);
  }

  ActivationRounding* input_;
  WeightRounding* weight_;
  ActivationRounding* output_;
  model::TensorDecl* decl_;
};

model::TensorDecl* weight_decl(model::Layer& layer) {
  model::TensorDecl* found = nullptr;
  layer.visit_parameters([&](const std::string& name, model::TensorDecl& decl) {
    if (name == "weight") found = &decl;
  });
  return found;
}

bool matches_any(const std::vector<std::string>& patterns, const std::string& name) {
  return std::any_of(patterns.begin(), patterns.end(),
                     [&](const std::string& pattern) { return core::matches_name(pattern, name); });
}

}  // namespace

std::set<std::string> layers_before_sums(const model::ModelConfig& config, const model::InputSpec& input) {
  std::set<std::string> names;
  if (input.shape.size() != 3) return names;
  const runtime::RealScope real;  // a planner's tensors leave no trace of the operators that make them
  const std::unique_ptr<model::Model> model = model::build(config, input);
  model::materialize(*model, at::kCPU, /*seed=*/0, /*channels_last=*/false);
  model->set_training(false);
  std::vector<std::int64_t> shape = input.shape;
  shape.insert(shape.begin(), 1);
  const std::vector<CapturedBlock> blocks = capture_blocks(*model, at::zeros(shape));
  for (const CapturedBlock& block : blocks) {
    if (!block.graph) continue;
    std::set<std::size_t> summed;
    for (const BlockOp& op : block.graph->ops)
      if (std::holds_alternative<AddOp>(op.what)) summed.insert(op.inputs.begin(), op.inputs.end());
    for (const BlockOp& op : block.graph->ops) {
      if (!is_product(op.what) || op.then_relu || !summed.contains(op.output)) continue;
      const std::string& name = op.norm_name.empty() ? op.name : op.norm_name;
      names.insert(block.name.empty() ? name : block.name + "." + name);
    }
  }
  return names;
}

std::int64_t trained_activation_bits(const QuantizationConfig& config) {
  if (config.activation_bits.value) return *config.activation_bits.value;
  return activation_bits(resolved(config.backend, RowsAtOnce::many, config.activation_scheme));
}

QuantizedTraining::QuantizedTraining(model::Model& model, const QuantizationConfig& config,
                                     const std::set<std::string>& before_sums)
    : model_(model), config_(*config.training.get_if<QatConfig>()) {
  const RoundingLevels levels{.bits = trained_activation_bits(config), .activations = config.activation_scheme};
  check_activations(levels.bits, levels.activations);
  std::vector<std::pair<model::UnaryLayer*, RoundedParts>> found;
  std::vector<model::UnaryLayer*> tables;
  std::vector<std::string> seen;
  model::VocabularyHead* head = model.vocabulary_head();
  const bool keeps_head = head != nullptr && matches_any(config.skip_modules, name_of_head(model));
  if (head != nullptr) seen.push_back(name_of_head(model));
  model.visit_layers([&](const std::string& name, model::Layer& layer) {
    auto* unary = dynamic_cast<model::UnaryLayer*>(&layer);
    if (auto* table = dynamic_cast<model::Embedding*>(&layer);
        table != nullptr && table->weight().size(0) >= kFewRows) {
      seen.push_back(name);
      const bool stays_with_head = keeps_head && head->weight().is_same(table->weight());
      if (!stays_with_head && !matches_any(config.skip_modules, name)) tables.push_back(table);
      return;
    }
    const bool multiplies =
        dynamic_cast<model::MatrixLayer*>(&layer) != nullptr || dynamic_cast<model::Convolution*>(&layer) != nullptr;
    if (unary == nullptr || (!multiplies && !before_sums.contains(name))) return;
    seen.push_back(name);
    if (matches_any(config.skip_modules, name)) return;
    RoundedParts parts{.input = multiplies, .output = before_sums.contains(name)};
    if (multiplies) {
      parts.weight = weight_decl(layer);
      parts.out_dim = dynamic_cast<model::TransposedLinear*>(&layer) != nullptr ? 1 : 0;
    }
    found.emplace_back(unary, parts);
  });
  for (const std::string& pattern : config.skip_modules)
    if (std::none_of(seen.begin(), seen.end(),
                     [&](const std::string& name) { return core::matches_name(pattern, name); }))
      throw core::Error("quantization.skip_modules: no linear layer, convolution or embedding is called `" + pattern +
                        "`");
  for (model::UnaryLayer* table : tables) table->set_override(std::make_unique<RoundedTable>());
  for (const auto& [layer, parts] : found)
    layer->set_override(std::make_unique<RoundedLayer>(parts, config_.scale, levels));
  begin_step(0);
}

void QuantizedTraining::begin_step(std::int64_t step) {
  const RoundingPhase phase{
      .rounds = step >= config_.start_step,
      .watches = !config_.freeze_observers_step || step < *config_.freeze_observers_step,
  };
  const bool norms_rest = config_.freeze_batch_norm_step && step >= *config_.freeze_batch_norm_step;
  model_.visit_layers([&](const std::string&, model::Layer& layer) {
    auto* unary = dynamic_cast<model::UnaryLayer*>(&layer);
    auto* rounded = unary == nullptr ? nullptr : dynamic_cast<RoundedStandIn*>(unary->stand_in());
    if (rounded != nullptr) rounded->set_phase(phase);
    if (!norms_rest || dynamic_cast<model::BatchNorm*>(&layer) == nullptr) return;
    const bool is_watching = rounded != nullptr && rounded->is_training();
    layer.set_training(false);
    if (rounded != nullptr) rounded->set_training(is_watching);  // freeze_observers_step says when its ranges stay
  });
}

TrainedLevelsByLayer QuantizedTraining::take(model::Model& model) {
  TrainedLevelsByLayer levels;
  std::vector<model::UnaryLayer*> layers;
  model.visit_layers([&](const std::string& name, model::Layer& layer) {
    auto* unary = dynamic_cast<model::UnaryLayer*>(&layer);
    if (unary == nullptr || dynamic_cast<RoundedStandIn*>(unary->stand_in()) == nullptr) return;
    if (const auto* rounded = dynamic_cast<RoundedLayer*>(unary->stand_in())) levels[name] = rounded->levels();
    layers.push_back(unary);
  });
  for (model::UnaryLayer* layer : layers) layer->set_override(nullptr);
  return levels;
}

std::string name_of_head(model::Model& model) {
  const model::VocabularyHead* head = model.vocabulary_head();
  std::string found;
  model.visit_layers([&](const std::string& name, model::Layer& layer) {
    if (&layer == head) found = name.empty() ? model.blocks().back().name : name;
  });
  return found;
}

bool is_rounding(std::string_view name) {
  for (const std::string_view part : {".input_rounding.", ".weight_rounding.", ".output_rounding."})
    if (name.find(part) != std::string_view::npos) return true;
  return false;
}

}  // namespace trainctl::quantization
