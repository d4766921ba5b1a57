#include "pretrained/tokenizer_files.h"

#include <catch2/catch.hpp>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "core/file.h"
#include "support/temporary_directory.h"
#include "tokenizer/tokenizer.h"

namespace trainctl::pretrained {
namespace {

using testing::TemporaryDirectory;
using Ids = std::vector<std::int32_t>;

void write(const std::filesystem::path& path, const std::string& text) {
  std::ofstream(path) << text;
}

TEST_CASE("the tokens that end a text are those of generation_config.json, or of config.json if it is alone",
          "[pretrained]") {
  const TemporaryDirectory base;
  CHECK(read_generation_settings(base.path()).ends.empty());
  write(base / "config.json", R"({"eos_token_id": [0, 264]})");
  CHECK(read_generation_settings(base.path()).ends == Ids{0, 264});
  // Directories from before there was generation_config.json; transformers reads these keys there.
  write(base / "config.json", R"({"eos_token_id": [0, 264], "num_beams": 4, "min_length": 0, "hidden_size": 8})");
  CHECK(read_generation_settings(base.path()).not_computed == std::vector<std::string>{"num_beams"});
  CHECK(read_generation_settings(base.path()).file == base / "config.json");
  write(base / "generation_config.json", R"({"eos_token_id": 7, "temperature": 0.6, "repetition_penalty": 1.0})");
  CHECK(read_generation_settings(base.path()).ends == Ids{7});
  CHECK(read_generation_settings(base.path()).not_computed.empty());
  write(base / "generation_config.json",
        R"({"repetition_penalty": 1.1, "bad_words_ids": [[3]], "suppress_tokens": []})");
  // transformers takes no other file's tokens in place of those that are left out.
  CHECK(read_generation_settings(base.path()).ends.empty());
  CHECK(read_generation_settings(base.path()).not_computed ==
        std::vector<std::string>{"repetition_penalty", "bad_words_ids"});
}

TEST_CASE("the settings with which transformers draws tokens are read where it draws", "[pretrained][regression]") {
  using Sampling = std::map<std::string, std::string>;
  const TemporaryDirectory base;
  const auto settings_of = [&](const std::string& json) {
    write(base / "generation_config.json", json);
    return read_generation_settings(base.path());
  };
  CHECK(settings_of(R"({"temperature": 0.6, "min_p": 0.1})").sampling.empty());
  CHECK(settings_of(R"({"do_sample": true, "temperature": 0.6, "top_k": 0, "top_p": 1.0, "min_p": 0.1})").sampling ==
        Sampling{{"temperature", "0.6"}, {"min_p", "0.1"}});
  CHECK(settings_of(R"({"do_sample": true, "top_k": null, "typical_p": 1.0, "eta_cutoff": 0.0})").sampling ==
        Sampling{{"top_k", "50"}});
  CHECK(settings_of(R"({"token_healing": true, "num_beams": 1})").not_computed ==
        std::vector<std::string>{"token_healing"});
  CHECK(settings_of(R"({"token_healing": false})").not_computed.empty());
  CHECK(settings_of(R"({"bos_token_id": 3})").decoder_start == 3);
  CHECK(settings_of(R"({"bos_token_id": 3, "decoder_start_token_id": 0})").decoder_start == 0);
  CHECK_FALSE(settings_of("{}").decoder_start);
}

TEST_CASE("a copied tokenizer names its class where the network would give it another", "[pretrained][regression]") {
  const TemporaryDirectory base;
  const TemporaryDirectory out;
  write(base / "tokenizer.json", R"({"version": "1.0", "added_tokens": [], "normalizer": null, "decoder": null,
      "pre_tokenizer": {"type": "Whitespace"}, "post_processor": null, "truncation": null, "padding": null,
      "model": {"type": "BPE", "unk_token": "<unk>", "vocab": {"a": 0, "b": 1, "ab": 2, "<unk>": 3},
                "merges": [["a", "b"]]}})");
  write(out / "config.json", R"({"model_type": "gpt2"})");
  copy_tokenizer(base / "tokenizer.json", out.path());
  std::vector<std::int32_t> ids;
  tokenizer::load_tokenizer(out.path())->append_ids("ab a?", ids);
  CHECK(ids == Ids{2, 0, 3});
  CHECK(nlohmann::json::parse(core::read_file(out / "tokenizer_config.json"))["tokenizer_class"] ==
        "PreTrainedTokenizerFast");

  const TemporaryDirectory words;
  const TemporaryDirectory bert;
  const TemporaryDirectory gpt2;
  write(words / "vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nthe\n");
  write(bert / "config.json", R"({"model_type": "bert"})");
  copy_tokenizer(words / "vocab.txt", bert.path());
  CHECK_FALSE(std::filesystem::exists(bert / "tokenizer_config.json"));
  write(gpt2 / "config.json", R"({"model_type": "gpt2"})");
  copy_tokenizer(words / "vocab.txt", gpt2.path());  // warns: nothing names the class
  CHECK_FALSE(std::filesystem::exists(gpt2 / "tokenizer_config.json"));
}

TEST_CASE("an export keeps each token that ends a text of its base", "[pretrained][regression]") {
  const TemporaryDirectory base;
  const TemporaryDirectory out;
  ModelInfo facts;
  facts.roles.end = 0;
  write(base / "config.json", R"({"eos_token_id": 0})");
  CHECK_FALSE(write_generation_config(base.path(), facts, out.path()));
  write(base / "config.json", R"({"eos_token_id": [0, 264]})");
  const auto file = write_generation_config(base.path(), facts, out.path());
  REQUIRE(file);
  CHECK(nlohmann::json::parse(core::read_file(*file))["eos_token_id"] == nlohmann::json({0, 264}));
}

}  // namespace
}  // namespace trainctl::pretrained
