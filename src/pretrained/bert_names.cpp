#include "pretrained/bert_names.h"

#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "pretrained/bert_families.h"

namespace trainctl::pretrained {
namespace {

/// A beginning of names here, and in transformers.
struct Prefixes {
  std::string_view here;
  std::string_view there;
};

// The first prefix that fits a name counts.
constexpr Prefixes kRoberta[] = {
    {"bert.pooler.dense.", "classifier.dense."},
    {"classifier.", "classifier.out_proj."},
    {"cls.predictions.transform.dense.", "lm_head.dense."},
    {"cls.predictions.transform.LayerNorm.", "lm_head.layer_norm."},
    {"cls.predictions.decoder.", "lm_head.decoder."},
    {"cls.predictions.", "lm_head."},
    {"bert.", "roberta."},
};
constexpr Prefixes kDistilBert[] = {
    {"bert.pooler.dense.", "pre_classifier."},
    {"cls.predictions.transform.dense.", "vocab_transform."},
    {"cls.predictions.transform.LayerNorm.", "vocab_layer_norm."},
    {"cls.predictions.decoder.weight", "vocab_projector.weight"},
    {"cls.predictions.", "vocab_projector."},
    {"bert.encoder.layer.", "distilbert.transformer.layer."},
    {"bert.", "distilbert."},
};
constexpr Prefixes kDistilBertLayer[] = {
    {"attention.self.query.", "attention.q_lin."},
    {"attention.self.key.", "attention.k_lin."},
    {"attention.self.value.", "attention.v_lin."},
    {"attention.output.dense.", "attention.out_lin."},
    {"attention.output.LayerNorm.", "sa_layer_norm."},
    {"intermediate.dense.", "ffn.lin1."},
    {"output.dense.", "ffn.lin2."},
    {"output.LayerNorm.", "output_layer_norm."},
};
constexpr Prefixes kElectra[] = {
    {"bert.pooler.dense.", "classifier.dense."},
    {"classifier.", "classifier.out_proj."},
    {"cls.predictions.transform.dense.", "generator_predictions.dense."},
    {"cls.predictions.transform.LayerNorm.", "generator_predictions.LayerNorm."},
    {"cls.predictions.decoder.weight", "generator_lm_head.weight"},
    {"cls.predictions.", "generator_lm_head."},
    {"bert.embeddings.projection.", "electra.embeddings_project."},
    {"bert.", "electra."},
};

std::span<const Prefixes> prefixes_of(BertFamily family) {
  switch (family) {
    case BertFamily::roberta:
      return kRoberta;
    case BertFamily::distilbert:
      return kDistilBert;
    case BertFamily::electra:
      return kElectra;
    case BertFamily::bert:
      break;
  }
  return {};
}

enum class Direction { to_transformers, from_transformers };

std::optional<std::string> with_prefix_replaced(std::string_view name, std::span<const Prefixes> table,
                                                Direction direction) {
  for (const auto& [here, there] : table) {
    const std::string_view from = direction == Direction::to_transformers ? here : there;
    const std::string_view to = direction == Direction::to_transformers ? there : here;
    if (name.starts_with(from)) return std::string(to) + std::string(name.substr(from.size()));
  }
  return std::nullopt;
}

/// Replaces what follows the number of a block: "PREFIX3.ffn.lin1.weight".
std::string with_layer_replaced(const std::string& name, std::string_view layers, Direction direction) {
  if (!name.starts_with(layers)) return name;
  const std::size_t dot = name.find('.', layers.size());
  if (dot == std::string::npos) return name;
  const auto inside = with_prefix_replaced(std::string_view(name).substr(dot + 1), kDistilBertLayer, direction);
  return inside ? name.substr(0, dot + 1) + *inside : name;
}

std::string name_here(const std::string& name) {
  for (const BertFamily family : {BertFamily::roberta, BertFamily::distilbert, BertFamily::electra}) {
    const auto renamed = with_prefix_replaced(name, prefixes_of(family), Direction::from_transformers);
    if (!renamed) continue;
    return family == BertFamily::distilbert
               ? with_layer_replaced(*renamed, "bert.encoder.layer.", Direction::from_transformers)
               : *renamed;
  }
  return name;
}

/// Returns the name as a network with a head has it: what is saved without a head lacks the prefix.
std::string with_family_prefix(const std::string& name) {
  if (name.starts_with("transformer.layer.")) return "distilbert." + name;
  return name.starts_with("embeddings_project.") ? "electra." + name : name;
}

}  // namespace

checkpoint::TensorMap bert_to_transformers(const model::BertConfig& config, const checkpoint::TensorMap& tensors) {
  const BertFamily family = bert_family(config);
  // A classifier of tokens has one matrix, under one name in all families.
  const bool is_sequence_classifier = tensors.contains("bert.pooler.dense.weight");
  checkpoint::TensorMap renamed;
  for (const auto& [name, tensor] : tensors) {
    const bool stays = name.starts_with("classifier.") && !is_sequence_classifier;
    std::string there = name;
    if (family == BertFamily::distilbert)
      there = with_layer_replaced(name, "bert.encoder.layer.", Direction::to_transformers);
    if (!stays) there = with_prefix_replaced(there, prefixes_of(family), Direction::to_transformers).value_or(there);
    renamed[there] = tensor;
  }
  return renamed;
}

checkpoint::TensorMap bert_from_transformers(const model::BertConfig& config, const checkpoint::TensorMap& tensors) {
  // transformers classifies by BERT's own pooler, but not by RoBERTa's: its classifier has a matrix of its own.
  const bool has_pooler = bert_family(config) == BertFamily::bert;
  checkpoint::TensorMap renamed;
  for (const auto& [bare_name, tensor] : tensors) {
    const std::string name = with_family_prefix(bare_name);
    if (name.starts_with("roberta.pooler."))
      renamed[name] = tensor;
    else if (name.starts_with("pooler.") && !has_pooler)
      renamed["roberta." + name] = tensor;
    else
      renamed[name_here(name)] = tensor;
  }
  return renamed;
}

}  // namespace trainctl::pretrained
