#include "experiment/published_keys.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <type_traits>
#include <utility>

#include "core/error.h"
#include "model/config.h"
#include "model/llama_json.h"

namespace trainctl::experiment {
namespace {

using Json = nlohmann::json;
template <class Network>
using Of = std::type_identity<Network>;

class Keys {
 public:
  explicit Keys(const Json& config) : config_(config) {}

  const Json& config() const { return config_; }
  /// Takes the first of their keys that the config has, as ours.
  void take(const char* ours, std::initializer_list<const char*> theirs) {
    for (const char* key : theirs)
      if (const auto value = config_.find(key); value != config_.end() && !value->is_null())
        return set(ours, key, *value);
  }
  void set(const char* ours, const std::string& theirs, Json value) {
    found.push_back({.ours = ours, .theirs = theirs, .value = std::move(value)});
  }

  std::vector<PublishedKey> found;
  std::vector<model::RefusedKey> refused;

 private:
  const Json& config_;
};

void take_keys(Of<model::BertConfig>, Keys& keys) {
  keys.take("hidden_size", {"hidden_size"});
  keys.take("num_layers", {"num_hidden_layers"});
  keys.take("num_heads", {"num_attention_heads"});
  keys.take("intermediate_size", {"intermediate_size"});
  keys.take("max_position_embeddings", {"max_position_embeddings"});
  keys.take("vocab_size", {"vocab_size"});
  keys.take("type_vocab_size", {"type_vocab_size"});
  keys.take("pad_token_id", {"pad_token_id"});
  keys.take("dropout", {"hidden_dropout_prob"});
  keys.take("attention_dropout", {"attention_probs_dropout_prob"});
  keys.take("layer_norm_epsilon", {"layer_norm_eps"});
}

void take_keys(Of<model::Gpt2Config>, Keys& keys) {
  keys.take("hidden_size", {"n_embd", "hidden_size"});
  keys.take("num_layers", {"n_layer", "num_hidden_layers"});
  keys.take("num_heads", {"n_head", "num_attention_heads"});
  keys.take("intermediate_size", {"n_inner"});
  keys.take("max_position_embeddings", {"n_positions", "max_position_embeddings"});
  keys.take("vocab_size", {"vocab_size"});
  keys.take("dropout", {"resid_pdrop"});
  keys.take("attention_dropout", {"attn_pdrop"});
  keys.take("layer_norm_epsilon", {"layer_norm_epsilon"});
}

/// Takes the rotary positions of a complete config.json.
void take_rope(const Json& rope, Keys& keys) {
  keys.set("rope_theta", "rope_theta", rope["rope_theta"]);
  if (rope["rope_type"] == "default") return;
  Json scaling = rope;
  for (const char* taken : {"rope_theta", "rope_type", "partial_rotary_factor"}) scaling.erase(taken);
  scaling["kind"] = rope["rope_type"];
  keys.set("rope_scaling", keys.config().contains("rope_scaling") ? "rope_scaling" : "rope_parameters",
           std::move(scaling));
}

/// Returns the shortest pattern that gives the list when it repeats.
Json pattern_of(const Json& list) {
  for (std::size_t period = 1; period < list.size(); ++period) {
    bool repeats = true;
    for (std::size_t i = period; i < list.size() && repeats; ++i) repeats = list[i] == list[i - period];
    if (repeats) return Json(list.begin(), list.begin() + static_cast<std::ptrdiff_t>(period));
  }
  return list;
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
  for (const char* same : {"query_pre_attn_scalar", "attn_logit_softcapping", "final_logit_softcapping"})
    take(same, same);
  take("rope_local_theta", "rope_local_base_freq");
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
  const model::LlamaFamily& family = *model::llama_family(keys.config()["model_type"].get<std::string>());
  const Json config = model::complete_llama_json(keys.config(), family);
  for (model::RefusedKey& refused : model::refused_keys(config, family)) keys.refused.push_back(std::move(refused));
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
  take("rms_norm_epsilon", "rms_norm_eps");
  take("tie_embeddings", "tie_word_embeddings");
  take("attention_dropout", "attention_dropout");
  take_rope(config["rope_parameters"], keys);
  take_features(config, family, keys);
}

void take_keys(Of<model::VitConfig>, Keys& keys) {
  keys.take("hidden_size", {"hidden_size"});
  keys.take("num_layers", {"num_hidden_layers"});
  keys.take("num_heads", {"num_attention_heads"});
  keys.take("intermediate_size", {"intermediate_size"});
  keys.take("patch_size", {"patch_size"});
  keys.take("dropout", {"hidden_dropout_prob"});
  keys.take("attention_dropout", {"attention_probs_dropout_prob"});
  keys.take("layer_norm_epsilon", {"layer_norm_eps"});
}

/// Sizes by which timm names its plain ViTs: vit_base_patch16_224.
struct TimmVit {
  std::string_view name;
  std::int64_t hidden_size;
  std::int64_t num_layers;
  std::int64_t num_heads;
};
constexpr TimmVit kTimmVits[] = {{"vit_tiny_patch", 192, 12, 3},
                                 {"vit_small_patch", 384, 12, 6},
                                 {"vit_base_patch", 768, 12, 12},
                                 {"vit_large_patch", 1024, 24, 16},
                                 {"vit_huge_patch", 1280, 32, 16}};

/// Takes the arguments of timm.create_model; those that are left out follow from the architecture's name. Returns
/// whether the architecture is the network's.
bool take_timm(Of<model::VitConfig>, std::string_view architecture, Keys& keys) {
  constexpr const char* kName = "architecture";
  for (const TimmVit& vit : kTimmVits) {
    if (!architecture.starts_with(vit.name)) continue;
    const std::string_view rest = architecture.substr(vit.name.size());
    std::int64_t patch_size = 0;
    const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), patch_size);
    const std::string_view image_size(end, static_cast<std::size_t>(rest.data() + rest.size() - end));
    if (error != std::errc() || !image_size.starts_with('_') ||
        image_size.find_first_not_of("0123456789", 1) != std::string_view::npos)
      return false;
    const Json arguments = keys.config().value("model_args", Json::object());
    const auto given = [&](const char* theirs, std::int64_t otherwise) {
      const auto found = arguments.find(theirs);
      return found != arguments.end() && found->is_number_integer() ? found->get<std::int64_t>() : otherwise;
    };
    const std::int64_t hidden_size = given("embed_dim", vit.hidden_size);
    const auto ratio = arguments.find("mlp_ratio");
    const double width = ratio != arguments.end() && ratio->is_number() ? ratio->get<double>() : 4.0;
    keys.set("hidden_size", kName, hidden_size);
    keys.set("num_layers", kName, given("depth", vit.num_layers));
    keys.set("num_heads", kName, given("num_heads", vit.num_heads));
    keys.set("intermediate_size", kName, std::llround(width * static_cast<double>(hidden_size)));
    keys.set("patch_size", kName, given("patch_size", patch_size));
    if (const auto token = arguments.find("class_token"); token != arguments.end())
      keys.set("class_token", "class_token", *token);
    const Json pool = arguments.value("global_pool", keys.config().value("global_pool", Json("token")));
    keys.set("pool", "global_pool", pool);
    return true;
  }
  return false;
}

