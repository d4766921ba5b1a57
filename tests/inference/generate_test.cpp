#include "inference/generate.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tensor.h>

#include <catch2/catch.hpp>

#include "../model/recorded_model.h"
#include "core/error.h"
#include "inference/text_stream.h"
#include "support/published_networks.h"
#include "support/temporary_directory.h"

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

/// Checks the tokens that our model and transformers' give for the same padded sources.
void check_against_transformers(const PublishedNetwork& published, const std::filesystem::path& file) {
  const auto model = random_model(published);
  TensorMap given;
  for (const model::NamedTensor& named : model::named_parameters(*model))
    given["weights/" + named.name] = named.tensor.detach();
  const std::vector<std::int64_t> lengths{9, 4, 7, 1};
  const at::Tensor ids = at::randint(2, 61, {4, 9}, at::kLong);
  const at::Tensor mask = at::arange(9).lt(at::tensor(lengths).unsqueeze(1)).to(at::kLong);
  given["ids"] = ids;
  given["key_mask"] = mask;
  write_safetensors(file, given);
  run_reference("transformers_t5.py", {"generate", file.string(), published.name});
  const at::Tensor expected = read_reference(file).at("generated");  // the start, tokens, the end, padding
  for (std::size_t row = 0; row < lengths.size(); ++row) {
    const auto* const source = ids[static_cast<std::int64_t>(row)].const_data_ptr<std::int64_t>();
    GenerationRequest request{.prompt = {0},
                              .source = {source, source + lengths[row]},
                              .max_tokens = 12,
                              .vocab_size = 61,
                              .ends = {1},
                              .sampling = {.temperature = 0}};
    for (const EarlierTokens earlier : {EarlierTokens::cached, EarlierTokens::recomputed}) {
      request.earlier = earlier;
      const Generation generation = generate(*model, request, ignore);
      std::vector<std::int64_t> tokens{0};
      tokens.insert(tokens.end(), generation.ids.begin(), generation.ids.end());
      if (generation.ended_by == GenerationEnd::end_token) tokens.push_back(1);
      tokens.resize(static_cast<std::size_t>(expected.size(1)), 0);
      CHECK(at::tensor(tokens).equal(expected[static_cast<std::int64_t>(row)]));
    }
  }
}

TEST_CASE("an encoder-decoder generates transformers' tokens, with the cache and without", "[inference][reference]") {
  const TemporaryDirectory scratch;
  for (const PublishedNetwork& published : encoder_decoders()) {
    INFO(published.name);
    check_against_transformers(published, scratch / published.name);
  }
}

TEST_CASE("beyond the pretraining's length generation gives transformers' tokens", "[inference][reference]") {
  model::LlamaConfig dynamic = llama_of_two_layers();
  dynamic.max_position_embeddings = 16;
  dynamic.rope_scaling = model::DynamicRopeConfig{.factor = 4};
  CHECK(dynamic.sizes().extends_positions);
  model::LlamaConfig longrope = llama_of_two_layers();
  longrope.rope_scaling = model::LongRopeConfig{.short_factor = {1, 1.1, 1.2, 1.3},
                                                .long_factor = {2, 4, 6, 8},
                                                .original_max_position_embeddings = 16,
                                                .factor = {},
                                                .attention_factor = {}};
  CHECK_FALSE(longrope.sizes().extends_positions);
  model::LlamaConfig phi3 = longrope;
  phi3.fused_projections = true;
  const TemporaryDirectory scratch;
  const model::InputSpec tokens{.shape = {16}, .vocab_size = kFamilyVocabulary};
  for (const auto& [name, config] :
       {std::pair("dynamic", dynamic), std::pair("longrope", longrope), std::pair("phi3", phi3)}) {
    INFO(name);
    const auto model = random_model({name, config, tokens});
    TensorMap given{{"ids", at::tensor({3, 1, 4, 1, 5}, at::kLong).unsqueeze(0)}};
    for (const model::NamedTensor& named : model::named_parameters(*model))
      given["weights/" + named.name] = named.tensor.detach();
    const std::filesystem::path file = scratch / name;
    write_safetensors(file, given);
    run_reference("transformers_generation.py", {file.string(), name});
    const GenerationRequest request{
        .prompt = {3, 1, 4, 1, 5}, .max_tokens = 40, .vocab_size = kFamilyVocabulary, .sampling = {.temperature = 0}};
    const Generation generation = generate(*model, request, ignore);
    CHECK(at::tensor(generation.ids).to(at::kLong).equal(read_reference(file).at("generated").flatten()));
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
  request.ends = {9999, full.ids[0]};
  const Generation none = generate(*model, request, ignore);
  CHECK(none.ended_by == GenerationEnd::end_token);
  CHECK(none.ids.empty());
  request.ends = {};
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
