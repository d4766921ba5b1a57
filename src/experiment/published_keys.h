// The keys of `model` that a config.json of transformers or timm gives.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "model/transformers_keys.h"

namespace trainctl::experiment {

struct PublishedKey {
  std::string ours;    // in `model`
  std::string theirs;  // in config.json
  nlohmann::json value;
};

struct PublishedKeys {
  std::string kind;
  std::vector<PublishedKey> keys;  // `kind` among them
  std::vector<model::RefusedKey> refused{};
};

/// Returns every model_type of transformers that a kind here is.
std::vector<std::string> published_model_types();

/// What a network is to classify, if anything.
enum class Classified { sequences, tokens };

/// Returns the kind and the keys that config.json gives; nothing for a network that no kind here is.
std::optional<PublishedKeys> published_keys(const nlohmann::json& config,
                                            Classified classified = Classified::sequences);

}  // namespace trainctl::experiment
