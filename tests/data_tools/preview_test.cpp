#include "data_tools/preview.h"

#include <ATen/ops/full.h>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "dataset/image/codec/decode.h"
#include "dataset/shards/tar.h"
#include "dataset/shown_sample.h"
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
  CHECK_THAT(plain, Contains("<u>h\\x1b<a>[[a\nb ]]{{cut: ü cdef}}") && Contains("longest: conversation 1 19"));
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

/// Returns a grey JPEG of 4×4 pixels.
std::string photo() {
  dataset::Image image;
  image.resize(4, 4);
  std::fill(image.bytes.begin(), image.bytes.end(), std::uint8_t{90});
  const std::vector<std::byte> bytes = dataset::encode_jpeg(image, 95);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::string shard_of_photos(int count) {
  std::string tar;
  const auto add = [&](const std::string& name, const std::string& content) {
    tar += dataset::tar_header(name, content.size()) + content + dataset::tar_padding(content.size());
  };
  for (int i = 0; i < count; ++i) {
    add(std::to_string(i) + ".jpg", photo());
    add(std::to_string(i) + ".cls", std::to_string(i % 3));
  }
  return tar + dataset::tar_end();
}

/// Returns a dataset of images of 8×8 pixels.
dataset::DatasetConfig images_of(const dataset::SourceConfig& source) {
  dataset::DatasetConfig config;
  config.source = source;
  config.batch_size = 4;
  config.shuffle = false;
  config.transforms = {dataset::ResizeConfig{.size = 8, .width = 8}, dataset::NormalizeConfig{}};
  return config;
}

std::vector<std::string> titles_of(const Preview& preview) {
  std::vector<std::string> titles;
  for (const PreviewSample& sample : preview.samples) {
    CHECK(sample.picture.starts_with("data:image/png;base64,"));
    titles.push_back(sample.title);
  }
  return titles;
}

using Titles = std::vector<std::string>;

TEST_CASE("a preview of an image folder has the names of the classes", "[data_tools]") {
  const TemporaryDirectory directory;
  for (const char* name : {"ant", "bee"}) {
    std::filesystem::create_directories(directory.path() / "photos" / name);
    directory.write("photos/" + std::string(name) + "/1.jpg", photo());
  }
  dataset::ImageFolderConfig folder;
  folder.train = (directory.path() / "photos").string();
  folder.cache_dir = (directory.path() / "cache").string();
  CHECK(titles_of(preview_dataset(images_of(folder), {})) == Titles{"sample 1: ant", "sample 2: bee"});
  folder.labels = dataset::ImageLabelsConfig{
      .train = directory.write("labels.csv", "file_name,label\nant/1.jpg,ant small\nbee/1.jpg,\n"),
      .eval = {},
      .test = {},
      .separator = " "};
  CHECK(titles_of(preview_dataset(images_of(folder), {})) == Titles{"sample 1: ant and small", "sample 2: no label"});
}

TEST_CASE("a preview of tar shards has their images and classes", "[data_tools]") {
  const TemporaryDirectory directory;
  dataset::WebDatasetConfig shards;
  shards.train = {directory.write("t.tar", shard_of_photos(6))};
  shards.class_names = {"ant", "bee", "cat"};
  shards.cache_dir = (directory.path() / "cache").string();
  CHECK(titles_of(preview_dataset(images_of(shards), {})) == Titles{"sample 1: ant", "sample 2: bee", "sample 3: cat"});
}

TEST_CASE("a preview of masks lays the colors of classes over the image, and tells their shares", "[data_tools]") {
  const TemporaryDirectory directory;
  for (const char* name : {"images", "masks"}) std::filesystem::create_directories(directory.path() / name);
  const at::Tensor mask = at::full({4, 4}, 1, at::kByte);
  mask[0].fill_(0);
  directory.write("masks/1.png", dataset::mask_file_of(mask));
  directory.write("images/1.jpg", photo());
  dataset::SegmentationFolderConfig source;
  source.train = {.images = (directory.path() / "images").string(), .masks = (directory.path() / "masks").string()};
  source.class_names = {"sky", "land"};
  const Preview preview = preview_dataset(images_of(source), {});
  CHECK(titles_of(preview) == Titles{"sample 1: sky 25 % and land 75 %"});
  CHECK_THAT(preview_page(preview), Contains("land 75 %"));
  source.ignore_index = 1;
  const Preview other = preview_dataset(images_of(source), {});
  CHECK(titles_of(other) == Titles{"sample 1: sky 25 %"});
  CHECK(other.samples[0].picture != preview.samples[0].picture);
}

TEST_CASE("a preview of tagged sentences notes the tag of each token", "[data_tools]") {
  const TemporaryDirectory directory;
  dataset::TextTokenClassificationConfig tagged;
  tagged.train.files = {directory.write("tags.txt", "ab B-X\nc O\n").string()};
  tagged.tokenizer = "bytes";
  tagged.max_length = 8;
  tagged.cache_dir = (directory.path() / "cache").string();
  dataset::DatasetConfig config;
  config.source = tagged;
  config.batch_size = 1;
  const Preview preview = preview_dataset(config, {.num_samples = 1});
  REQUIRE(preview.samples.size() == 1);
  std::vector<std::string> notes;
  for (const Piece& piece : preview.samples[0].pieces)
    if (!piece.note.empty()) notes.push_back(piece.text + " " + piece.note);
  CHECK(notes == Titles{"a B-X", "c O"});
}

TEST_CASE("a preview of pairs tells what of source and target is read, learned and cut", "[data_tools]") {
  const TemporaryDirectory directory;
  dataset::TextSeq2SeqConfig pairs;
  pairs.train.files = {directory.write("pairs.jsonl", R"({"source": "abcdef", "target": "xyz"})"
                                                      "\n"
                                                      R"({"source": "a", "target": "uvwxyz"})"
                                                      "\n")};
  pairs.tokenizer = "bytes";
  pairs.prefix = "> ";
  pairs.max_source_length = 6;
  pairs.max_target_length = 4;
  pairs.cache_dir = (directory.path() / "cache").string();
  dataset::DatasetConfig whole;
  whole.source = pairs;
  const Preview preview = preview_dataset(whole, {.num_samples = 2});
  REQUIRE(preview.samples.size() == 2);
  CHECK(text_of(preview.samples[0], TokenFate::seen) == "> abc<|endoftext|>");
  CHECK(text_of(preview.samples[0], TokenFate::cut) == "def");
  CHECK(text_of(preview.samples[0], TokenFate::learned) == "xyz<|endoftext|>");
  CHECK(text_of(preview.samples[1], TokenFate::learned) == "uvw<|endoftext|>");
  CHECK(preview.num_tokens == std::array<std::int64_t, 4>{8, 10, 6, 0});
  CHECK(preview.longest.front().place == "pair 1");
  // A part of the training pairs is shown as the loader gives it.
  std::string rows;
  for (int i = 0; i < 32; ++i) rows += R"({"source": "a)" + std::to_string(i) + R"(", "target": "x"})" + "\n";
  pairs.train.files = {directory.write("more.jsonl", rows)};
  pairs.eval_fraction = 0.5;
  whole.source = pairs;
  whole.batch_size = 1;
  const Preview part = preview_dataset(whole, {.num_samples = 1, .of_evaluation = true});
  REQUIRE(part.samples.size() == 1);
  CHECK_THAT(text_of(part.samples[0], TokenFate::seen), Contains("> a"));
  CHECK_THAT(text_of(part.samples[0], TokenFate::learned), Contains("<|endoftext|>"));
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
