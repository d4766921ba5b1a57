#include "experiment/published_keys.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <type_traits>
#include <utility>

#include "core/error.h"
#include "model/config.h"
#include "model/llama_json.h"
#include "model/transformers_keys.h"

namespace trainctl::experiment {
namespace {

using Json = nlohmann::json;
template <class Network>
using Of = std::type_identity<Network>;

class Keys {
 public:
  explicit Keys(const Json& config, Classified classified = Classified::sequences)
      : config_(config), classified_(classified) {}

  const Json& config() const { return config_; }
  Classified classified() const { return classified_; }
  /// Takes the first of their keys that the config has, as ours.
  void take(const char* ours, std::initializer_list<const char*> theirs) {
    for (const char* own : theirs) {
      const std::string key = model::written_name(config_, own);
      const auto value = config_.find(key);
      if (value == config_.end()) continue;
      if (!value->is_null()) return set(ours, key, *value);
      refuse_null(ours, own, key);
    }
  }
  /// Takes a key, or the default of transformers' class where it isn't the one here.
  void take_or(const char* ours, const char* theirs, const Json& otherwise) {
    const std::string key = model::written_name(config_, theirs);
    const auto value = config_.find(key);
    const bool is_given = value != config_.end() && !value->is_null();
    if (!is_given && value != config_.end()) refuse_null(ours, theirs, key);
    set(ours, is_given ? key : "model_type", is_given ? *value : otherwise);
  }
  void set(const char* ours, const std::string& theirs, Json value) {
    found.push_back({.ours = ours, .theirs = theirs, .value = std::move(value)});
  }

  std::vector<PublishedKey> found;
  std::vector<model::RefusedKey> refused;

 private:
  /// Refuses null for a key that has no such value in transformers' classes.
  void refuse_null(const char* ours, std::string_view own, const std::string& key) {
    constexpr std::array<std::string_view, 5> kNullable = {"n_inner", "num_decoder_layers", "classifier_dropout",
                                                           "scale_decoder_outputs", "tie_word_embeddings"};
    if (std::ranges::find(kNullable, own) == kNullable.end())
      refused.push_back({key, "transformers takes no null; expected a value, or no such key", ours});
  }

