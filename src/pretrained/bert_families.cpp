#include "pretrained/bert_families.h"

#include <array>
#include <string>

#include "core/error.h"

namespace trainctl::pretrained {
namespace {

using Json = nlohmann::ordered_json;
using model::BertConfig;
using model::BertHead;
using model::BertPooler;
using model::BertPooling;

/// A family as transformers has it: its names, and the head by which it classifies sequences.
struct FamilyFacts {
  std::string_view model_type;
  std::string_view class_prefix;
  BertPooler pooler;
  bool dropout_before_pooler;
};
constexpr std::array<FamilyFacts, 4> kFamilies = {{
    {"bert", "Bert", BertPooler::tanh, false},
    {"roberta", "Roberta", BertPooler::tanh, true},
    {"distilbert", "DistilBert", BertPooler::relu, false},
    {"electra", "Electra", BertPooler::gelu, true},
}};

const FamilyFacts& facts_of(BertFamily family) {
  return kFamilies.at(static_cast<std::size_t>(family));
}

std::string class_of(const BertConfig& config, const ModelInfo& facts) {
  const std::string prefix(facts_of(bert_family(config)).class_prefix);
  if (facts.num_outputs == 0) return prefix + "ForMaskedLM";
  if (config.head == BertHead::token_classification) return prefix + "ForTokenClassification";
  return prefix + "ForSequenceClassification";
}

[[noreturn]] void refuse(BertFamily family, const std::string& feature) {
  throw core::Error("transformers has no " + std::string(facts_of(family).class_prefix) + " " + feature)
      .hint("--format safetensors");
}

/// Refuses what the family's embeddings and norms can't have.
void check_body(const BertConfig& config, BertFamily family) {
  const bool is_projected = config.size_of_embeddings() != config.hidden_size;
  if (family != BertFamily::electra && is_projected) refuse(family, "with a model.embedding_size of its own");
  if (family != BertFamily::distilbert && config.type_vocab_size == 0)
    refuse(family, "without token types (model.type_vocab_size: 0)");
  if (family == BertFamily::roberta && config.position_offset != config.pad_token_id.value_or(-1) + 1)
    refuse(family, "whose model.position_offset isn't model.pad_token_id + 1");
  if (family == BertFamily::distilbert && config.layer_norm_epsilon != 1e-12)
    refuse(family, "with a model.layer_norm_epsilon other than 1e-12");
}

/// Refuses what the family's classifier of sequences can't have.
void check_classifier(const BertConfig& config, BertFamily family) {
  if (config.pooling == BertPooling::mean) refuse(family, "that classifies the mean of its tokens");
  if (config.pooling == BertPooling::max) refuse(family, "that classifies the largest values of its tokens");
  if (config.normalize_pooled) refuse(family, "that classifies normalized values (model.normalize_pooled)");
  const FamilyFacts& theirs = facts_of(family);
  if (config.resolved_pooler() != theirs.pooler)
    refuse(family, "with model.pooler " + std::string(config::name_of(config.resolved_pooler())) + "; expected " +
                       std::string(config::name_of(theirs.pooler)));
  if (config.dropout_before_pooler != theirs.dropout_before_pooler)
    refuse(family,
           theirs.dropout_before_pooler ? "without model.dropout_before_pooler" : "with model.dropout_before_pooler");
}

Json padding_id(const BertConfig& config) {
  return config.pad_token_id ? Json(*config.pad_token_id) : Json(nullptr);
}

Json distilbert_settings(const BertConfig& config) {
  return {{"dropout", config.dropout},    {"attention_dropout", config.attention_dropout},
          {"qa_dropout", config.dropout}, {"seq_classif_dropout", config.dropout_of_classifier()},
          {"initializer_range", 0.02},    {"tie_weights_", true},
          {"tie_word_embeddings", true},  {"pad_token_id", padding_id(config)},
          {"sinusoidal_pos_embds", false}};
}

Json other_settings(const BertConfig& config) {
  const auto& dropout = config.classifier_dropout.value;
  return {{"hidden_dropout_prob", config.dropout},
          {"attention_probs_dropout_prob", config.attention_dropout},
          {"classifier_dropout", dropout ? Json(*dropout) : Json(nullptr)},
          {"initializer_range", 0.02},
          {"tie_word_embeddings", true},
          {"use_cache", true},
          {"pad_token_id", padding_id(config)}};
}

Json distilbert_structure(const BertConfig& config, const ModelInfo& facts) {
  return {{"model_type", facts_of(BertFamily::distilbert).model_type},
          {"vocab_size", facts.vocab_size},
          {"dim", config.hidden_size},
          {"n_layers", config.num_layers},
          {"n_heads", config.num_heads},
          {"hidden_dim", config.intermediate_size},
          {"activation", "gelu"},
          {"max_position_embeddings", config.max_position_embeddings}};
}

}  // namespace

BertFamily bert_family(const BertConfig& config) {
  if (config.position_offset > 0) return BertFamily::roberta;
  if (config.type_vocab_size == 0) return BertFamily::distilbert;
  if (config.size_of_embeddings() != config.hidden_size || config.resolved_pooler() == BertPooler::gelu)
    return BertFamily::electra;
  return BertFamily::bert;
}

BertFamily bert_family(std::string_view model_type, const BertConfig& config) {
  for (std::size_t i = 0; i < kFamilies.size(); ++i)
    if (kFamilies.at(i).model_type == model_type) return static_cast<BertFamily>(i);
  return bert_family(config);
}

Json bert_structure(const BertConfig& config, const ModelInfo& facts, BertFamily family) {
  if (family == BertFamily::distilbert) return distilbert_structure(config, facts);
  Json json = {{"model_type", facts_of(family).model_type},
               {"vocab_size", facts.vocab_size},
               {"hidden_size", config.hidden_size},
               {"num_hidden_layers", config.num_layers},
               {"num_attention_heads", config.num_heads},
               {"intermediate_size", config.intermediate_size},
               {"hidden_act", "gelu"},
               {"max_position_embeddings", config.max_position_embeddings},
               {"type_vocab_size", config.type_vocab_size},
               {"layer_norm_eps", config.layer_norm_epsilon},
               {"position_embedding_type", "absolute"},
               {"is_decoder", false}};
  if (family == BertFamily::electra) json["embedding_size"] = config.size_of_embeddings();
  // The first position is behind that of padding.
  if (family == BertFamily::roberta) json["pad_token_id"] = config.position_offset - 1;
  return json;
}

Json bert_settings(const BertConfig& config, const ModelInfo& facts) {
  const BertFamily family = bert_family(config);
  check_body(config, family);
  const bool is_classifier = facts.num_outputs > 0 && config.head != BertHead::token_classification;
  if (is_classifier) check_classifier(config, family);
  Json json = family == BertFamily::distilbert ? distilbert_settings(config) : other_settings(config);
  json["architectures"] = Json::array({class_of(config, facts)});
  if (is_classifier)
    json["problem_type"] = facts.targets == dataset::Targets::values ? "regression" : "single_label_classification";
  return json;
}

}  // namespace trainctl::pretrained
