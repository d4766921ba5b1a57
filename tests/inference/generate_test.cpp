#include "inference/generate.h"

#include <ATen/ops/randn.h>

#include <catch2/catch.hpp>

#include "core/error.h"
#include "inference/text_stream.h"
#include "support/published_networks.h"

namespace trainctl::inference {
namespace {

using namespace testing;  // NOLINT

std::unique_ptr<model::Model> random_model(const PublishedNetwork& published) {
  auto model = ready(published);
  const at::NoGradGuard no_grad;
  for (const model::NamedTensor& named : model::named_parameters(*model))
    named.tensor.copy_(at::randn(named.tensor.sizes()).mul(0.3));
  return model;
}

std::vector<PublishedNetwork> causal_networks() {
  std::vector<PublishedNetwork> causal;
  for (PublishedNetwork& published : published_networks())
    if (published.name == "gpt2" || published.name.starts_with("llama")) causal.push_back(std::move(published));
  return causal;
}

void ignore(std::int32_t) {}

TEST_CASE("with the cache the same tokens come as without, greedy and drawn", "[inference]") {
  for (const PublishedNetwork& published : causal_networks()) {
    INFO(published.name);
    const auto model = random_model(published);
    for (const double temperature : {0.0, 1.0}) {
      GenerationRequest request{.prompt = {3, 1, 4, 1, 5},
                                .max_tokens = 17,
                                .vocab_size = 61,
                                .sampling = {.temperature = temperature},
                                .key = 7};
      const Generation cached = generate(*model, request, ignore);
      request.earlier = EarlierTokens::recomputed;
      CHECK(generate(*model, request, ignore).ids == cached.ids);
      CHECK(cached.ids.size() == 17);
      CHECK(cached.ended_by == GenerationEnd::max_tokens);
    }
  }
}

TEST_CASE("the same key gives the same text, another key another", "[inference]") {
  const auto model = random_model(causal_networks()[0]);
  GenerationRequest request{.prompt = {3}, .max_tokens = 15, .vocab_size = 61, .key = 1};
  const auto first = generate(*model, request, ignore).ids;
  CHECK(generate(*model, request, ignore).ids == first);
  request.key = 2;
  CHECK(generate(*model, request, ignore).ids != first);
}

TEST_CASE("generation ends at the end token, at the model's last position, and stays in the tokenizer", "[inference]") {
  const auto model = random_model(causal_networks()[0]);
  GenerationRequest request{.prompt = {3, 1, 4},
                            .max_tokens = 100,
                            .max_position_embeddings = 24,
                            .vocab_size = 61,
                            .sampling = {.temperature = 0}};
  std::vector<std::int32_t> heard;
  const Generation full = generate(*model, request, [&](std::int32_t id) { heard.push_back(id); });
  CHECK(full.ended_by == GenerationEnd::max_position_embeddings);
  CHECK(full.ids.size() == 21);
  CHECK(heard == full.ids);
  request.end = full.ids[0];
  const Generation none = generate(*model, request, ignore);
  CHECK(none.ended_by == GenerationEnd::end_token);
  CHECK(none.ids.empty());
  request.end = {};
  request.vocab_size = 10;
  for (const std::int32_t id : generate(*model, request, ignore).ids) CHECK(id < 10);
}

TEST_CASE("prompts that a model can't continue are refused", "[inference]") {
  const auto model = random_model(causal_networks()[0]);
  const auto refused = [&](std::vector<std::int32_t> prompt) {
    CHECK_THROWS_AS(
        generate(*model, {.prompt = std::move(prompt), .max_position_embeddings = 24, .vocab_size = 61}, ignore),
        core::Error);
  };
  refused({});
  refused({61});
  refused(std::vector<std::int32_t>(24, 1));
}

TEST_CASE("streamed text has whole characters only, and nothing is lost", "[inference]") {
  const auto tokenizer = tokenizer::byte_tokenizer();
  const std::string text = "naïve 日本 🙂!";
  std::vector<std::int32_t> ids;
  tokenizer->append_ids(text, ids);
  TextStream stream(*tokenizer, {65, 66});
  std::string streamed;
  for (const std::int32_t id : ids) {
    const std::string piece = stream.add(id);
    CHECK(piece.find("\xEF\xBF\xBD") == std::string::npos);
    if (!piece.empty()) CHECK((static_cast<unsigned char>(piece[0]) & 0xC0) != 0x80);
    streamed += piece;
  }
  CHECK(streamed + stream.finish() == text);
}

TEST_CASE("bytes that never become a character are told as U+FFFD", "[inference]") {
  const auto tokenizer = tokenizer::byte_tokenizer();
  TextStream stream(*tokenizer, {});
  std::string streamed;
  for (const std::int32_t id : {0xF0, 0x9F, 0x61, 0x62, 0xE6}) streamed += stream.add(id);
  CHECK(streamed ==
        "\xEF\xBF\xBD"
        "ab");
  CHECK(stream.finish() == "\xEF\xBF\xBD");
}

}  // namespace
}  // namespace trainctl::inference
