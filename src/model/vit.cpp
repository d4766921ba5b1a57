// Vision transformer (https://arxiv.org/abs/2010.11929) with timm's names, initialization and places of dropout, so
// checkpoints convert in both directions. DeiT (https://arxiv.org/abs/2012.12877) adds a distillation token, and CLIP's
// image tower (https://arxiv.org/abs/2103.00020) normalizes the embeddings.
#include <ATen/ops/cat.h>
#include <ATen/ops/conv2d.h>

#include <cmath>

#include "core/error.h"
#include "kernels/gelu.h"
#include "model/layers/attention.h"
#include "model/layers/drop_path.h"
#include "model/layers/dropout.h"
#include "model/layers/layer_norm.h"
#include "model/layers/linear.h"
#include "model/networks.h"

namespace trainctl::model {
namespace {

/// timm truncates the normal distribution at ±2, a hundred standard deviations.
constexpr Init kVitInit = Init::normal(0, 0.02);

/// Embeds patches with a convolution whose kernels don't overlap: [B, C, H, W] -> [B, H/p W/p, D].
class PatchEmbedding final : public UnaryLayer {
 public:
  PatchEmbedding(const VitConfig& config, std::int64_t channels)
      : weight_(parameter("proj.weight", {config.hidden_size, channels, config.patch_size, config.patch_size},
                          Init::uniform(bound(channels * config.patch_size * config.patch_size)))),
        bias_(config.patch_bias ? &parameter("proj.bias", {config.hidden_size},
                                             Init::uniform(bound(channels * config.patch_size * config.patch_size)))
                                : nullptr),
        patch_size_(config.patch_size) {}

  at::Tensor compute(const at::Tensor& images) override {
    return at::conv2d(images, weight_, bias_ == nullptr ? at::Tensor() : *bias_, {patch_size_, patch_size_})
        .flatten(2)
        .transpose(1, 2);
  }
  /// Returns the FLOPs of one patch.
  double flops() const { return 2.0 * static_cast<double>(weight_.numel()); }

 private:
  static double bound(std::int64_t fan_in) { return 1 / std::sqrt(static_cast<double>(fan_in)); }

  at::Tensor& weight_;  // [D, C, p, p]
  at::Tensor* bias_;    // [D], or null
  std::int64_t patch_size_;
};

/// Patch embeddings after the class and distillation tokens, plus position embeddings.
class VitEmbeddings final : public UnaryLayer {
 public:
  VitEmbeddings(const VitConfig& config, std::int64_t channels, std::int64_t num_patches)
      : class_token_(config.class_token ? &parameter("cls_token", {1, 1, config.hidden_size}, Init::normal(0, 1e-6))
                                        : nullptr),
        distillation_token_(config.distillation_token ? &parameter("dist_token", {1, 1, config.hidden_size}, kVitInit)
                                                      : nullptr),
        positions_(parameter("pos_embed", {1, num_patches + config.num_prefix_tokens(), config.hidden_size}, kVitInit)),
        patches_(child<PatchEmbedding>("patch_embed", config, channels)),
        dropout_(child<Dropout>("pos_drop", config.dropout)),
        norm_(config.embedding_norm ? &child<LayerNorm>("norm_pre", config.hidden_size, config.layer_norm_epsilon)
                                    : nullptr),
        flops_(patches_.flops() * static_cast<double>(num_patches)) {}

  at::Tensor compute(const at::Tensor& images) override {
    at::Tensor tokens = patches_.forward(images);
    std::vector<at::Tensor> parts;
    for (const at::Tensor* token : {class_token_, distillation_token_})
      if (token != nullptr) parts.push_back(token->expand({tokens.size(0), -1, -1}));
    if (!parts.empty()) {
      parts.push_back(tokens);
      tokens = at::cat(parts, 1);
    }
    const at::Tensor embedded = dropout_.forward(tokens.add(positions_));
    return norm_ == nullptr ? embedded : norm_->forward(embedded);
  }
  std::int64_t length() const { return positions_.size(1); }
  double flops() const { return flops_; }

