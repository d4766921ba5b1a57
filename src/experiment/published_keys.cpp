#include "experiment/published_keys.h"

#include <charconv>
#include <cmath>
#include <type_traits>
#include <utility>

#include "model/config.h"

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
  void set(const char* ours, const char* theirs, Json value) {
    found.push_back({.ours = ours, .theirs = theirs, .value = std::move(value)});
  }

  std::vector<PublishedKey> found;

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

/// Takes the rotary positions. transformers 5 has them in `rope_parameters`, with the base; transformers 4 in
/// `rope_scaling`, with `type` for `rope_type`.
void take_rope(Keys& keys) {
  const Json& config = keys.config();
  for (const char* key : {"rope_parameters", "rope_scaling"}) {
    const auto rope = config.find(key);
    if (rope == config.end() || !rope->is_object()) continue;
    Json scaling = *rope;
    if (scaling.contains("rope_theta")) keys.set("rope_theta", "rope_theta", scaling["rope_theta"]);
    const Json type = scaling.value("rope_type", scaling.value("type", Json("default")));
    for (const char* taken : {"rope_theta", "rope_type", "type"}) scaling.erase(taken);
    if (type == "default") return;
    scaling["kind"] = type;
    return keys.set("rope_scaling", key, std::move(scaling));
  }
}

void take_keys(Of<model::LlamaConfig>, Keys& keys) {
  keys.take("hidden_size", {"hidden_size"});
  keys.take("num_layers", {"num_hidden_layers"});
  keys.take("num_heads", {"num_attention_heads"});
  keys.take("num_key_value_heads", {"num_key_value_heads"});
  keys.take("head_size", {"head_dim"});
  keys.take("intermediate_size", {"intermediate_size"});
  keys.take("max_position_embeddings", {"max_position_embeddings"});
  keys.take("vocab_size", {"vocab_size"});
  keys.take("rope_theta", {"rope_theta"});
  keys.take("rms_norm_epsilon", {"rms_norm_eps"});
  keys.take("tie_embeddings", {"tie_word_embeddings"});
  keys.take("attention_dropout", {"attention_dropout"});
  take_rope(keys);
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

template <class Network>
std::optional<PublishedKeys> keys_of(const Json& config) {
  Keys keys(config);
  const auto type = config.find("model_type");
  const auto architecture = config.find("architecture");
  if (type != config.end()) {
    if constexpr (!Network::traits.transformers_type.value.empty())
      if (*type == *Network::traits.transformers_type) {
        keys.set("kind", "model_type", Network::kind);
        take_keys(Of<Network>(), keys);
      }
  } else if (architecture != config.end() && architecture->is_string()) {
    if constexpr (*Network::traits.is_in_timm)
      if (take_timm(Of<Network>(), architecture->get<std::string>(), keys))
        keys.set("kind", "architecture", Network::kind);
  }
  if (keys.found.empty()) return std::nullopt;
  return PublishedKeys{.kind = std::string(Network::kind), .keys = std::move(keys.found)};
}

}  // namespace

std::optional<PublishedKeys> published_keys(const Json& config) {
  return []<class... Networks>(Of<config::OneOf<Networks...>>, const Json& json) {
    std::optional<PublishedKeys> found;
    ((found ? void() : void(found = keys_of<Networks>(json))), ...);
    return found;
  }(Of<model::NetworkConfig>(), config);
}

}  // namespace trainctl::experiment
