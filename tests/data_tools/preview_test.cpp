#include "data_tools/preview.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "support/small_files.h"

namespace trainctl::data_tools {
namespace {

using Catch::Matchers::Contains;
using dataset::TokenFate;
using testing::TemporaryDirectory;

std::string row_of(const std::string& question, const std::string& answer) {
  return nlohmann::ordered_json{{"prompt", question}, {"completion", answer}}.dump() + "\n";
}

dataset::DatasetConfig chat(const TemporaryDirectory& directory, const std::string& rows) {
  dataset::ChatConfig config;
  config.train.files = {directory.write("chat.jsonl", rows)};
  config.tokenizer = "bytes";
  config.chat_template = directory.write("chat.jinja",
                                         "{% for m in messages %}<{{ m.role[0] }}>{{ m.content }}{% endfor %}{% if "
                                         "add_generation_prompt %}<a>{% endif %}");
  config.seq_len = 12;
  config.cache_dir = (directory.path() / "cache").string();
  dataset::DatasetConfig whole;
  whole.source = config;
  return whole;
}

std::string text_of(const PreviewSample& sample, TokenFate fate) {
  std::string text;
  for (const Piece& piece : sample.pieces)
    if (piece.fate == fate) text += piece.text;
  return text;
}

TEST_CASE("a preview of conversations tells what is learned, read and cut", "[data_tools]") {
  const TemporaryDirectory directory;
  const Preview preview =
      preview_dataset(chat(directory, row_of("hi", "a b ü cdef") + row_of("x", "y")), {.num_samples = 1});
  REQUIRE(preview.samples.size() == 1);
  CHECK(text_of(preview.samples[0], TokenFate::seen) == "<u>hi<a>");
  CHECK(text_of(preview.samples[0], TokenFate::learned) == "a b ");
  CHECK(text_of(preview.samples[0], TokenFate::cut) == "ü cdef");
  CHECK(preview.num_looked_at == 2);
  CHECK(preview.longest.front().place == "conversation 1");
  CHECK(preview.longest.front().num_tokens == 19);
  CHECK(preview.num_tokens == std::array<std::int64_t, 4>{5, 15, 7, 4});
}

TEST_CASE("a preview in a terminal marks tokens by color or by brackets", "[data_tools]") {
  const TemporaryDirectory directory;
  const Preview preview = preview_dataset(chat(directory, row_of("h\x1b", "a\nb ü cdef")), {.num_samples = 1});
  const std::string plain = preview_text(preview, PreviewMarks::brackets);
  CHECK_THAT(plain, Contains("<u>h?<a>[[a\nb ]]{{cut: ü cdef}}") && Contains("longest: conversation 1 19"));
  CHECK(plain.find('\x1b') == std::string::npos);
  CHECK_THAT(preview_text(preview, PreviewMarks::colors),
             Contains("<a>\x1b[30;42ma\x1b[0m\n\x1b[30;42mb \x1b[0m\x1b[9;31mü cdef\x1b[0m"));
  const std::string page = preview_page(preview);
  CHECK_THAT(page, Contains("\"num_tokens\":[4,8,7,0]") && Contains("conversation 1"));
}

TEST_CASE("a preview of images has their pictures and classes", "[data_tools]") {
  const TemporaryDirectory directory;
  dataset::DatasetConfig config;
  config.source = dataset::SyntheticImagesConfig{
      .num_samples = 8, .num_eval_samples = 4, .channels = 3, .height = 16, .width = 16, .num_classes = 2};
  config.batch_size = 4;
  const Preview preview = preview_dataset(config, {.num_samples = 6});
  REQUIRE(preview.samples.size() == 6);
  CHECK(preview.samples[5].picture.starts_with("data:image/png;base64,"));
  CHECK_THAT(preview.samples[0].title, Contains("sample 1: "));
  CHECK(preview_dataset(config, {.num_samples = 2, .of_evaluation = true}).samples.size() == 2);
}

TEST_CASE("a preview of plain text counts every token that is asked for", "[data_tools]") {
  const TemporaryDirectory directory;
  dataset::TextLmConfig text;
  text.train.files = {directory.write("text.txt", std::string(200, 'x'))};
  text.tokenizer = "bytes";
  text.seq_len = 16;
  text.cache_dir = (directory.path() / "cache").string();
  dataset::DatasetConfig config;
  config.source = text;
  config.batch_size = 4;
  const Preview preview = preview_dataset(config, {.num_samples = 2});
  CHECK(text_of(preview.samples[0], TokenFate::seen) == "x");
  CHECK(text_of(preview.samples[0], TokenFate::learned) == std::string(15, 'x'));
  CHECK_THROWS_WITH(preview_dataset(config, {.of_evaluation = true}), Contains("no evaluation set"));
}

}  // namespace
}  // namespace trainctl::data_tools