 private:
  at::Tensor* class_token_;         // [1, 1, D], or null
  at::Tensor* distillation_token_;  // [1, 1, D], or null
  at::Tensor& positions_;           // [1, T, D]
  PatchEmbedding& patches_;
  Dropout& dropout_;
  LayerNorm* norm_;  // null: none
  double flops_;
};

class VitTransformerBlock final : public SequenceLayer {
 public:
  VitTransformerBlock(const VitConfig& config, double drop_path)
      : norm1_(child<LayerNorm>("norm1", config.hidden_size, config.layer_norm_epsilon)),
        qkv_(child<Linear>("attn.qkv", config.hidden_size, 3 * config.hidden_size, kVitInit)),
        projection_(child<Linear>("attn.proj", config.hidden_size, config.hidden_size, kVitInit)),
        norm2_(child<LayerNorm>("norm2", config.hidden_size, config.layer_norm_epsilon)),
        up_(child<Linear>("mlp.fc1", config.hidden_size, config.intermediate_size, kVitInit)),
        down_(child<Linear>("mlp.fc2", config.intermediate_size, config.hidden_size, kVitInit)),
        dropout_(child<Dropout>("drop", config.dropout)),
        drop_path_(child<DropPath>("drop_path", drop_path)),
        num_heads_(config.num_heads),
        inner_size_(config.intermediate_size),
        activation_(config.activation),
        attention_dropout_(config.attention_dropout) {}

  at::Tensor compute(const at::Tensor& input, const SequenceContext& context) override {
    const at::Tensor attended = drop_path_.forward(attention(norm1_.forward(input), context));
    const auto [value, normed] = norm2_.add(input, attended, kernels::NormedFor::products);
    return value.add(drop_path_.forward(feed_forward(normed)));
  }
  double flops() const { return qkv_.flops() + projection_.flops() + up_.flops() + down_.flops(); }
  void split(const TensorRanksPtr& ranks) override {
    ranks_ = ranks;
    heads_ = heads_of_rank(num_heads_, *ranks);
    num_heads_ = range_of(num_heads_, *ranks).size;
    qkv_.split_outputs(ranks, /*sections=*/3);
    projection_.split_inputs(ranks);
    up_.split_outputs(ranks);
    down_.split_inputs(ranks);
    dropout_.share_tokens(ranks);
  }

 private:
  at::Tensor attention(const at::Tensor& input, const SequenceContext& context) {
    const at::Tensor heads = attend(qkv_.forward(enter_split_layer(input, ranks_)), num_heads_, context,
                                    {.dropout = is_training() ? attention_dropout_ : 0, .heads = heads_});
    return dropout_.forward(projection_.forward(merge_heads(heads)));
  }
  at::Tensor feed_forward(const at::Tensor& input) {
    const at::Tensor inner = activated(enter_split_layer(input, ranks_));
    return dropout_.forward(down_.forward(dropout_.forward_part(inner, inner_size_, ranks_)));
  }
  at::Tensor activated(const at::Tensor& input) {
    if (activation_ == VitActivation::gelu) {
      const auto [inner, bias] = up_.forward_before_bias(input);
      return kernels::bias_gelu(inner, bias, kernels::Gelu::erf);
    }
    constexpr double kQuickGeluSlope = 1.702;
    const at::Tensor inner = up_.forward(input);
    return inner.mul(inner.mul(kQuickGeluSlope).sigmoid());
  }

  LayerNorm& norm1_;
  Linear& qkv_;
  Linear& projection_;
  LayerNorm& norm2_;
  Linear& up_;
  Linear& down_;
  Dropout& dropout_;
  DropPath& drop_path_;
  std::int64_t num_heads_;  // of this rank
  std::int64_t inner_size_;
  VitActivation activation_;
  kernels::HeadRange heads_{};
  TensorRanksPtr ranks_;
  double attention_dropout_;
};

/// Head [B, T, D] -> [B, num_classes].
class VitHead final : public UnaryLayer {
 public:
  VitHead(const VitConfig& config, std::int64_t num_classes)
      : pool_(config.pool),
        num_prefix_tokens_(config.num_prefix_tokens()),
        norm_(child<LayerNorm>(pool_ == VitPool::avg ? "fc_norm" : "norm", config.hidden_size,
                               config.layer_norm_epsilon)),
        dropout_(child<Dropout>("head_drop", config.head_dropout)),
        head_(child<Linear>("head", config.hidden_size, num_classes, kVitInit)),
        distillation_head_(pool_ == VitPool::distilled
                               ? &child<Linear>("head_dist", config.hidden_size, num_classes, kVitInit)
                               : nullptr) {}

