#include "pretrained/tokenizer_files.h"

#include <catch2/catch.hpp>
#include <fstream>
#include <nlohmann/json.hpp>

#include "core/file.h"
#include "support/temporary_directory.h"

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
