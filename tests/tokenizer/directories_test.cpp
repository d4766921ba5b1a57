// Directories as strangers publish them: the ids of AutoTokenizer, or a refusal.
#include <catch2/catch.hpp>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "support/python.h"
#include "support/temporary_directory.h"
#include "tokenizer/tokenizer.h"

namespace trainctl::tokenizer::directories_test {
namespace {

using Json = nlohmann::json;

struct Outcomes {
  int equal = 0;
  int refused = 0;
};

std::vector<std::int32_t> ids_of(const Tokenizer& tokenizer, const std::string& text, SpecialTokens special) {
  return tokenizer.encode(text, {special, std::nullopt}).ids;
}

/// Compares one directory that transformers reads.
void compare(const std::filesystem::path& directory, const Json& one, Outcomes& outcomes) {
  std::unique_ptr<Tokenizer> tokenizer;
  try {
    tokenizer = load_tokenizer(directory);
  } catch (const core::Error&) {
    ++outcomes.refused;
    return;
  }
  INFO(one.at("name") << " " << one.at("form") << " " << one.at("files") << ", read by " << one.at("class"));
  for (const Json& text : one.at("texts")) {
    INFO(text.at("text"));
    CHECK(Json(ids_of(*tokenizer, text.at("text"), SpecialTokens::add)) == text.at("ids"));
    CHECK(Json(ids_of(*tokenizer, text.at("text"), SpecialTokens::leave_out)) == text.at("alone"));
  }
  ++outcomes.equal;
}

TEST_CASE("directories in all forms give AutoTokenizer's ids, or are refused", "[tokenizer][reference]") {
  const testing::TemporaryDirectory directory;
  testing::run_reference("tokenizer_directories.py", {directory.path().string(), "300"});
  std::ifstream stream(directory / "cases.json");
  std::map<std::string, Outcomes> outcomes;
  for (const Json& one : Json::parse(stream))
    if (one.contains("texts"))
      compare(directory / one.at("name").get<std::string>(), one, outcomes[one.at("form").get<std::string>()]);
  for (const auto& [form, one] : outcomes) {
    INFO(form << ": " << one.equal << " equal, " << one.refused << " refused");
    CHECK(one.equal > 0);
  }
}

}  // namespace
}  // namespace trainctl::tokenizer::directories_test
