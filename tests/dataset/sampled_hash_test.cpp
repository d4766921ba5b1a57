#include "dataset/shards/sampled_hash.h"

#include <set>

#include "core/file.h"
#include "dataset/image/folder/folder_index.h"
#include "dataset/small_images.h"
#include "dataset/sources.h"
#include "support/small_files.h"

namespace trainctl::dataset::sampled_hash_test {

using namespace trainctl;
using namespace trainctl::dataset;
using namespace trainctl::testing;

namespace fs = std::filesystem;

namespace {

std::string sample_of(const fs::path& file) {
  const std::string content = core::read_file(file);
  return SampledHash(std::span(&file, 1)).of(file, std::as_bytes(std::span(content)));
}

std::string with_byte(std::string text, std::size_t at) {
  text[at] = static_cast<char>(text[at] ^ 1);
  return text;
}

/// Writes a file's bytes where they lie, as no tool should: neither its name nor its folder's time changes.
void overwrite(const fs::path& file, const std::string& bytes) {
  const auto changed = fs::last_write_time(file);
  core::FileWriter writer(file);
  writer.write(bytes);
  writer.close(core::Durability::process);
  fs::last_write_time(file, changed + std::chrono::seconds(3));
}

}  // namespace

TEST_CASE("a small file's every byte counts for its fingerprint; a large file's ends, length and index do",
          "[dataset]") {
  const TemporaryDirectory directory;
  const std::string small(100'000, 's');
  const std::string large(3 << 20, 'l');
  std::set<std::string> seen;
  int written = 0;
  for (const std::string& content :
       {small, with_byte(small, 0), with_byte(small, 77'777), with_byte(small, 99'999), small + "s", large,
        with_byte(large, 0), with_byte(large, large.size() - 1), large + "l", large.substr(1)}) {
    seen.insert(sample_of(directory.write("file.bin", content)));
    ++written;
  }
  CHECK(seen.size() == static_cast<std::size_t>(written));
  // Wherever it lies; and between the blocks it can't see.
  fs::create_directories(directory.path() / "other");
  const std::string before = sample_of(directory.write("file.bin", large));
  CHECK(sample_of(directory.write("other/name.bin", large)) == before);
  CHECK(sample_of(directory.write("file.bin", with_byte(large, 10'000))) == before);
  directory.write("index.json", R"({"shards": [{"file": "file.bin", "checksum": "0123"}]})");
  const std::string noted = sample_of(directory.path() / "file.bin");
  CHECK(noted != before);
  directory.write("index.json", R"({"shards": [{"file": "file.bin", "checksum": "0124"}]})");
  CHECK(sample_of(directory.path() / "file.bin") != noted);
  for (const char* wrong : {"", "[]", "{", R"({"shards": 3})", R"({"shards": [3, {}, {"file": 4}]})"}) {
    directory.write("index.json", wrong);
    CHECK(sample_of(directory.path() / "file.bin").starts_with(before));
  }
}

TEST_CASE("of many files fewer blocks are read, so that a start stays cheap", "[dataset]") {
  const std::vector<fs::path> files(5000, "nowhere/file.bin");
  const std::string large(3 << 20, 'l');
  const SampledHash sample(files);
  const auto of = [&](const std::string& content) { return sample.of(files[0], std::as_bytes(std::span(content))); };
  CHECK(of(with_byte(large, 0)) != of(large));
  CHECK(of(with_byte(large, large.size() - 1)) != of(large));
  CHECK(of(with_byte(large, large.size() / 2)) == of(large));
}

TEST_CASE("images changed in place change a folder's fingerprint, copying the folder doesn't", "[dataset]") {
  const TemporaryDirectory directory;
  for (const char* name : {"train/a", "train/b", "copy"}) fs::create_directories(directory.path() / name);
  for (int i = 0; i < 20; ++i)
    directory.write(std::string(i % 2 == 0 ? "train/a/" : "train/b/") + std::to_string(i) + ".jpg", jpeg(5 * i));
  int searches = 0;
  const auto fingerprint = [&](const std::string& name) {
    return std::string(
        open_folder({directory.path() / name, ClassFrom::top_folder, {"jpg"}, directory.path() / "cache"},
                    [&](const std::string&) { ++searches; })
            .fingerprint());
  };
  const std::string before = fingerprint("train");
  CHECK(fingerprint("train") == before);
  CHECK(searches == 1);
  fs::copy(directory.path() / "train", directory.path() / "copy", fs::copy_options::recursive);
  CHECK(fingerprint("copy") == before);
  const fs::path image = directory.path() / "train/a/4.jpg";
  const std::string bytes = core::read_file(image);
  overwrite(image, jpeg(200, 90, 90));
  const std::string other_size = fingerprint("train");
  CHECK(other_size != before);
  CHECK(searches == 3);
  overwrite(image, with_byte(bytes, bytes.size() - 5));
  const std::string other_bytes = fingerprint("train");
  CHECK((other_bytes != before && other_bytes != other_size));
  overwrite(image, bytes);
  CHECK(fingerprint("train") == before);
}

TEST_CASE("token files and shards changed in place change their set's fingerprint", "[dataset]") {
  const TemporaryDirectory directory;
  const std::string tokens(600'000, '\1');
  const std::string tar = shard_of_images(0, 12);
  const auto fingerprint_of = [&](const SourceConfig& config) { return open_sources(config, {}).train->fingerprint(); };
  const auto of_tokens = [&](const std::string& bytes) {
    return fingerprint_of(TokenizedConfig{.train = {directory.write("t.bin", bytes)}, .seq_len = 10});
  };
  CHECK(of_tokens(tokens) == of_tokens(tokens));
  CHECK(of_tokens(with_byte(tokens, 0)) != of_tokens(tokens));
  CHECK(of_tokens(with_byte(tokens, tokens.size() - 1)) != of_tokens(tokens));
  CHECK(of_tokens(tokens + "\1\1") != of_tokens(tokens));
  const auto of_shard = [&](const std::string& bytes) {
    return fingerprint_of(WebDatasetConfig{.train = {directory.write("s.tar", bytes)},
                                           .cache_dir = (directory.path() / "cache").string()});
  };
  const std::string before = of_shard(tar);
  CHECK(of_shard(tar) == before);
  CHECK(of_shard(with_byte(tar, 512 + 100)) != before);  // a pixel: sizes and labels stay
}

}  // namespace trainctl::dataset::sampled_hash_test
