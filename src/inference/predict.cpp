#include "inference/predict.h"

#include <ATen/ops/argmax.h>
#include <ATen/ops/bincount.h>
#include <ATen/ops/full.h>
#include <ATen/ops/log_softmax.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/sort.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/topk.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>

#include "core/error.h"

namespace trainctl::inference {
namespace {

using Json = nlohmann::ordered_json;

/// Rounds to float precision, so that output lines stay short.
double rounded(double value) {
  const auto single = static_cast<float>(value);
  return std::isfinite(single) ? std::stod(nlohmann::json(single).dump()) : value;
}

/// JSON would have null for such values.
void check_finite(const at::Tensor& output) {
  if (!output.isfinite().all().item<bool>()) throw core::Error("the model's output has NaN or infinite values");
}

struct Likeliest {
  std::int64_t index;
  double probability;
};

/// Returns the classes with the highest probability first; `scores` [N] are logits.
std::vector<Likeliest> likeliest(const at::Tensor& scores, std::int64_t top) {
  check_finite(scores);
  const auto [values, indices] =
      at::topk(at::softmax(scores.to(at::kDouble), 0), std::min(top, scores.size(0)), 0, /*largest=*/true);
  std::vector<Likeliest> found;
  for (std::int64_t i = 0; i < values.size(0); ++i)
    found.push_back({.index = indices[i].item<std::int64_t>(), .probability = values[i].item<double>()});
  return found;
}

/// Returns the name of a class, or its number.
std::string class_name(const AnswerOptions& options, std::int64_t index) {
  const auto place = static_cast<std::size_t>(index);
  return place < options.class_names.size() ? options.class_names[place] : std::to_string(index);
}

class ClassAnswers final : public Answers {
 public:
  explicit ClassAnswers(AnswerOptions options) : options_(std::move(options)) {}

  Json of(const at::Tensor& output, const PredictionInput&) const override {
    const std::vector<Likeliest> found = likeliest(output, options_.top);
    Json answer = {{"label", class_name(options_, found.front().index)}, {"score", rounded(found.front().probability)}};
    for (const Likeliest& one : found) answer["scores"][class_name(options_, one.index)] = rounded(one.probability);
    return answer;
  }

 private:
  AnswerOptions options_;
};

class LabelAnswers final : public Answers {
 public:
  LabelAnswers(double threshold, AnswerOptions options) : threshold_(threshold), options_(std::move(options)) {}

  Json of(const at::Tensor& output, const PredictionInput&) const override {
    check_finite(output);
    const auto [scores, order] = at::sort(at::sigmoid(output.to(at::kDouble)), /*dim=*/0, /*descending=*/true);
    Json labels = Json::array();
    Json told = Json::object();
    for (std::int64_t i = 0; i < scores.size(0); ++i) {
      const std::string name = class_name(options_, order[i].item<std::int64_t>());
      const double score = scores[i].item<double>();
      if (score >= threshold_) labels.push_back(name);
      if (i < options_.top) told[name] = rounded(score);
    }
    return {{"labels", std::move(labels)}, {"scores", std::move(told)}};
  }

 private:
  double threshold_;
  AnswerOptions options_;
};

class MaskedPixelAnswers final : public Answers {
 public:
  explicit MaskedPixelAnswers(AnswerOptions options) : options_(std::move(options)) {}

  Json of(const at::Tensor& output, const PredictionInput& input) const override {
    check_finite(output);
    const at::Tensor classes = output.argmax(0);  // [H, W]
    const at::Tensor counts = at::bincount(classes.flatten(), {}, output.size(0));
    Json shares = Json::object();
    const auto [sorted, order] = at::sort(counts, /*dim=*/0, /*descending=*/true);
    for (std::int64_t i = 0; i < std::min(options_.top, order.size(0)); ++i)
      if (const auto pixels = sorted[i].item<std::int64_t>(); pixels > 0)
        shares[class_name(options_, order[i].item<std::int64_t>())] =
            rounded(static_cast<double>(pixels) / static_cast<double>(classes.numel()));
    Json answer = {{"shares", std::move(shares)}};
    if (options_.save_mask) answer["mask"] = options_.save_mask(input.name, classes.to(at::kByte));
    return answer;
  }

 private:
  AnswerOptions options_;
};

class ValueAnswers final : public Answers {
 public:
  explicit ValueAnswers(dataset::Standardization labels) : labels_(labels) {}

