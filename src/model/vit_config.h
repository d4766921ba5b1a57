// `model: {kind: vit}`. Part of model/config.h.
#pragma once

#include <cstdint>

#include "config/field.h"
#include "model/traits.h"

namespace trainctl::model {

enum class VitPool { token, avg, distilled };
enum class VitActivation { gelu, quick_gelu };

/// https://arxiv.org/abs/2010.11929, in timm's layout (VisionTransformer). Keys beside ViT's own make the network a
/// DeiT (https://arxiv.org/abs/2012.12877) or CLIP's image tower (https://arxiv.org/abs/2103.00020).
struct VitConfig {
  static constexpr std::string_view kind = "vit";
  std::int64_t hidden_size = 768;
  std::int64_t num_layers = 12;
  std::int64_t num_heads = 12;
  std::int64_t intermediate_size = 3072;
  std::int64_t patch_size = 16;
  bool patch_bias = true;
  bool class_token = true;
  bool distillation_token = false;
  bool embedding_norm = false;
  VitActivation activation = VitActivation::gelu;
  VitPool pool = VitPool::token;
  double dropout = 0;
  double attention_dropout = 0;
  double head_dropout = 0;
  double drop_path = 0;
  double layer_norm_epsilon = 1e-6;
  config::AutoOr<std::int64_t> num_classes;

  /// The tokens before the patches.
  std::int64_t num_prefix_tokens() const { return (class_token ? 1 : 0) + (distillation_token ? 1 : 0); }

  static constexpr auto fields() {
    using config::field;
    using C = VitConfig;
    return config::Fields{
        field<&C::hidden_size>("Width of the residual stream; a multiple of num_heads.", config::at_least(1)),
        field<&C::num_layers>("Transformer blocks.", config::between(1, 10'000)),
        field<&C::num_heads>("Attention heads.", config::at_least(1)),
        field<&C::intermediate_size>("Width inside each feed-forward layer.", config::at_least(1)),
        field<&C::patch_size>("Side of the square patches, each of which becomes a token; divides the image's sides.",
                              config::at_least(1)),
        field<&C::patch_bias>("Add a bias to embedded patches; CLIP has none."),
        field<&C::class_token>("Begin the sequence with a learned token."),
        field<&C::distillation_token>("Put a second learned token behind the class token, as in DeiT."),
        field<&C::embedding_norm>("LayerNorm of the embeddings before the first block, as in CLIP."),
        field<&C::activation>(
            "Activation in each feed-forward layer: gelu, or CLIP's quick_gelu, x · sigmoid(1.702 x)."),
        field<&C::pool>("What is classified: the class token, the mean of the patches (then the last LayerNorm follows "
                        "the mean), or `distilled`: the mean of two classifiers, of the class token and of the "
                        "distillation token."),
        field<&C::dropout>("Dropout after the embeddings and in each residual branch.", config::below_one),
        field<&C::attention_dropout>("Dropout of attention weights.", config::below_one),
        field<&C::head_dropout>("Dropout before the classifier.", config::below_one),
        field<&C::drop_path>("Stochastic depth (https://arxiv.org/abs/1603.09382): the rate at which the last block's "
                             "branches are left out of a sample; earlier blocks' rates rise to it from 0.",
                             config::below_one),
        field<&C::layer_norm_epsilon>("Epsilon of every LayerNorm.", config::positive),
        field<&C::num_classes>("Outputs; `auto` takes the dataset's.", config::at_least(1)),
    };
  }

  static constexpr ModelTraits traits{.input = Input::images,
                                      .outputs = Outputs{Output::per_sample},
                                      .padding = Padding::none,
                                      .has_token_types = false,
                                      .has_kv_cache = false,
                                      .is_recurrent = false,
                                      .has_convolutions = false,
                                      .embedding = "",
                                      .tied_output = "",
                                      .classifier = "head.weight",
                                      .transformers_type = "vit",
                                      .transformers_prefix = "",
                                      .has_transformers_names = false,
                                      .is_in_timm = true};
  SplitSizes split_sizes() const {
    return {{"model.num_heads", num_heads}, {"model.intermediate_size", intermediate_size}};
  }
  OwnSizes sizes() const { return only_classes(num_classes); }
  BrokenRules broken_rules(const Surroundings& around) const {
    BrokenRules broken = uneven_heads(hidden_size, num_heads);
    if (distillation_token && !class_token)
      broken.push_back({{"model.class_token", "model.distillation_token", "model.kind"},
                        "model.distillation_token follows the class token; expected true, got false"});
    if (pool == VitPool::distilled && !distillation_token)
      broken.push_back({{"model.pool", "model.distillation_token", "model.kind"},
                        "expected token or avg, got distilled without model.distillation_token"});
    if (pool == VitPool::token && !class_token)
      broken.push_back(
          {{"model.class_token", "model.pool", "model.kind"}, "model.pool is token, which is this one; or pool: avg"});
    if (drop_path > 0 && num_layers == 1)
      broken.push_back({{"model.drop_path", "model.num_layers", "model.kind"},
                        "changes nothing in a network of one block: the first block's rate is 0"});
    if (around.images && (around.images->height % patch_size != 0 || around.images->width % patch_size != 0))
      broken.push_back({{"model.patch_size", "model.kind", "dataset.kind", "dataset.height", "dataset.width"},
                        "expected a divisor of the image's sides, " + std::to_string(around.images->height) + " and " +
                            std::to_string(around.images->width) + ", got " + std::to_string(patch_size)});
    return broken;
  }
  static VitConfig starter() {
    return {.hidden_size = 128,
            .num_layers = 4,
            .num_heads = 4,
            .intermediate_size = 512,
            .patch_size = kStarterImageSide / 4};
  }
};

}  // namespace trainctl::model