  const Json& config_;
  Classified classified_;
};

constexpr const char* kType = "model_type";

/// Takes the keys of a family whose positions begin behind that of padding.
void take_roberta(Keys& keys) {
  const auto padding = keys.config().find("pad_token_id");
  const bool is_given = padding != keys.config().end() && padding->is_number_integer();
  const std::int64_t id = is_given ? padding->get<std::int64_t>() : 1;
  const char* const from = is_given ? "pad_token_id" : kType;
  keys.set("pad_token_id", from, id);
  keys.set("position_offset", from, id + 1);
  keys.set("dropout_before_pooler", kType, true);
}

void take_distilbert(Keys& keys) {
  keys.take("hidden_size", {"dim"});
  keys.take_or("num_layers", "n_layers", 6);
  keys.take("num_heads", {"n_heads"});
  keys.take("intermediate_size", {"hidden_dim"});
  keys.take("dropout", {"dropout"});
  keys.take("attention_dropout", {"attention_dropout"});
  // DistilBertForTokenClassification has `dropout` there, which `auto` is.
  if (keys.classified() == Classified::sequences) keys.take_or("classifier_dropout", "seq_classif_dropout", 0.2);
  keys.set("type_vocab_size", kType, 0);
  keys.set("pooler", kType, "relu");
}

void take_keys(Of<model::BertConfig>, Keys& keys) {
  const Json type = keys.config()[kType];
  keys.take("max_position_embeddings", {"max_position_embeddings"});
  keys.take("vocab_size", {"vocab_size"});
  if (type == "roberta")
    take_roberta(keys);
  else if (const auto padding = keys.config().find("pad_token_id"); padding != keys.config().end())
    keys.set("pad_token_id", "pad_token_id", *padding);  // null: padding has an embedding like others
  if (type == "distilbert") return take_distilbert(keys);
  const bool is_electra = type == "electra";
  keys.take_or("hidden_size", "hidden_size", is_electra ? 256 : 768);
  keys.take("num_layers", {"num_hidden_layers"});
  keys.take_or("num_heads", "num_attention_heads", is_electra ? 4 : 12);
  keys.take_or("intermediate_size", "intermediate_size", is_electra ? 1024 : 3072);
  keys.take("type_vocab_size", {"type_vocab_size"});
  keys.take("dropout", {"hidden_dropout_prob"});
  keys.take("attention_dropout", {"attention_probs_dropout_prob"});
  keys.take("classifier_dropout", {"classifier_dropout"});
  keys.take("layer_norm_epsilon", {"layer_norm_eps"});
  if (!is_electra) return;
  keys.take_or("embedding_size", "embedding_size", 128);
  keys.set("pooler", kType, "gelu");
  keys.set("dropout_before_pooler", kType, true);
}

/// Refuses two dropouts where GPT-2 has one here.
void refuse_other_embedding_dropout(Keys& keys) {
  constexpr double kUsual = 0.1;
  const double residual = keys.config().value("resid_pdrop", kUsual);
  const double embeddings = keys.config().value("embd_pdrop", kUsual);
  if (residual == embeddings) return;
  const bool is_given = keys.config().contains("embd_pdrop");
  keys.refused.push_back({.key = is_given ? "embd_pdrop" : "resid_pdrop",
                          .reason = "embeddings and residual branches have one dropout here, and transformers has " +
                                    Json(embeddings).dump() + " and " + Json(residual).dump() +
                                    "; set dropout beside init_from",
                          .settled_by = "dropout"});
}

void take_keys(Of<model::Gpt2Config>, Keys& keys) {
  keys.take("hidden_size", {"n_embd"});
  keys.take("num_layers", {"n_layer"});
  keys.take("num_heads", {"n_head"});
  keys.take("intermediate_size", {"n_inner"});
  keys.take("max_position_embeddings", {"n_positions"});
  keys.take("vocab_size", {"vocab_size"});
  keys.take("dropout", {"resid_pdrop"});
  keys.take("attention_dropout", {"attn_pdrop"});
  keys.take("layer_norm_epsilon", {"layer_norm_epsilon"});
  refuse_other_embedding_dropout(keys);
}

/// Removes the keys of a rotary scaling that transformers reads with no scaling of this kind.
template <class... Scalings>
void keep_read_keys(Of<config::OneOf<Scalings...>>, Json& scaling) {
  std::vector<std::string> read{"kind"};
  const auto add = [&]<class Scaling>(Of<Scaling>) {
    if (scaling["kind"] == Scaling::kind)
      Scaling::fields().apply([&](const auto&... fields) { (read.emplace_back(fields.name), ...); });
  };
  (add(Of<Scalings>()), ...);
  Json kept = Json::object();
  for (const std::string& key : read)
    if (scaling.contains(key)) kept[key] = scaling[key];
  scaling = std::move(kept);
}

/// Takes the rotary positions of a complete config.json.
void take_rope(const Json& rope, Keys& keys) {
  keys.set("rope_theta", "rope_theta", rope["rope_theta"]);
  if (rope["rope_type"] == "default") return;
  Json scaling = rope;
  scaling["kind"] = rope["rope_type"];
  keep_read_keys(Of<model::RopeScalingConfig>(), scaling);
  keys.set("rope_scaling", keys.config().contains("rope_scaling") ? "rope_scaling" : "rope_parameters",
           std::move(scaling));
}

/// Returns the shortest pattern that gives the list when it repeats, by the failure function of Knuth, Morris and
/// Pratt.
Json pattern_of(const Json& list) {
  if (list.size() < 2) return list;
  // By item: how long the longest beginning is that ends with this item and isn't all up to it.
  std::vector<std::size_t> lengths(list.size(), 0);
  for (std::size_t i = 1; i < list.size(); ++i) {
    std::size_t length = lengths[i - 1];
    while (length > 0 && list[i] != list[length]) length = lengths[length - 1];
    lengths[i] = list[i] == list[length] ? length + 1 : 0;
  }
  return Json(list.begin(), list.end() - static_cast<std::ptrdiff_t>(lengths.back()));
}

/// Takes the features of a family. `config` is complete.
void take_features(const Json& config, const model::LlamaFamily& family, Keys& keys) {
  using model::Feature;
  const auto is_on = [](Feature feature) { return feature == Feature::always; };
  const auto take = [&](const char* ours, const char* theirs) {
    if (const auto value = config.find(theirs); value != config.end() && !value->is_null())
      keys.set(ours, theirs, *value);
  };
  const std::string activation(family.activation_key);
  keys.set("activation", activation, config[activation] == "silu" ? "silu" : "gelu_tanh");
  if (is_on(family.qkv_bias)) keys.set("attention_bias", "model_type", "qkv");
  if (family.attention_bias != Feature::never)
    keys.set("attention_bias", "attention_bias", config["attention_bias"] == true ? "all" : "none");
  if (family.mlp_bias != Feature::never) take("mlp_bias", "mlp_bias");
  if (is_on(family.qk_norm)) keys.set("qk_norm", "model_type", true);
  if (is_on(family.is_gemma)) {
    keys.set("norm_unit_offset", "model_type", true);
    keys.set("scale_embeddings", "model_type", true);
  }
  if (is_on(family.post_norms)) keys.set("norm_placement", "model_type", "pre_and_post");
  if (is_on(family.fused_projections)) keys.set("fused_projections", "model_type", true);
  // transformers' other families ignore these.
  for (const auto& [feature, same] : {std::pair(family.query_scalar, "query_pre_attn_scalar"),
                                      std::pair(family.attention_softcap, "attn_logit_softcapping"),
                                      std::pair(family.final_softcap, "final_logit_softcapping")})
    if (feature != Feature::never) take(same, same);
  if (family.local_theta != Feature::never) take("rope_local_theta", "rope_local_base_freq");
  if (family.sliding != model::SlidingLayers::none && !config["sliding_window"].is_null()) {
    take("sliding_window", "sliding_window");
    if (family.sliding == model::SlidingLayers::by_type)
      keys.set("layer_types", "layer_types", pattern_of(config["layer_types"]));
  }
  if (family.layers_without_rope == Feature::never) return;
  Json positions = Json::array();
  for (const Json& has_rope : config["no_rope_layers"]) positions.push_back(has_rope == 0 ? "none" : "rotary");
  keys.set("position_types", "no_rope_layers", pattern_of(positions));
}

void take_keys(Of<model::LlamaConfig>, Keys& keys) {
  const model::LlamaFamily& family = *model::llama_family_of(keys.config());
  const Json config = model::complete_llama_json(keys.config(), family);
  for (model::RefusedKey& refused : model::refused_keys(keys.config(), family))
    keys.refused.push_back(std::move(refused));
  const auto take = [&](const char* ours, const char* theirs) {
    if (const auto value = config.find(theirs); value != config.end() && !value->is_null())
      keys.set(ours, theirs, *value);
  };
  take("hidden_size", "hidden_size");
  take("num_layers", "num_hidden_layers");
  take("num_heads", "num_attention_heads");
  take("num_key_value_heads", "num_key_value_heads");
  take("head_size", "head_dim");
  take("intermediate_size", "intermediate_size");
  take("max_position_embeddings", "max_position_embeddings");
  take("vocab_size", "vocab_size");
  take("pad_token_id", "pad_token_id");
  take("rms_norm_epsilon", "rms_norm_eps");
  take("tie_embeddings", "tie_word_embeddings");
  take("attention_dropout", "attention_dropout");
  take_rope(config["rope_parameters"], keys);
  take_features(config, family, keys);
}

void take_keys(Of<model::T5Config>, Keys& keys) {
  for (const auto& [ours, theirs] : {std::pair("hidden_size", "d_model"), std::pair("intermediate_size", "d_ff"),
                                     std::pair("dropout", "dropout_rate")})
    keys.take(ours, {theirs});
  keys.take_or("head_size", "d_kv", 64);
  for (const char* same : {"num_layers", "num_decoder_layers", "num_heads", "vocab_size", "layer_norm_epsilon",
                           "relative_attention_num_buckets", "relative_attention_max_distance"})
    keys.take(same, {same});
  // transformers 5 writes tie_word_embeddings: true into every file.
  keys.take("tie_embeddings", {"scale_decoder_outputs", "tie_word_embeddings"});
  const Json feed_forward = keys.config().value("feed_forward_proj", Json("relu"));
  keys.set("feed_forward_proj", "feed_forward_proj", feed_forward == "gated-gelu" ? "gated_gelu" : "relu");
}

/// Returns whether the config names the class whose two classifiers are averaged.
bool has_teacher(const Json& config) {
  const Json classes = config.value("architectures", Json::array());
  return classes == Json::array({"DeiTForImageClassificationWithTeacher"});
}

void take_vit_keys(Keys& keys) {
  keys.take("hidden_size", {"hidden_size"});
  keys.take("num_layers", {"num_hidden_layers"});
  keys.take("num_heads", {"num_attention_heads"});
  keys.take("intermediate_size", {"intermediate_size"});
  keys.take("patch_size", {"patch_size"});
  keys.take("activation", {"hidden_act"});
  keys.take("dropout", {"hidden_dropout_prob"});
  keys.take("attention_dropout", {"attention_probs_dropout_prob", "attention_dropout"});
  keys.take_or("layer_norm_epsilon", "layer_norm_eps", 1e-12);
}

/// Takes CLIP's image tower.
void take_clip(const Json& tower, Keys& keys) {
  const Json config = model::complete_clip_json(tower);
  Keys of_tower(config);
  take_vit_keys(of_tower);
  for (PublishedKey& key : of_tower.found) keys.found.push_back(std::move(key));
  for (model::RefusedKey& refused : of_tower.refused) keys.refused.push_back(std::move(refused));
  keys.set("patch_bias", kType, false);
  keys.set("embedding_norm", kType, true);
}

void take_keys(Of<model::VitConfig>, Keys& keys) {
  const Json& config = keys.config();
  if (config[kType] == "clip_vision_model") return take_clip(config, keys);
  if (config[kType] == "clip") return take_clip(config.value("vision_config", Json()), keys);
  take_vit_keys(keys);
  if (config[kType] != "deit") return;
  keys.set("distillation_token", kType, true);
  keys.set("pool", has_teacher(config) ? "architectures" : kType, has_teacher(config) ? "distilled" : "token");
}

/// Sizes by which timm names its plain ViTs: vit_base_patch16_224.
struct TimmVit {
  std::string_view name;
  std::int64_t hidden_size;
  std::int64_t num_layers;
  std::int64_t num_heads;
};
constexpr TimmVit kTimmVits[] = {{"vit_tiny_", 192, 12, 3},    {"vit_small_", 384, 12, 6},  {"vit_base_", 768, 12, 12},
                                 {"vit_large_", 1024, 24, 16}, {"vit_huge_", 1280, 32, 16}, {"deit_tiny_", 192, 12, 3},
                                 {"deit_small_", 384, 12, 6},  {"deit_base_", 768, 12, 12}};

/// Removes a beginning. Returns whether it was there.
bool take_prefix(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  return true;
}

std::optional<std::int64_t> take_number(std::string_view& text) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc()) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return number;
}