  Json of(const at::Tensor& output, const PredictionInput&) const override {
    check_finite(output);
    const double value = output[0].item<double>();
    // A mean that is far from 0 takes more digits than a float has.
    return {{"value", labels_ == dataset::kAsTheyAre ? rounded(value) : labels_.restored(value)}};
  }

 private:
  dataset::Standardization labels_;
};

/// Word of the text between white space, in code points.
struct Word {
  std::string text;
  std::int32_t begin = 0;
  std::int32_t end = 0;
};

std::vector<Word> words_of(const std::string& text) {
  std::vector<Word> words;
  bool in_word = false;
  std::int32_t place = -1;
  for (const char c : text) {
    const bool continues = (static_cast<unsigned char>(c) & 0xC0U) == 0x80U;
    if (!continues) ++place;
    const bool is_space = c == ' ' || c == '\t';
    if (!is_space && !in_word) words.push_back({.text = "", .begin = place, .end = place});
    in_word = !is_space;
    if (!in_word) continue;
    words.back().text += c;
    words.back().end = place + 1;
  }
  return words;
}

/// Answers with tags. A word's tag is that of its first piece, as in training. A word that the normalizer removes, or
/// that the cut removes, has no tag.
class TagAnswers final : public Answers {
 public:
  explicit TagAnswers(AnswerOptions options) : options_(std::move(options)) {}

  Json of(const at::Tensor& output, const PredictionInput& input) const override {
    Json tags = Json::array();
    const tokenizer::Encoding& encoding = input.encoding;
    const std::vector<Word> words = words_of(input.text);
    std::size_t next = 0;  // the first word without a tag
    for (std::size_t piece = 0; piece < encoding.ids.size(); ++piece) {
      if (encoding.is_special[piece] != 0) continue;
      const tokenizer::TextRange& range = encoding.offsets[piece];
      while (next < words.size() && words[next].end <= range.begin) ++next;
      if (next == words.size()) break;
      const Word& word = words[next];
      if (range.end <= word.begin) continue;  // a later piece of the word before
      const Likeliest best = likeliest(output[static_cast<std::int64_t>(piece)], 1).front();
      const std::string name = class_name(options_, best.index);
      tags.push_back({{"word", word.text},
                      {"tag", name},
                      {"score", rounded(best.probability)},
                      {"begin", word.begin},
                      {"end", word.end}});
      ++next;
    }
    return {{"tags", tags}};
  }

 private:
  AnswerOptions options_;
};

Json tokens_of(const at::Tensor& scores, const AnswerOptions& options) {
  Json tokens = Json::array();
  for (const Likeliest& one : likeliest(scores, options.top)) {
    const auto id = static_cast<std::int32_t>(one.index);
    tokens.push_back({{"token", options.tokenizer->decode({&id, 1}, tokenizer::SpecialTokens::add)},
                      {"score", rounded(one.probability)}});
  }
  return tokens;
}

class NextTokenAnswers final : public Answers {
 public:
  explicit NextTokenAnswers(AnswerOptions options) : options_(std::move(options)) {}

  Json of(const at::Tensor& output, const PredictionInput& input) const override {
    check_finite(output);
    const std::int64_t length = output.size(0);
    Json answer;
    if (length > 1) {
      const at::Tensor logs = at::log_softmax(output.narrow(0, 0, length - 1).to(at::kDouble), 1);
      const at::Tensor next = input.values.narrow(0, 1, length - 1).unsqueeze(1);
      const double sum = logs.gather(1, next).sum().item<double>();
      answer["log_likelihood"] = rounded(sum);
      answer["perplexity"] = rounded(std::exp(-sum / static_cast<double>(length - 1)));
    }
    answer["next"] = tokens_of(output[length - 1], options_);
    return answer;
  }

 private:
  AnswerOptions options_;
};

class MaskAnswers final : public Answers {
 public:
  explicit MaskAnswers(AnswerOptions options) : options_(std::move(options)) {}

  Json of(const at::Tensor& output, const PredictionInput& input) const override {
    const std::optional<std::int32_t> mask = options_.tokenizer->roles().mask;
    if (!mask) throw core::Error("the tokenizer has no mask token");
    Json masks = Json::array();
    for (std::size_t i = 0; i < input.encoding.ids.size(); ++i)
      if (input.encoding.ids[i] == *mask)
        masks.push_back({{"position", i}, {"tokens", tokens_of(output[static_cast<std::int64_t>(i)], options_)}});
    if (masks.empty()) throw core::Error("the text has no " + options_.tokenizer->token_of(*mask) + " to be filled in");
    return {{"masks", masks}};
  }

