// Predictions for single inputs: batches of them for the model, and its outputs as JSON.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "dataset/standardization.h"
#include "model/model.h"
#include "task/config.h"
#include "tokenizer/tokenizer.h"

namespace trainctl::inference {

struct PredictionInput {
  at::Tensor values;               // float [C, H, W] or [F], or ids int64 [T]
  tokenizer::Encoding encoding{};  // of texts
  std::string text{};
  std::string name{};  // of an image's file
};

/// Texts as the model is given them. An Error where a text has no tokens.
PredictionInput text_input(const tokenizer::Tokenizer& tokenizer, const std::string& text, const std::string* pair,
                           const tokenizer::EncodeOptions& options);

/// Inputs of one kind in a batch; shorter texts are padded with `pad`.
model::ModelInput collate(std::span<const PredictionInput> inputs, std::int64_t pad);

struct AnswerOptions {
  std::vector<std::string> class_names{};           // empty: numbers
  const tokenizer::Tokenizer* tokenizer = nullptr;  // of language models
  std::int64_t top = 5;                             // classes, or tokens, that are told
  dataset::Standardization labels{};                // of values: those that the model learned
  /// Saves the mask of an image, uint8 [H, W], under a name made of the image's, and returns the file's path. Null:
  /// masks are not saved.
  std::function<std::string(const std::string& image, const at::Tensor& classes)> save_mask{};
};

/// The answers of a model as JSON, by the task:
/// - classification: {"label", "score", "scores": {…}}; regression: {"value"}.
/// - multi_label_classification: {"labels": […], "scores": {…}}; a label from the task's threshold on.
/// - semantic_segmentation: {"shares": {…}, "mask"}: each class's share of the pixels, and the saved file.
/// - token_classification: {"tags": [{"word", "tag", "score", "begin", "end"}]}, places in code points.
/// - causal_lm: {"log_likelihood", "perplexity", "next": [{"token", "score"}]}, only "next" for a single token.
/// - seq2seq_lm: an Error, since a target is generated (inference/generate.h).
/// - masked_lm: {"masks": [{"position", "tokens": [{"token", "score"}]}]}.
class Answers {
 public:
  virtual ~Answers() = default;
  /// `output`: the model's row for the input, [classes], [T, …] without padding, or [classes, H,
  /// W]. An Error where there is no answer.
  virtual nlohmann::ordered_json of(const at::Tensor& output, const PredictionInput& input) const = 0;
};
std::unique_ptr<Answers> make_answers(const task::TaskConfig& task, AnswerOptions options);

}  // namespace trainctl::inference
