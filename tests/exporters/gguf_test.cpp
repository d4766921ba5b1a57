// GGUF files: bytes as the gguf package stores them, logits as transformers computes them of the file.
#include "exporters/gguf/export_gguf.h"

#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>

#include <catch2/catch.hpp>
#include <cstring>
#include <nlohmann/json.hpp>

#include "checkpoint/safetensors.h"
#include "core/error.h"
#include "core/file.h"
#include "exporters/gguf/gguf_vocabulary.h"
#include "support/published_networks.h"
#include "support/python.h"
#include "support/temporary_directory.h"
#include "tokenizer/tokenizer.h"

namespace trainctl::exporters {
namespace {

using namespace testing;  // NOLINT

/// What transformers reads of llama.cpp's architectures.
std::vector<PublishedNetwork> readable_networks() {
  std::vector<PublishedNetwork> networks;
  for (PublishedNetwork& published : published_networks())
    for (const char* name : {"gpt2", "llama_tied", "mistral_whole", "qwen2"})
      if (published.name == name) networks.push_back(std::move(published));
  const model::InputSpec tokens{.shape = {24}, .vocab_size = kFamilyVocabulary};
  model::LlamaConfig qwen3 = small_qwen3();
  qwen3.attention_bias = model::AttentionBias::none;
  qwen3.head_size = 128;  // transformers does not read the size from GGUF
  networks.push_back({"qwen3", qwen3, tokens});
  model::LlamaConfig wide = llama_of_two_layers();  // rows of 256 values, and of 48
  wide.hidden_size = 256;
  networks.push_back({"wide_llama", wide, tokens});
  // transformers reads neither soft caps, nor the scale of scores, nor the order of windows: they are its defaults.
  model::LlamaConfig gemma2 = later_gemma();
  gemma2.head_size = 256;
  gemma2.query_pre_attn_scalar = 256;
  gemma2.attn_logit_softcapping = 50;
  gemma2.final_logit_softcapping = 30;
  networks.push_back({"gemma2", gemma2, tokens});
  model::LlamaConfig gemma3 = small_gemma3();
  gemma3.head_size = 256;
  gemma3.query_pre_attn_scalar = 256;
  gemma3.rope_scaling = {};
  using enum model::LayerType;
  gemma3.layer_types = {sliding_attention, sliding_attention, sliding_attention,
                        sliding_attention, sliding_attention, full_attention};
  gemma3.num_layers = 6;
  networks.push_back({"gemma3", gemma3, tokens});
  return networks;
}

void write_files(const PublishedNetwork& published, const std::filesystem::path& directory) {
  const auto model = ready(published);
  const at::NoGradGuard no_grad;
  for (const model::NamedTensor& named : model::named_parameters(*model))
    named.tensor.copy_(at::randn(named.tensor.sizes()).mul(0.3));
  const at::Tensor inputs = at::randint(1, kFamilyVocabulary, {2, 11}, at::kLong);
  const at::Tensor logits = logits_of(*model, inputs);
  const pretrained::ModelInfo facts = pretrained::model_info_of(*model, published.input.shape);
  std::filesystem::create_directories(directory);
  const std::vector<std::pair<std::string, GgufType>> types = {{"f32", GgufType::f32},
                                                               {"f16", GgufType::f16},
                                                               {"q8_0", GgufType::q8_0},
                                                               {"q4_0", GgufType::q4_0},
                                                               {"q4_k", GgufType::q4_k}};
  for (const auto& [name, type] : types) {
    const std::vector<std::string> otherwise = export_gguf(
        *model, published.network, facts, {.path = directory / (name + ".gguf"), .name = published.name, .type = type});
    const bool has_blocks = type != GgufType::f32 && type != GgufType::f16;
    CHECK((has_blocks || otherwise.empty()));
    CHECK((type != GgufType::q4_k || !otherwise.empty()));
  }
  checkpoint::write_safetensors(directory / "reference.safetensors", {{"inputs", inputs}, {"logits", logits}}, {},
                                core::Durability::process);
}

std::string refusal(const model::LlamaConfig& config) {
  const TemporaryDirectory scratch;
  const PublishedNetwork published{"refused", config, {.shape = {24}, .vocab_size = kFamilyVocabulary}};
  const auto model = ready(published);
  try {
    export_gguf(*model, config, pretrained::model_info_of(*model, {24}), {.path = scratch / "x.gguf", .name = "x"});
  } catch (const core::Error& error) {
    CHECK(!std::filesystem::exists(scratch / "x.gguf"));
    return error.what();
  }
  return "";
}

TEST_CASE("gguf stores what its own package stores, and transformers computes the same of it",
          "[exporters][reference]") {
  const TemporaryDirectory scratch;
  for (const PublishedNetwork& published : readable_networks()) write_files(published, scratch / published.name);
  run_reference("gguf_files.py", {scratch.path().string()});
}

constexpr std::string_view kHello = "Hello world, naïve 🙂 can't";
constexpr const char* kTemplate = "{% for message in messages %}{{ message.content }}{% endfor %}";

TEST_CASE("a gguf file has the tokens, merges and chat template of its tokenizer", "[exporters][reference]") {
  const TemporaryDirectory scratch;
  const std::filesystem::path vocabulary = fetch_data("gpt2_vocabulary");
  for (const auto& entry : std::filesystem::recursive_directory_iterator(vocabulary))
    if (const std::string name = entry.path().filename(); name == "encoder.json" || name == "vocab.bpe")
      std::filesystem::copy_file(entry.path(), scratch / name);
  core::write_file_atomically(scratch / "tokenizer_config.json", nlohmann::json{{"chat_template", kTemplate}}.dump());
  const PublishedNetwork gpt2{
      "gpt2",
      model::Gpt2Config{.hidden_size = 32, .num_layers = 1, .num_heads = 4, .max_position_embeddings = 128},
      {.shape = {128}, .vocab_size = 50257}};
  const auto model = ready(gpt2);
  const std::filesystem::path directory = scratch / "files" / "gpt2";
  std::filesystem::create_directories(directory);
  export_gguf(*model, gpt2.network, pretrained::model_info_of(*model, {128}),
              {.path = directory / "f32.gguf", .name = "gpt2", .type = GgufType::f32, .tokenizer = scratch.path()});
  const std::vector<std::int32_t> ids = tokenizer::load_tokenizer(scratch.path())->encode(kHello, {}).ids;
  core::write_file_atomically(directory / "tokenizer.json.expected",
                              nlohmann::json{{"text", kHello}, {"ids", ids}, {"template", kTemplate}}.dump());
  run_reference("gguf_files.py", {(scratch / "files").string()});
}

using Json = nlohmann::json;

constexpr const char* kGpt2 = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
constexpr const char* kLlama3 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kQwen2 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

Json split(const char* regex) {
  return {{"type", "Split"}, {"pattern", {{"Regex", regex}}}, {"behavior", "Isolated"}, {"invert", false}};
}
Json bytes(bool use_regex, bool add_prefix_space = false) {
  return {
      {"type", "ByteLevel"}, {"add_prefix_space", add_prefix_space}, {"trim_offsets", true}, {"use_regex", use_regex}};
}
Json digits(bool individual) {
  return {{"type", "Digits"}, {"individual_digits", individual}};
}

/// A tokenizer.json of byte-level BPE, whose last token ends texts.
Json byte_level(const std::vector<Json>& steps) {
  Json vocabulary;
  for (int byte = 0; byte < 256; ++byte) vocabulary[tokenizer::byte_tokenizer()->token_of(byte)] = byte;
  const Json end = {{"id", 256},       {"content", "<|endoftext|>"}, {"single_word", false}, {"lstrip", false},
                    {"rstrip", false}, {"normalized", false},        {"special", true}};
  return {{"added_tokens", {end}},
          {"normalizer", nullptr},
          {"pre_tokenizer", {{"type", "Sequence"}, {"pretokenizers", steps}}},
          {"post_processor", nullptr},
          {"decoder", bytes(true)},
          {"model", {{"type", "BPE"}, {"ignore_merges", false}, {"vocab", vocabulary}, {"merges", Json::array()}}}};
}

/// Returns the text that the file's key has; the error if the tokenizer is refused. `network` is its config.json.
std::string value_of(const char* key, const Json& json, const chat_template::NamedTemplates& of_training = {},
                     const Json& network = Json::object(), const Json& settings = Json::object()) {
  const TemporaryDirectory scratch;
  scratch.write("config.json", network.dump());
  scratch.write("tokenizer_config.json", settings.dump());
  scratch.write("tokenizer.json", json.dump());
  GgufFile file;
  try {
    add_vocabulary(file, scratch.path(), {.vocab_size = 300, .end_of_answer = 256}, of_training);
  } catch (const core::Error& error) {
    return error.what();
  }
  file.write(scratch / "x.gguf");
  const std::string stored = core::read_file(scratch / "x.gguf");
  const std::size_t place = stored.find(key) + std::strlen(key) + sizeof(std::uint32_t);
  std::uint64_t length = 0;
  std::memcpy(&length, stored.data() + place, sizeof length);
  return stored.substr(place + sizeof length, length);
}

TEST_CASE("gguf names the pre-tokenizer that llama.cpp has, or refuses the tokenizer", "[exporters]") {
  const auto pre = [](const Json& json) { return value_of("tokenizer.ggml.pre", json); };
  const Json three = split("[0-9][0-9][0-9]");
  const Json punctuation = {{"type", "Punctuation"}, {"behavior", "Contiguous"}};
  CHECK(pre(byte_level({bytes(true)})) == "gpt-2");
  CHECK(pre(byte_level({split(kGpt2), bytes(false)})) == "gpt-2");
  CHECK(pre(byte_level({digits(true), bytes(true)})) == "smollm");
  CHECK(pre(byte_level({punctuation, bytes(true), digits(false), three})) == "falcon");
  CHECK(pre(byte_level({split(kLlama3), bytes(false)})) == "smaug-bpe");
  CHECK(pre(byte_level({split(kQwen2), bytes(false)})) == "qwen2");
  Json json = byte_level({split(kLlama3), bytes(false)});
  json["model"]["ignore_merges"] = true;
  CHECK(pre(json) == "llama-bpe");
  json = byte_level({split(kQwen2), bytes(false)});
  json["normalizer"] = {{"type", "NFC"}};
  CHECK(pre(json) == "qwen2");

  using Catch::Contains;
  CHECK_THAT(pre(byte_level({digits(false), bytes(true)})),
             Contains("llama.cpp has no name for the pre-tokenizer Digits"));
  CHECK_THAT(pre(byte_level({split(R"(\p{N}{1,3}(?=(?:\p{N}{3})*(?!\p{N})))"), bytes(true)})), Contains("{1,3}(?="));
  CHECK_THAT(pre(byte_level({bytes(false)})), Contains("no name for the pre-tokenizer ByteLevel"));
  CHECK_THAT(pre(byte_level({Json{{"type", "WhitespaceSplit"}}, bytes(true)})), Contains("WhitespaceSplit"));
  CHECK_THAT(pre(byte_level({bytes(true, true)})), Contains("ByteLevel with a space before the text"));
  CHECK_THAT(pre(byte_level({split(kLlama3), bytes(true)})), Contains("no name"));
  json = byte_level({bytes(true)});
  json["normalizer"] = {{"type", "Lowercase"}};
  CHECK_THAT(pre(json), Contains("llama.cpp has no normalizer there") && Contains("Lowercase"));
  json["normalizer"] = {{"type", "NFC"}};
  CHECK_THAT(pre(json), Contains("llama.cpp has no normalizer there"));
  json = byte_level({split(kQwen2), bytes(false)});
  json["model"]["ignore_merges"] = true;
  CHECK_THAT(pre(json), Contains("ignore_merges"));
  json = byte_level({bytes(true)});
  json["added_tokens"][0]["lstrip"] = true;
  CHECK_THAT(pre(json), Contains("<|endoftext|>") && Contains("lstrip"));
}

TEST_CASE("gguf names the pre-tokenizer of the class that reads the tokenizer", "[exporters][regression]") {
  const Json named = {{"tokenizer_class", "GPT2Tokenizer"}};
  const auto pre = [&](const char* type) {
    return value_of("tokenizer.ggml.pre", byte_level({split(kLlama3), bytes(false)}), {}, {{"model_type", type}},
                    named);
  };
  CHECK(pre("gpt2") == "gpt-2");
  CHECK(pre("olmo2") == "smaug-bpe");
}

TEST_CASE("a gguf file has the chat templates of training, by gguf-py's keys", "[exporters]") {
  const chat_template::NamedTemplates templates = {{"default", "of training"}, {"tool_use", "with tools"}};
  const Json json = byte_level({bytes(true)});
  CHECK(value_of("tokenizer.chat_template.tool_use", json, templates) == "with tools");
  CHECK(value_of("tokenizer.chat_template", json, {{"default", "of training"}}) == "of training");
}

TEST_CASE("what llama.cpp can't compute is refused by its key", "[exporters]") {
  model::LlamaConfig window = llama_of_two_layers();
  window.sliding_window = 7;
  CHECK(refusal(window).starts_with("model.sliding_window: "));
  CHECK(refusal(small_gemma3()).starts_with("model.layer_types: "));
  CHECK(refusal(small_gemma2()).starts_with("model.query_pre_attn_scalar: "));
  CHECK(refusal(small_qwen3()).starts_with("model.attention_bias: "));
  CHECK(refusal(small_smollm3()).find("GGUF files of smollm3 aren't written") != std::string::npos);
  model::LlamaConfig gelu = llama_of_two_layers();
  gelu.activation = model::GateActivation::gelu_tanh;
  CHECK(refusal(gelu).starts_with("model.activation: "));
  model::LlamaConfig capped = small_gemma3();
  capped.final_logit_softcapping = 3;
  CHECK(refusal(capped).starts_with("model.final_logit_softcapping: "));
  for (model::LlamaConfig gemma : {small_gemma(), small_gemma2()}) {
    gemma.tie_embeddings = false;
    CHECK(refusal(gemma).starts_with("model.tie_embeddings: "));
  }
}

TEST_CASE("weights that a type can't express are refused by name, and leave no file", "[exporters][regression]") {
  const TemporaryDirectory scratch;
  for (const GgufType type : {GgufType::f16, GgufType::q8_0, GgufType::q4_0}) {
    GgufFile file;
    file.add("blk.0.ffn_up.weight", at::randn({2, 32}).mul(1e9), type);
    CHECK_THROWS_WITH(file.write(scratch / "x.gguf"),
                      Catch::Contains("blk.0.ffn_up.weight") && Catch::Contains("beyond"));
    CHECK(std::filesystem::is_empty(scratch.path()));
  }
  GgufFile file;
  file.add("blk.0.ffn_up.weight", at::randn({2, 32}).mul(1e9), GgufType::f32);
  file.write(scratch / "x.gguf");
  CHECK(std::filesystem::exists(scratch / "x.gguf"));
}

}  // namespace
}  // namespace trainctl::exporters