 private:
  AnswerOptions options_;
};

std::unique_ptr<Answers> answers(const task::ClassificationConfig&, AnswerOptions options) {
  return std::make_unique<ClassAnswers>(std::move(options));
}
std::unique_ptr<Answers> answers(const task::MultiLabelClassificationConfig& config, AnswerOptions options) {
  return std::make_unique<LabelAnswers>(config.threshold, std::move(options));
}
std::unique_ptr<Answers> answers(const task::SemanticSegmentationConfig&, AnswerOptions options) {
  return std::make_unique<MaskedPixelAnswers>(std::move(options));
}
std::unique_ptr<Answers> answers(const task::RegressionConfig&, const AnswerOptions& options) {
  return std::make_unique<ValueAnswers>(options.labels);
}
std::unique_ptr<Answers> answers(const task::PluggedTaskConfig& config, AnswerOptions options) {
  const task::TaskTraits& traits = config.interface().traits;
  if (*traits.output == model::Output::next_tokens) return std::make_unique<NextTokenAnswers>(std::move(options));
  if (*traits.output != model::Output::per_sample)
    throw core::Error("task " + std::string(config.plugged_name()) +
                      " answers neither for a sample nor with next tokens, so predict can't show its answers");
  if (*traits.has_classes) return std::make_unique<ClassAnswers>(std::move(options));
  return std::make_unique<ValueAnswers>(options.labels);
}
std::unique_ptr<Answers> answers(const task::TokenClassificationConfig&, AnswerOptions options) {
  return std::make_unique<TagAnswers>(std::move(options));
}
std::unique_ptr<Answers> answers(const task::CausalLmConfig&, AnswerOptions options) {
  return std::make_unique<NextTokenAnswers>(std::move(options));
}
std::unique_ptr<Answers> answers(const task::DpoConfig&, AnswerOptions options) {
  return std::make_unique<NextTokenAnswers>(std::move(options));
}
std::unique_ptr<Answers> answers(const task::Seq2SeqLmConfig&, const AnswerOptions&) {
  throw core::Error("an encoder-decoder answers token by token, and has no answer at once");
}
std::unique_ptr<Answers> answers(const task::MaskedLmConfig&, AnswerOptions options) {
  return std::make_unique<MaskAnswers>(std::move(options));
}

at::Tensor padded(const std::vector<std::int32_t>& values, std::int64_t length, std::int64_t pad) {
  const at::Tensor row = at::full({length}, pad, at::kLong);
  auto* to = row.mutable_data_ptr<std::int64_t>();
  std::copy(values.begin(), values.end(), to);
  return row;
}

}  // namespace

PredictionInput text_input(const tokenizer::Tokenizer& tokenizer, const std::string& text, const std::string* pair,
                           const tokenizer::EncodeOptions& options) {
  PredictionInput input{.values = {}, .encoding = {}, .text = text};
  input.encoding = pair != nullptr ? tokenizer.encode_pair(text, *pair, options) : tokenizer.encode(text, options);
  if (input.encoding.ids.empty()) throw core::Error("the text has no tokens");
  input.values = padded(input.encoding.ids, static_cast<std::int64_t>(input.encoding.ids.size()), 0);
  return input;
}

model::ModelInput collate(std::span<const PredictionInput> inputs, std::int64_t pad) {
  std::vector<at::Tensor> values;
  if (inputs.front().encoding.ids.empty()) {
    for (const PredictionInput& input : inputs) values.push_back(input.values);
    return {.values = at::stack(values)};
  }
  std::size_t longest = 0;
  for (const PredictionInput& input : inputs) longest = std::max(longest, input.encoding.ids.size());
  const auto width = static_cast<std::int64_t>(longest);
  std::vector<at::Tensor> types;
  const at::Tensor mask = at::zeros({static_cast<std::int64_t>(inputs.size()), width}, at::kBool);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const tokenizer::Encoding& encoding = inputs[i].encoding;
    values.push_back(padded(encoding.ids, width, pad));
    types.push_back(padded(encoding.type_ids, width, 0));
    mask[static_cast<std::int64_t>(i)].narrow(0, 0, static_cast<std::int64_t>(encoding.ids.size())).fill_(true);
  }
  return {.values = at::stack(values), .token_types = at::stack(types), .key_mask = mask};
}

std::unique_ptr<Answers> make_answers(const task::TaskConfig& task, AnswerOptions options) {
  return task.visit([&](const auto& config) { return answers(config, std::move(options)); });
}

}  // namespace trainctl::inference
