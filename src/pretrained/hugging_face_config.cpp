#include "pretrained/hugging_face_config.h"

#include <algorithm>

#include "core/error.h"
#include "core/text.h"
#include "pretrained/bert_families.h"
#include "pretrained/image_frame.h"
#include "pretrained/vit_families.h"

namespace trainctl::pretrained {
namespace {

using Json = nlohmann::ordered_json;

/// Adds the name of each output of a classifier. Without names in the data it is `LABEL_0` and so on, as in
/// transformers.
void add_labels(Json& json, const ModelInfo& facts) {
  Json names = Json::object();
  Json ids = Json::object();
  for (std::int64_t i = 0; i < facts.num_outputs; ++i) {
    const auto index = static_cast<std::size_t>(i);
    const std::string name = index < facts.class_names.size() ? facts.class_names[index] : "LABEL_" + std::to_string(i);
    names[std::to_string(i)] = name;
    ids[name] = i;
  }
  if (facts.targets == dataset::Targets::label_sets) json["problem_type"] = "multi_label_classification";
  json["id2label"] = std::move(names);
  json["label2id"] = std::move(ids);
}

void add_roles(Json& json, const tokenizer::SpecialTokenIds& roles) {
  const auto add = [&](const char* key, const std::optional<std::int32_t>& id) {
    json[key] = id ? Json(*id) : Json(nullptr);
  };
  add("bos_token_id", roles.begin);
  add("eos_token_id", roles.end);
  add("pad_token_id", roles.pad);
}

Json complete(const model::BertConfig& config, const ModelInfo& facts) {
  Json json = bert_settings(config, facts);
  if (facts.num_outputs > 0) add_labels(json, facts);
  return json;
}

Json complete(const model::Gpt2Config& config, const ModelInfo& facts) {
  Json json = {{"architectures", {"GPT2LMHeadModel"}},
               {"resid_pdrop", config.dropout},
               {"embd_pdrop", config.dropout},
               {"attn_pdrop", config.attention_dropout},
               {"initializer_range", 0.02},
               {"scale_attn_weights", true},
               {"scale_attn_by_inverse_layer_idx", false},
               {"reorder_and_upcast_attn", false},
               {"tie_word_embeddings", true},
               {"use_cache", true}};
  add_roles(json, facts.roles);
  return json;
}

Json complete(const model::LlamaConfig& config, const ModelInfo& facts) {
  Json json = {{"architectures", {published_family(config).architecture}},
               {"attention_dropout", config.attention_dropout},
               {"initializer_range", 0.02},
               {"use_cache", true}};
  add_roles(json, facts.roles);
  if (config.pad_token_id) json["pad_token_id"] = *config.pad_token_id;
  return json;
}

Json complete(const model::T5Config& config, const ModelInfo& facts) {
  Json json = {{"architectures", {"T5ForConditionalGeneration"}},
               {"dropout_rate", config.dropout},
               {"initializer_factor", 1.0},
               {"is_encoder_decoder", true},
               {"use_cache", true}};
  add_roles(json, facts.roles);
  const std::int64_t pad = facts.roles.pad.value_or(0);
  json["pad_token_id"] = pad;
  json["decoder_start_token_id"] = facts.decoder_start.value_or(pad);
  return json;
}

Json complete(const model::VitConfig& config, const ModelInfo& facts) {
  Json json = vit_settings(config);
  add_labels(json, facts);
  return json;
}

core::Error not_in_transformers(std::string_view kind) {
  std::vector<std::string> known =
      model::kinds_where([](const model::ModelTraits& traits) { return !traits.transformers_type.value.empty(); });
  std::sort(known.begin(), known.end());
  return core::Error("transformers has no network like " + std::string(kind))
      .hint("--format safetensors; the networks that it has are " + core::list_words(known));
}

}  // namespace

Json hugging_face_config(const model::NetworkConfig& network, const ModelInfo& facts) {
  Json json = network.visit([&]<class Network>(const Network& config) -> Json {
    if constexpr (Network::traits.transformers_type.value.empty())
      throw not_in_transformers(Network::kind);
    else
      return complete(config, facts);
  });
  Json structure = structure_of(network, facts);
  for (auto& [key, value] : structure.items()) json[key] = std::move(value);
  json["dtype"] = "float32";
  return json;
}

Json preprocessor_config(const model::NetworkConfig& network, const ModelInfo& facts) {
  const model::ModelTraits traits = config::traits_of(network);
  const bool reads_images = !traits.transformers_type.value.empty() && traits.input.value != model::Input::tokens;
  return reads_images ? image_processor(facts) : Json(nullptr);
}

}  // namespace trainctl::pretrained