/// The features in the name of one of timm's vision transformers, as in vit_base_patch16_clip_quickgelu_224.
struct TimmVitName {
  const TimmVit* sizes;
  std::int64_t patch_size;
  bool is_distilled;
  bool is_clip;
  bool has_quick_gelu;
};

std::optional<TimmVitName> parse_timm_vit(std::string_view architecture) {
  for (const TimmVit& vit : kTimmVits) {
    std::string_view rest = architecture;
    if (!take_prefix(rest, vit.name)) continue;
    TimmVitName name{.sizes = &vit, .is_distilled = vit.name.starts_with("deit") && take_prefix(rest, "distilled_")};
    const auto patch_size = take_prefix(rest, "patch") ? take_number(rest) : std::nullopt;
    name.is_clip = vit.name.starts_with("vit") && take_prefix(rest, "_clip");
    name.has_quick_gelu = name.is_clip && take_prefix(rest, "_quickgelu");
    const bool has_image_size = take_prefix(rest, "_") && take_number(rest);
    if (!patch_size || !has_image_size || !rest.empty()) return std::nullopt;
    name.patch_size = *patch_size;
    return name;
  }
  return std::nullopt;
}

/// An argument of timm.create_model with the value that networks here have; null: timm's default, or the name's.
struct TimmArgument {
  std::string_view key;
  Json value = nullptr;
};

