#include "pretrained/vit_families.h"

#include <array>
#include <string>

#include "core/error.h"

namespace trainctl::pretrained {
namespace {

using Json = nlohmann::ordered_json;
using model::VitConfig;
using model::VitPool;

constexpr std::array<std::string_view, 3> kModelTypes = {"vit", "deit", "clip_vision_model"};

/// Returns one side for square images, else [height, width], as transformers takes them.
Json image_size(const ModelInfo& facts) {
  const std::int64_t height = facts.input_shape[1];
  const std::int64_t width = facts.input_shape[2];
  return height == width ? Json(height) : Json({height, width});
}

[[noreturn]] void refuse(const std::string& feature) {
  throw core::Error("transformers has no " + feature).hint("--naming timm, or --format safetensors");
}

std::string class_of(const VitConfig& config) {
  if (config.pool == VitPool::distilled) return "DeiTForImageClassificationWithTeacher";
  return config.distillation_token ? "DeiTForImageClassification" : "ViTForImageClassification";
}

}  // namespace

VitFamily vit_family(const VitConfig& config) {
  if (config.embedding_norm || !config.patch_bias) return VitFamily::clip_vision_model;
  return config.distillation_token ? VitFamily::deit : VitFamily::vit;
}

VitFamily vit_family(std::string_view model_type, const VitConfig& config) {
  for (std::size_t i = 0; i < kModelTypes.size(); ++i)
    if (kModelTypes.at(i) == model_type) return static_cast<VitFamily>(i);
  return vit_family(config);
}

Json vit_structure(const VitConfig& config, const ModelInfo& facts, VitFamily family) {
  Json json = {{"model_type", kModelTypes.at(static_cast<std::size_t>(family))},
               {"hidden_size", config.hidden_size},
               {"num_hidden_layers", config.num_layers},
               {"num_attention_heads", config.num_heads},
               {"intermediate_size", config.intermediate_size},
               {"hidden_act", config::name_of(config.activation)},
               {"layer_norm_eps", config.layer_norm_epsilon},
               {"image_size", image_size(facts)},
               {"patch_size", config.patch_size},
               {"num_channels", facts.input_shape[0]}};
  if (family != VitFamily::clip_vision_model) json["qkv_bias"] = true;
  return json;
}

Json vit_settings(const VitConfig& config) {
  if (vit_family(config) == VitFamily::clip_vision_model)
    refuse("classifier of CLIP's class token (model.embedding_norm, or no model.patch_bias)");
  if (config.pool == VitPool::avg) refuse("ViT that classifies the mean of its patches");
  return {{"architectures", Json::array({class_of(config)})},
          {"hidden_dropout_prob", config.dropout},
          {"attention_probs_dropout_prob", config.attention_dropout},
          {"initializer_range", 0.02}};
}

}  // namespace trainctl::pretrained
