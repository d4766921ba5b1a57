#include "core/error.h"
#include "core/text.h"
#include "pretrained/hugging_face_config.h"

namespace trainctl::pretrained {
namespace {

using Json = nlohmann::ordered_json;

struct TimmModel {
  std::string architecture;
  std::string first_convolution;
  std::string classifier;
  std::int64_t num_features = 0;
  bool has_fixed_size = false;  // of its images
  Json arguments;               // of timm.create_model
};

TimmModel timm_model(const model::VitConfig& config, const ModelInfo& facts) {
  const bool mean = config.pool == model::VitPool::avg;
  return {.architecture = "vit_base_patch16_224",
          .first_convolution = "patch_embed.proj",
          .classifier = "head",
          .num_features = config.hidden_size,
          .has_fixed_size = true,
          .arguments = {
              {"img_size", Json::array({facts.input_shape[1], facts.input_shape[2]})},
              {"in_chans", facts.input_shape[0]},
              {"patch_size", config.patch_size},
              {"embed_dim", config.hidden_size},
              {"depth", config.num_layers},
              {"num_heads", config.num_heads},
              {"mlp_ratio", static_cast<double>(config.intermediate_size) / static_cast<double>(config.hidden_size)},
              {"class_token", config.class_token},
              {"global_pool", mean ? "avg" : "token"}}};
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
                     {"interpolation", "bilinear"},
                     {"crop_pct", 1.0},
                     {"num_classes", facts.num_outputs},
                     {"pool_size", nullptr},
                     {"first_conv", model.first_convolution},
                     {"classifier", model.classifier}};
  if (!facts.pixel_mean.empty()) {
    pretrained["mean"] = facts.pixel_mean;
    pretrained["std"] = facts.pixel_std;
  }
  Json json = {{"architecture", model.architecture},
               {"num_classes", facts.num_outputs},
               {"num_features", model.num_features},
               {"model_args", std::move(model.arguments)},
               {"pretrained_cfg", std::move(pretrained)}};
  if (!facts.class_names.empty()) json["label_names"] = facts.class_names;
  return json;
}

}  // namespace trainctl::pretrained