/// Refuses arguments that change what the network computes and that no key here takes. `taken` have such a key.
void refuse_timm_arguments(const Json& arguments, const std::vector<std::string_view>& taken,
                           const std::vector<TimmArgument>& fixed, Keys& keys) {
  // They change training, the initial weights, or sizes that the weights have.
  constexpr std::array<std::string_view, 14> kHarmless = {
      "img_size",        "in_chans",       "num_classes",    "drop_rate",       "pos_drop_rate",
      "patch_drop_rate", "proj_drop_rate", "attn_drop_rate", "drop_path_rate",  "drop_block_rate",
      "zero_init_last",  "weight_init",    "fix_init",       "dynamic_img_size"};
  for (const auto& [key, value] : arguments.items()) {
    const auto is_it = [&key = key](std::string_view one) { return one == key; };
    if (value.is_null() || std::ranges::any_of(taken, is_it) || std::ranges::any_of(kHarmless, is_it)) continue;
    const auto known = std::ranges::find_if(fixed, [&](const TimmArgument& one) { return is_it(one.key); });
    if (known != fixed.end() && known->value == value) continue;
    keys.refused.push_back(
        {"model_args", key + " " + value.dump().substr(0, 100) + " changes the network, and networks here have " +
                           (known != fixed.end() ? known->value.dump() : "timm's default") + " alone"});
  }
}

