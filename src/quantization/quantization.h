// A trained model in eight bits or fewer: still a Model, for the CPU. Layers are replaced one by one by stand-ins
// (model/layer.h); what they hold is listed as the model's buffers.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "model/model.h"
#include "quantization/block/block_graph.h"
#include "quantization/layer/quantized_layer.h"
#include "quantization/training.h"

namespace trainctl::quantization {

/// To levels that are found before, in calibration or training.
bool rounds_activations_ahead(QuantizationMethod method);

/// All that decides what a model's quantized form looks like, before its numbers.
struct QuantizationRecipe {
  QuantizationMethod method = QuantizationMethod::dynamic;
  QuantizationBackend backend = QuantizationBackend::x86;  // resolved
  std::int64_t activation_bits = 8;
  std::int64_t weight_bits = 8;
  std::int64_t group_size = 0;  // of weight_only; 0: whole rows
  ActivationScheme activations = ActivationScheme::affine;
  std::vector<std::string> skip_modules{};  // patterns of layers' names
  RangeFrom observer = RangeFrom::histogram;
  double percentile = 99.99;
  bool engine_workarounds = true;  // quantization.engine_workarounds
};

/// Returns whether activations take more than seven bits, within the calibrated range or beyond. A runtime that adds
/// pairs of eight-bit products in sixteen bits then saturates, as ONNX Runtime does on x86 CPUs without VNNI.
bool activations_exceed_seven_bits(const QuantizationRecipe& recipe);

/// Throws an Error if the method has no weights of so many bits, in groups of this size.
void check_weights(const QuantizationRecipe& recipe);

/// A layer of the model, whether it is quantized or not.
struct LayerChoice {
  std::string name;
  std::int64_t num_weights = 0;
  std::string kept_because{};  // "": it is quantized
};

/// A model on its way to fewer bits.
class Quantization {
 public:
  /// Puts stand-ins into the model, which outlives this and is on the CPU, in evaluation mode, materialised, without
  /// adapters. `example`: values of one sample, by which blocks are seen at work. A pattern of skip_modules that
  /// matches nothing is an Error. `trained`: what quantization-aware training found.
  Quantization(model::Model& model, const QuantizationRecipe& recipe, const at::Tensor& example,
               TrainedLevelsByLayer trained = {});

  const QuantizationRecipe& recipe() const { return recipe_; }
  const std::vector<LayerChoice>& layers() const { return layers_; }
  /// Whether convert() wants ranges of activations.
  bool wants_calibration() const;
  /// From now on forward passes of the model are watched.
  void watch();
  /// Quantizes, and packs for the engine.
  void convert();
  /// Which layers work in fewer bits; before finish().
  void use(const QuantizedLayer::UnitFilter& chosen);
  /// Forgets the float weights. Without convert(): the buffers are to be filled from a file, and then prepare()d.
  void finish();
  void prepare();

 private:
  struct Part {
    std::string name;
    QuantizedPart* layer;
  };
  void add_blocks(const at::Tensor& example);
  void add_layers();
  void add_recurrences();
  void list_floats();
  void add(const std::string& name, model::UnaryLayer& layer, std::unique_ptr<QuantizedLayer> stand_in);
  bool wants(const std::string& name);
  const TrainedLevels* trained(const std::string& name) const;
  std::optional<QParams> trained_input(std::span<const CapturedBlock> blocks) const;
  ObserverOptions observer() const;
  void check_patterns() const;
  void check_names() const;

  model::Model& model_;
  QuantizationRecipe recipe_;
  TrainedLevelsByLayer trained_;
  std::vector<Part> parts_;
  std::vector<LayerChoice> layers_;
  std::vector<std::string> used_patterns_;
  std::set<const model::Layer*> float_leaves_;  // of blocks
};

/// Bytes of parameters and buffers, each once.
std::int64_t size_of(model::Model& model);

/// Writes `directory`/quantized.safetensors and quantization.json: docs/quantization.md has the layout.
void save_quantized(model::Model& model, const Quantization& quantization, const std::filesystem::path& directory);
/// Whether a directory holds a quantized model.
bool is_quantized(const std::filesystem::path& directory);
/// Makes `model`, as Quantization wants it, the one that was saved. What is damaged, or was made from another network,
/// is an Error.
std::unique_ptr<Quantization> load_quantized(model::Model& model, const std::filesystem::path& directory,
                                             const at::Tensor& example);

}  // namespace trainctl::quantization
