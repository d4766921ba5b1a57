// Tokens and masks of conversations against transformers' apply_chat_template.
#include <catch2/catch.hpp>
#include <fstream>
#include <map>

#include "core/error.h"
#include "dataset/chat/chat_tokens.h"
#include "dataset/text/language_source.h"
#include "support/python.h"

namespace trainctl::dataset::chat_reference_test {

using namespace trainctl;
using namespace trainctl::dataset;

namespace {

using Json = nlohmann::ordered_json;

/// How many cases of one template ended in which way.
struct Outcomes {
  int masks = 0;    // tokens and mask as with transformers
  int tokens = 0;   // the template has no blocks, or the mask is refused
  int refused = 0;  // the two ways disagree, or nothing is learned
  int errors = 0;   // transformers refuses the conversation too
};

class Comparison {
 public:
  explicit Comparison(const std::string& tokenizer)
      : tokenizer_path_(tokenizer), tokenizer_(open_tokenizer(tokenizer)) {}

  void compare(const Json& one, Outcomes& outcomes) {
    ChatConfig config;
    config.tokenizer = tokenizer_path_;
    config.chat_template = one.at("template").get<std::string>();
    config.date = "2026-01-01";
    const Conversation conversation = read_conversation(one.at("row").dump(), config.train, "row");
    INFO(*config.chat_template << "\n" << one.at("row"));
    const ChatFormat format(config);
    if (one.at("ids").is_null()) {
      CHECK_THROWS_AS(format.render(conversation), core::Error);
      ++outcomes.errors;
      return;
    }
    const std::string text = format.render(conversation).text;
    if (text.find("2026") != std::string::npos) return;  // today's date, which transformers takes from the clock
    const auto encoded = tokenizer_->encode(text, {.special_tokens = tokenizer::SpecialTokens::leave_out});
    CHECK(Json(encoded.ids) == one.at("ids"));
    ++outcomes.tokens;
    compare_masks(format, conversation, one, outcomes);
  }

 private:
  void compare_masks(const ChatFormat& format, const Conversation& conversation, const Json& one, Outcomes& outcomes) {
    try {
      const ChatTokens tokens = tokenize_conversation(format, *tokenizer_, conversation);
      if (one.at("mask").is_null()) return;
      Json mask = Json::array();
      for (const std::int32_t label : tokens.labels) mask.push_back(label == -100 ? 0 : 1);
      CHECK(mask == one.at("mask"));
      ++outcomes.masks;
    } catch (const core::Error&) {
      ++outcomes.refused;
    }
  }

  std::string tokenizer_path_;
  std::shared_ptr<const tokenizer::Tokenizer> tokenizer_;
};

}  // namespace

TEST_CASE("tokens and masks of published templates are those of transformers", "[dataset][reference]") {
  const testing::TemporaryDirectory directory;
  std::vector<std::string> arguments = {directory.path().string()};
  for (const std::string set : {"trl_chat_templates", "axolotl_chat_templates"})
    arguments.push_back(testing::fetch_data(set).string());
  testing::run_reference("chat_masks.py", arguments);
  std::ifstream stream(directory / "cases.json");
  Comparison comparison((directory / "tokenizer").string());
  std::map<std::string, Outcomes> outcomes;
  for (const Json& one : Json::parse(stream)) comparison.compare(one, outcomes[one.at("template").get<std::string>()]);
  Outcomes sum;
  int num_with_masks = 0;
  for (const auto& [name, one] : outcomes) {
    sum.masks += one.masks;
    sum.tokens += one.tokens;
    sum.refused += one.refused;
    num_with_masks += one.masks > 0 ? 1 : 0;
  }
  INFO("equal masks " << sum.masks << ", equal tokens " << sum.tokens << ", refused " << sum.refused);
  CHECK(num_with_masks >= 12);
  CHECK(sum.masks >= 60);
  CHECK(sum.tokens >= 300);
}

}  // namespace trainctl::dataset::chat_reference_test