void take_timm_features(const TimmVitName& name, const Json& arguments, Keys& keys) {
  constexpr const char* kName = "architecture";
  keys.set("distillation_token", kName, name.is_distilled);
  keys.set("patch_bias", kName, !name.is_clip);
  keys.set("embedding_norm", kName, name.is_clip);
  keys.set("layer_norm_epsilon", kName, name.is_clip ? 1e-5 : 1e-6);
  const Json activation = arguments.value("act_layer", Json());
  if (activation.is_null())
    keys.set("activation", kName, name.has_quick_gelu ? "quick_gelu" : "gelu");
  else
    keys.set("activation", "act_layer", activation);
}

/// Takes the arguments of timm.create_model; those that are left out follow from the architecture's name. Returns
/// whether the architecture is the network's.
bool take_timm(Of<model::VitConfig>, std::string_view architecture, Keys& keys) {
  constexpr const char* kName = "architecture";
  const std::optional<TimmVitName> name = parse_timm_vit(architecture);
  if (!name) return false;
  const Json arguments = keys.config().value("model_args", Json::object());
  const auto given = [&](const char* theirs, std::int64_t otherwise) {
    const auto found = arguments.find(theirs);
    return found != arguments.end() && found->is_number_integer() ? found->get<std::int64_t>() : otherwise;
  };
  const std::int64_t hidden_size = given("embed_dim", name->sizes->hidden_size);
  const auto ratio = arguments.find("mlp_ratio");
  const double width = ratio != arguments.end() && ratio->is_number() ? ratio->get<double>() : 4.0;
  keys.set("hidden_size", kName, hidden_size);
  keys.set("num_layers", kName, given("depth", name->sizes->num_layers));
  keys.set("num_heads", kName, given("num_heads", name->sizes->num_heads));
  keys.set("intermediate_size", kName, static_cast<std::int64_t>(width * static_cast<double>(hidden_size)));
  keys.set("patch_size", kName, given("patch_size", name->patch_size));
  keys.set("class_token", "class_token", arguments.value("class_token", true));
  take_timm_features(*name, arguments, keys);
  refuse_timm_arguments(
      arguments,
      {"embed_dim", "depth", "num_heads", "mlp_ratio", "patch_size", "class_token", "global_pool", "act_layer"},
      {{"qkv_bias", true},
       {"proj_bias", true},
       {"qk_norm", false},
       {"scale_attn_norm", false},
       {"scale_mlp_norm", false},
       {"pos_embed", "learn"},
       {"no_embed_class", false},
       {"reg_tokens", 0},
       {"pre_norm", name->is_clip},
       {"final_norm", true},
       {"pool_include_prefix", false},
       {"dynamic_img_pad", false}},
      keys);
  const Json pool = arguments.value("global_pool", keys.config().value("global_pool", Json("token")));
  keys.set("pool", name->is_distilled ? kName : "global_pool", name->is_distilled ? Json("distilled") : pool);
  return true;
}