  at::Tensor compute(const at::Tensor& tokens) override {
    const at::Tensor pooled = dropout_.forward(norm_.forward(pool(tokens)));
    if (distillation_head_ == nullptr) return head_.forward(pooled);
    return head_.forward(pooled.select(1, 0)).add(distillation_head_->forward(pooled.select(1, 1))).div(2);
  }
  double flops() const { return head_.flops() + (distillation_head_ == nullptr ? 0 : distillation_head_->flops()); }

 private:
  /// Returns what is normalized and classified. timm normalizes all tokens first; the values are the same.
  at::Tensor pool(const at::Tensor& tokens) const {
    switch (pool_) {
      case VitPool::avg:
        return tokens.narrow(1, num_prefix_tokens_, tokens.size(1) - num_prefix_tokens_).mean(1);
      case VitPool::distilled:
        return tokens.narrow(1, 0, 2);
      case VitPool::token:
        break;
    }
    return tokens.select(1, 0);
  }

  VitPool pool_;
  std::int64_t num_prefix_tokens_;
  LayerNorm& norm_;
  Dropout& dropout_;
  Linear& head_;
  Linear* distillation_head_;  // null: none
};

void check(const VitConfig& config, const ImageShape& shape) {
  check_heads(config.hidden_size, config.num_heads);
  if (config.pool == VitPool::token && !config.class_token)
    throw core::Error("model.pool is token, but there is no class token").hint("class_token: true, or pool: avg");
  if (config.distillation_token && !config.class_token)
    throw core::Error("model.distillation_token follows the class token, but there is none").hint("class_token: true");
  if (config.pool == VitPool::distilled && !config.distillation_token)
    throw core::Error("model.pool is distilled, but there is no distillation token")
        .hint("distillation_token: true, or pool: token");
  if (shape.height % config.patch_size != 0 || shape.width % config.patch_size != 0)
    throw core::Error("images of " + shape.text() + " can't be cut into patches of " +
                      std::to_string(config.patch_size) + " pixels")
        .hint("a model.patch_size that divides both sides, or images of another size");
}

class Vit final : public Model {
 public:
  Vit(const VitConfig& config, const InputSpec& input) {
    const ImageShape shape = image_shape(input, VitConfig::kind);
    check(config, shape);
    auto& embeddings =
        child<VitEmbeddings>("", config, shape.channels, shape.pixels() / (config.patch_size * config.patch_size));
    add_block("embeddings", embeddings);
    const std::int64_t length = embeddings.length();
    double per_token = attention_flops(length, config.hidden_size) * static_cast<double>(config.num_layers);
    for (std::int64_t i = 0; i < config.num_layers; ++i) {
      const std::string name = "blocks." + std::to_string(i);
      const double depth =
          config.num_layers == 1 ? 0 : static_cast<double>(i) / static_cast<double>(config.num_layers - 1);
      auto& block = child<VitTransformerBlock>(name, config, config.drop_path * depth);
      add_block(name, block);
      per_token += block.flops();
    }
    auto& head = child<VitHead>("", config, num_outputs(config.num_classes, input));
    add_block("head", head);
    flops_ = embeddings.flops() + per_token * static_cast<double>(length) + head.flops();
  }

  double flops_per_sample() const override { return flops_; }

 private:
  double flops_ = 0;
};

}  // namespace

std::unique_ptr<Model> build(const VitConfig& config, const InputSpec& input) {
  return std::make_unique<Vit>(config, input);
}

}  // namespace trainctl::model