template <int Depth>
bool take_timm(Of<model::ResNetConfig<Depth>>, std::string_view architecture, Keys&) {
  return architecture == model::ResNetConfig<Depth>::kind;
}

/// Returns whether a network of this kind has the model_type.
template <class Network>
bool has_type(Of<Network>, const Json& type) {
  return type == *Network::traits.transformers_type;
}
bool has_type(Of<model::LlamaConfig>, const Json& type) {
  return type.is_string() && model::llama_family(type.get<std::string>()) != nullptr;
}

template <class Network>
std::optional<PublishedKeys> keys_of(const Json& config) {
  Keys keys(config);
  const auto type = config.find("model_type");
  const auto architecture = config.find("architecture");
  if (type != config.end()) {
    if constexpr (!Network::traits.transformers_type.value.empty())
      if (has_type(Of<Network>(), *type)) {
        keys.set("kind", "model_type", Network::kind);
        take_keys(Of<Network>(), keys);
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

std::vector<std::string> published_types() {
  std::vector<std::string> types;
  for (const model::NetworkKind& network : model::kNetworkKinds)
    if (!network.traits->transformers_type.value.empty()) types.emplace_back(*network.traits->transformers_type);
  for (const model::LlamaFamily& family : model::kLlamaFamilies)
    if (std::find(types.begin(), types.end(), family.type) == types.end()) types.emplace_back(family.type);
  return types;
}

std::optional<PublishedKeys> published_keys(const Json& config) try {
  return []<class... Networks>(Of<config::OneOf<Networks...>>, const Json& json) {
    std::optional<PublishedKeys> found;
    ((found ? void() : void(found = keys_of<Networks>(json))), ...);
    return found;
  }(Of<model::NetworkConfig>(), config);
} catch (const Json::exception& error) {
  throw core::Error("config.json: a key has a value of another type than transformers writes: " +
                    std::string(error.what()));
}

}  // namespace trainctl::experiment