template <int Depth>
bool take_timm(Of<model::ResNetConfig<Depth>>, std::string_view architecture, Keys& keys) {
  if (architecture != model::ResNetConfig<Depth>::kind) return false;
  keys.set("stem", "architecture", "imagenet");
  Json arguments = {{"global_pool", keys.config().value("global_pool", Json())}};
  arguments.update(keys.config().value("model_args", Json::object()));
  refuse_timm_arguments(arguments, {},
                        {{"output_stride", 32},
                         {"global_pool", "avg"},
                         {"cardinality", 1},
                         {"base_width", 64},
                         {"stem_width", 64},
                         {"stem_type", ""},
                         {"replace_stem_pool", false},
                         {"block_reduce_first", 1},
                         {"down_kernel_size", 1},
                         {"avg_down", false},
                         {"act_layer", "relu"},
                         {"norm_layer", "batchnorm2d"}},
                        keys);
  return true;
}

/// The model_types of a network.
template <class Network>
std::vector<std::string_view> types_of(Of<Network>) {
  if (Network::traits.transformers_type.value.empty()) return {};
  return {*Network::traits.transformers_type};
}
std::vector<std::string_view> types_of(Of<model::BertConfig>) {
  return {"bert", "roberta", "distilbert", "electra"};
}
std::vector<std::string_view> types_of(Of<model::VitConfig>) {
  return {"vit", "deit", "clip_vision_model", "clip"};
}
std::vector<std::string_view> types_of(Of<model::LlamaConfig>) {
  std::vector<std::string_view> types;
  for (const model::LlamaFamily& family : model::kLlamaFamilies) types.push_back(family.type);
  return types;
}

template <class Network>
std::optional<PublishedKeys> keys_of(const Json& config, Classified classified) {
  Keys keys(config, classified);
  const auto type = config.find("model_type");
  const auto architecture = config.find("architecture");
  if (type != config.end()) {
    if constexpr (!Network::traits.transformers_type.value.empty()) {
      const std::vector<std::string_view> types = types_of(Of<Network>());
      if (std::any_of(types.begin(), types.end(), [&](std::string_view one) { return *type == one; })) {
        keys.set("kind", kType, Network::kind);
        keys.refused = model::refused_fixed_keys(config);
        take_keys(Of<Network>(), keys);
      }
    }
  } else if (architecture != config.end() && architecture->is_string()) {
    if constexpr (*Network::traits.is_in_timm)
      if (take_timm(Of<Network>(), architecture->get<std::string>(), keys))
        keys.set("kind", "architecture", Network::kind);
  }
  if (keys.found.empty()) return std::nullopt;
  return PublishedKeys{
      .kind = std::string(Network::kind), .keys = std::move(keys.found), .refused = std::move(keys.refused)};
}

}  // namespace

std::vector<std::string> published_model_types() {
  return []<class... Networks>(Of<config::OneOf<Networks...>>) {
    std::vector<std::string> all;
    const auto add = [&](const std::vector<std::string_view>& types) {
      all.insert(all.end(), types.begin(), types.end());
    };
    (add(types_of(Of<Networks>())), ...);
    return all;
  }(Of<model::OwnNetworkConfig>());
}

std::optional<PublishedKeys> published_keys(const Json& config, Classified classified) try {
  return [classified]<class... Networks>(Of<config::OneOf<Networks...>>, const Json& json) {
    std::optional<PublishedKeys> found;
    ((found ? void() : void(found = keys_of<Networks>(json, classified))), ...);
    return found;
  }(Of<model::OwnNetworkConfig>(), config);
} catch (const Json::exception& error) {
  throw core::Error("config.json: a key has a value of another type than transformers writes: " +
                    std::string(error.what()));
}

}  // namespace trainctl::experiment
