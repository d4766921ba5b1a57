// The networks of transformers that `model: {kind: bert}` can be, and their config.json.
#pragma once

#include <nlohmann/json.hpp>
#include <string_view>

#include "model/config.h"
#include "pretrained/model_info.h"

namespace trainctl::pretrained {

enum class BertFamily { bert, roberta, distilbert, electra };

/// Returns the family that the config's features belong to. Sizes alone are BERT's.
BertFamily bert_family(const model::BertConfig& config);
/// Returns the family that config.json names by its model_type, otherwise that of the config.
BertFamily bert_family(std::string_view model_type, const model::BertConfig& config);

/// Returns the keys of config.json that weights depend on.
nlohmann::ordered_json bert_structure(const model::BertConfig& config, const ModelInfo& facts, BertFamily family);

/// Returns the other keys of config.json. What transformers' class of the family can't compute is an Error.
nlohmann::ordered_json bert_settings(const model::BertConfig& config, const ModelInfo& facts);

}  // namespace trainctl::pretrained
