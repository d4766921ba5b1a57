// Against Hugging Face's `tokenizers` and Google's `sentencepiece` on mixed text: ids, offsets and words, no
// difference.
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <sstream>
#include <vector>

#include "support/python.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/train_bpe.h"

namespace trainctl::tokenizer {
namespace {

namespace fs = std::filesystem;

std::string bytes_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::vector<std::int32_t> numbers_of(const fs::path& path) {
  const std::string bytes = bytes_of(path);
  std::vector<std::int32_t> numbers(bytes.size() / sizeof(std::int32_t));
  std::memcpy(numbers.data(), bytes.data(), numbers.size() * sizeof(std::int32_t));
  return numbers;
}

std::vector<std::string> chunks_of(const fs::path& path) {
  const std::string bytes = bytes_of(path);
  std::vector<std::string> chunks;
  for (std::size_t at = 0; at < bytes.size();) {
    std::uint32_t size = 0;
    std::memcpy(&size, bytes.data() + at, sizeof size);
    chunks.push_back(bytes.substr(at + sizeof size, size));
    at += sizeof size + size;
  }
  return chunks;
}

/// What the reference made of one chunk.
struct Expected {
  std::int32_t count = 0;
  const std::int32_t* ids = nullptr;
  const std::int32_t* begins() const { return ids + count; }
  const std::int32_t* ends() const { return ids + 2 * count; }
  const std::int32_t* words() const { return ids + 3 * count; }
};

std::string show(const Tokenizer& tokenizer, std::int32_t id, std::int32_t begin, std::int32_t end, std::int32_t word) {
  std::ostringstream text;
  text << id << " '" << tokenizer.token_of(id) << "' " << begin << ".." << end << " word " << word;
  return text.str();
}

/// The first difference, or "".
std::string difference(const Tokenizer& tokenizer, const Encoding& got, const Expected& expected, bool with_words) {
  const auto count = static_cast<std::int32_t>(got.ids.size());
  for (std::int32_t i = 0; i < std::min(count, expected.count); ++i) {
    const auto at = static_cast<std::size_t>(i);
    const bool same = got.ids[at] == expected.ids[i] && got.offsets[at].begin == expected.begins()[i] &&
                      got.offsets[at].end == expected.ends()[i] &&
                      (!with_words || got.words[at] == expected.words()[i]);
    if (!same)
      return "token " + std::to_string(i) + ": " +
             show(tokenizer, got.ids[at], got.offsets[at].begin, got.offsets[at].end, got.words[at]) + ", expected " +
             show(tokenizer, expected.ids[i], expected.begins()[i], expected.ends()[i], expected.words()[i]);
  }
  return count == expected.count ? "" : std::to_string(count) + " tokens, expected " + std::to_string(expected.count);
}

/// Pairs, cut to a length, and decoded.
void check_case(const Tokenizer& tokenizer, const nlohmann::json& expected) {
  EncodeOptions options{expected["special"] ? SpecialTokens::add : SpecialTokens::leave_out, std::nullopt};
  if (!expected["max_length"].is_null()) options.max_length = expected["max_length"].get<std::int64_t>();
  const auto first = expected["first"].get<std::string>();
  const Encoding got = expected["second"].is_null()
                           ? tokenizer.encode(first, options)
                           : tokenizer.encode_pair(first, expected["second"].get<std::string>(), options);
  CHECK(got.ids == expected["ids"].get<std::vector<std::int32_t>>());
  CHECK(got.type_ids == expected["type_ids"].get<std::vector<std::int32_t>>());
  CHECK(got.words == expected["words"].get<std::vector<std::int32_t>>());
  CHECK(got.is_special == expected["is_special"].get<std::vector<std::uint8_t>>());
  std::vector<TextRange> offsets;
  for (const auto& range : expected["offsets"]) offsets.push_back({range[0], range[1]});
  CHECK(got.offsets == offsets);
  const auto ids = expected["decode"].get<std::vector<std::int32_t>>();
  CHECK(tokenizer.decode(ids, SpecialTokens::add) == expected["with_special"].get<std::string>());
  CHECK(tokenizer.decode(ids, SpecialTokens::leave_out) == expected["without_special"].get<std::string>());
}

void check_cases(const fs::path& directory) {
  std::unique_ptr<Tokenizer> tokenizer;
  std::string path;
  const auto cases = nlohmann::json::parse(bytes_of(directory / "cases.json"));
  REQUIRE(cases.size() > 100);
  for (const auto& expected : cases) {
    INFO(expected.dump().substr(0, 1500));
    if (path != expected["path"]) tokenizer = load_tokenizer(path = expected["path"].get<std::string>());
    check_case(*tokenizer, expected);
  }
}

/// The same tokens and merges in the same order.
void check_training(const fs::path& directory) {
  BpeTraining training;
  training.vocab_size = 1500;
  const auto got = nlohmann::json::parse(train_bpe({directory / "train.txt"}, training));
  const auto expected = nlohmann::json::parse(bytes_of(directory / "trained.json"));
  CHECK(got["model"]["merges"] == expected["model"]["merges"]);
  CHECK(got["model"]["vocab"] == expected["model"]["vocab"]);
  CHECK(got["added_tokens"] == expected["added_tokens"]);
}

void compare(const fs::path& directory, const std::string& name, std::size_t share, const fs::path& path) {
  INFO(name << " from " << path);
  const auto tokenizer = load_tokenizer(path);
  const std::vector<std::string> chunks = chunks_of(directory / "corpus.bin");
  const std::vector<std::int32_t> numbers = numbers_of(directory / (name + ".bin"));
  const bool is_library = name.starts_with("sentencepiece");
  const EncodeOptions options{is_library ? SpecialTokens::leave_out : SpecialTokens::add, std::nullopt};
  std::size_t at = 0, num_different = 0, num_bytes = 0;
  for (std::size_t i = 0; i < chunks.size(); i += share) {
    INFO("chunk " << i << ": " << chunks[i].substr(0, 400));
    const Expected expected{numbers.at(at), numbers.data() + at + 1};
    at += 1 + 4 * static_cast<std::size_t>(expected.count);
    const Encoding got = tokenizer->encode(chunks[i], options);
    const std::string differs = difference(*tokenizer, got, expected, !is_library);
    if (!differs.empty() && ++num_different <= 3) FAIL_CHECK(differs);
    std::vector<std::int32_t> ids;
    tokenizer->append_ids(chunks[i], ids);
    if (ids != tokenizer->encode(chunks[i], {SpecialTokens::leave_out, std::nullopt}).ids)
      FAIL_CHECK("append_ids differs");
    num_bytes += chunks[i].size();
  }
  CHECK(num_different == 0);
  CHECK(at == numbers.size());
  UNSCOPED_INFO(name << ": " << num_bytes << " bytes");
}

void compare_all(const std::string& megabytes) {
  const testing::TemporaryDirectory scratch;
  const fs::path directory = scratch.path();
  testing::run_reference("tokenizers_package.py", {directory.string(), megabytes});
  std::ifstream list(directory / "list.txt");
  std::string name, path;
  for (std::size_t share = 1; list >> name >> share && std::getline(list >> std::ws, path);)
    compare(directory, name, share, path);
  CHECK(name == "sentencepiece");
  check_cases(directory);
  check_training(directory);
}

}  // namespace

TEST_CASE("tokenizers give a short text's ids, offsets and words of their reference implementations", "[tokenizer]") {
  compare_all("0.02");
}

TEST_CASE("tokenizers give a long text's ids, offsets and words of their reference implementations",
          "[tokenizer][reference]") {
  const char* const megabytes = std::getenv("TRAINCTL_TOKENIZER_MEGABYTES");
  compare_all(megabytes != nullptr ? megabytes : "1.2");
}

}  // namespace trainctl::tokenizer
