// What an encoder-decoder writes for sources, as answers of `predict`.
#pragma once

#include <nlohmann/json.hpp>
#include <vector>

#include "inference/predict.h"
#include "tokenizer/tokenizer.h"
#include "train/run/run.h"

namespace trainctl::engine {

/// Returns {"text", "ended_by"} for each source, with the likeliest token at each place. A target ends with the
/// tokenizer's end token, or with as many tokens as the dataset's longest target has.
std::vector<nlohmann::ordered_json> written_targets(train::Run& run, const tokenizer::Tokenizer& tokenizer,
                                                    const std::vector<inference::PredictionInput>& sources);

}  // namespace trainctl::engine
