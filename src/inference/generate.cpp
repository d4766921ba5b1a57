#include "inference/generate.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/tensor.h>

#include <algorithm>

#include "core/error.h"
#include "core/text.h"
#include "runtime/random.h"

namespace trainctl::inference {
namespace {

void check(model::Model& model, const GenerationRequest& request) {
  if (model.vocabulary_head() == nullptr) {
    const auto can = [](const model::ModelTraits& traits) {
      return traits.outputs.value.contains(model::Output::next_tokens) ||
             traits.outputs.value.contains(model::Output::target_tokens);
    };
    throw core::Error("the model gives no logits over the vocabulary, so it can't generate text")
        .hint("a causal language model or an encoder-decoder: " + core::list_words(model::kinds_where(can), "or"));
  }
  if (request.prompt.empty()) throw core::Error("the prompt is empty").hint("give --prompt");
  const std::int64_t vocab_size = model.vocabulary_head()->vocabulary_size();
  std::int32_t largest = *std::max_element(request.prompt.begin(), request.prompt.end());
  for (const std::int32_t id : request.source) largest = std::max(largest, id);
  if (largest >= vocab_size)
    throw core::Error("the prompt has token " + std::to_string(largest) + ", but the model knows " +
                      core::format_count(vocab_size) + " tokens")
        .hint("use the tokenizer that the model was trained with");
  const auto length = static_cast<std::int64_t>(request.prompt.size());
  if (request.max_position_embeddings && length >= *request.max_position_embeddings)
    throw core::Error("the prompt has " + core::format_count(length) + " tokens, but the model has positions for " +
                      core::format_count(*request.max_position_embeddings));
}

/// What a model is given for the next token.
struct Given {
  std::vector<std::int64_t> ids;     // the prompt and what was generated, or what of it the cache lacks
  std::vector<std::int64_t> source;  // of an encoder-decoder, until the cache has what is needed of it
  bool has_source = false;
};

/// Computes the logits of the token after `given.ids`: float [V] on the host.
at::Tensor next_logits(model::Model& model, const Given& given, model::KeyValueCache* cache) {
  const model::VocabularyHead& head = *model.vocabulary_head();
  const at::Device device = head.stand_in() == nullptr ? head.weight().device() : at::kCPU;
  const auto row = [&](const std::vector<std::int64_t>& ids) {
    return at::tensor(ids, at::kLong).unsqueeze(0).to(device);  // [1, T]
  };
  model::ModelInput input{.values = row(given.has_source ? given.source : given.ids), .cache = cache};
  if (given.has_source) input.decoder_values = row(given.ids);
  const at::Tensor logits = model.forward_into_head(input, [](model::VocabularyHead& last, const at::Tensor& hidden) {
    return last.forward(hidden.narrow(1, hidden.size(1) - 1, 1));
  });
  return logits.flatten().to(at::kFloat).cpu().contiguous();
}

}  // namespace

Generation generate(model::Model& model, const GenerationRequest& request,
                    const std::function<void(std::int32_t)>& on_token) {
  check(model, request);
  const at::NoGradGuard no_grad;
  runtime::Random random(request.key);
  model::KeyValueCache cache;
  const bool uses_cache = request.earlier == EarlierTokens::cached;
  Given given{.ids = {request.prompt.begin(), request.prompt.end()},
              .source = {request.source.begin(), request.source.end()},
              .has_source = !request.source.empty()};
  auto length = static_cast<std::int64_t>(given.ids.size());
  Generation generation;
  for (std::int64_t i = 0; i < request.max_tokens; ++i, ++length) {
    if (request.max_position_embeddings && length >= *request.max_position_embeddings) {
      generation.ended_by = GenerationEnd::max_position_embeddings;
      return generation;
    }
    const at::Tensor logits = next_logits(model, given, uses_cache ? &cache : nullptr);
    const std::int64_t known = std::min(request.vocab_size, logits.numel());
    const std::span values(logits.const_data_ptr<float>(), static_cast<std::size_t>(known));
    const auto id = static_cast<std::int32_t>(sample(values, request.sampling, random.uniform()));
    if (std::ranges::find(request.ends, id) != request.ends.end()) {
      generation.ended_by = GenerationEnd::end_token;
      return generation;
    }
    generation.ids.push_back(id);
    on_token(id);
    if (uses_cache) {
      given.ids.clear();
      given.source.clear();
    }
    given.ids.push_back(id);
  }
  return generation;
}

}  // namespace trainctl::inference
