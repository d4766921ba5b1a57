#include <cmath>
#include <limits>

#include "core/error.h"
#include "core/text.h"
#include "pretrained/hugging_face_config.h"
#include "pretrained/image_frame.h"

namespace trainctl::pretrained {
namespace {

using Json = nlohmann::ordered_json;

struct TimmModel {
  std::string architecture;
  std::string first_convolution;
  Json classifier;  // name, or names
  std::int64_t num_features = 0;
  bool has_fixed_size = false;  // of its images
  Json arguments;               // of timm.create_model
};

[[noreturn]] void refuse_vit(const std::string& feature) {
  throw core::Error("timm has no vision transformer " + feature).hint("--format safetensors");
}

/// Refuses what no vision transformer of timm can have.
void check_vit(const model::VitConfig& config) {
  if (config.embedding_norm == config.patch_bias)
    refuse_vit("with a model.patch_bias beside model.embedding_norm, or with neither");
  if (config.distillation_token && config.embedding_norm)
    refuse_vit("with both model.distillation_token and model.embedding_norm");
  if (config.distillation_token && config.pool != model::VitPool::distilled)
    refuse_vit("with model.distillation_token that model.pool doesn't classify");
  const double epsilon = config.embedding_norm ? 1e-5 : 1e-6;
  if (config.layer_norm_epsilon != epsilon)
    refuse_vit(config.embedding_norm ? "like CLIP's whose model.layer_norm_epsilon isn't 1e-5"
                                     : "whose model.layer_norm_epsilon isn't 1e-6");
}

std::string timm_architecture(const model::VitConfig& config) {
  if (config.distillation_token) return "deit_base_distilled_patch16_224";
  return config.embedding_norm ? "vit_base_patch16_clip_224" : "vit_base_patch16_224";
}

/// Returns the ratio of which timm makes the size: int(ratio * hidden_size).
double mlp_ratio_of(const model::VitConfig& config) {
  const auto hidden_size = static_cast<double>(config.hidden_size);
  const double ratio = static_cast<double>(config.intermediate_size) / hidden_size;
  const bool is_rounded_down = static_cast<std::int64_t>(ratio * hidden_size) < config.intermediate_size;
  return is_rounded_down ? std::nextafter(ratio, std::numeric_limits<double>::infinity()) : ratio;
}

TimmModel timm_model(const model::VitConfig& config, const ModelInfo& facts) {
  check_vit(config);
  TimmModel model{.architecture = timm_architecture(config),
                  .first_convolution = "patch_embed.proj",
                  .classifier = config.distillation_token ? Json::array({"head", "head_dist"}) : Json("head"),
                  .num_features = config.hidden_size,
                  .has_fixed_size = true,
                  .arguments = {{"img_size", Json::array({facts.input_shape[1], facts.input_shape[2]})},
                                {"in_chans", facts.input_shape[0]},
                                {"patch_size", config.patch_size},
                                {"embed_dim", config.hidden_size},
                                {"depth", config.num_layers},
                                {"num_heads", config.num_heads},
                                {"mlp_ratio", mlp_ratio_of(config)},
                                {"class_token", config.class_token},
                                {"global_pool", config.pool == model::VitPool::avg ? "avg" : "token"}}};
  if (config.activation != model::VitActivation::gelu)
    model.arguments["act_layer"] = config::name_of(config.activation);
  return model;
}

template <int Depth>
TimmModel timm_model(const model::ResNetConfig<Depth>& config, const ModelInfo& facts) {
  if (config.stem != model::ResNetStem::imagenet)
    throw core::Error("timm and torchvision have no ResNet with the stem for small images")
        .hint("--format safetensors");
  return {.architecture = std::string(model::ResNetConfig<Depth>::kind),
          .first_convolution = "conv1",
          .classifier = "fc",
          .num_features = Depth < 50 ? 512 : 2048,
          .arguments = {{"in_chans", facts.input_shape[0]}}};
}

core::Error not_in_timm(std::string_view kind) {
  const std::vector<std::string> known =
      model::kinds_where([](const model::ModelTraits& traits) { return *traits.is_in_timm; });
  return core::Error("timm has no network like " + std::string(kind))
      .hint("--format safetensors; the networks that it has are " + core::list_words(known));
}

}  // namespace

Json timm_config(const model::NetworkConfig& network, const ModelInfo& facts) {
  TimmModel model = network.visit([&]<class Network>(const Network& config) -> TimmModel {
    if constexpr (!Network::traits.is_in_timm)
      throw not_in_timm(Network::kind);
    else
      return timm_model(config, facts);
  });
  Json pretrained = {{"tag", ""},
                     {"custom_load", false},
                     {"input_size", facts.input_shape},
                     {"fixed_input_size", model.has_fixed_size},
                     {"num_classes", facts.num_outputs},
                     {"pool_size", nullptr},
                     {"first_conv", model.first_convolution},
                     {"classifier", model.classifier}};
  pretrained.update(timm_transforms(facts));
  Json json = {{"architecture", model.architecture},
               {"num_classes", facts.num_outputs},
               {"num_features", model.num_features},
               {"model_args", std::move(model.arguments)},
               {"pretrained_cfg", std::move(pretrained)}};
  if (!facts.class_names.empty()) json["label_names"] = facts.class_names;
  return json;
}

}  // namespace trainctl::pretrained
