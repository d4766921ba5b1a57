// What load_tokenizer accepts, refuses and says.

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <thread>

#include "core/error.h"
#include "support/temporary_directory.h"
#include "tokenizer/pattern/pattern.h"
#include "tokenizer/tokenizer.h"

namespace trainctl::tokenizer {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;
using testing::TemporaryDirectory;

Json small_bert() {
  return Json::parse(R"({
    "version": "1.0", "truncation": {"max_length": 3, "strategy": "LongestFirst", "stride": 0},
    "padding": {"strategy": {"Fixed": 16}, "direction": "Right", "pad_id": 0, "pad_type_id": 0, "pad_token": "[PAD]"},
    "added_tokens": [{"id": 1, "content": "[UNK]", "single_word": false, "lstrip": false, "rstrip": false,
                      "normalized": false, "special": true}],
    "normalizer": {"type": "Sequence", "normalizers": [{"type": "BertNormalizer", "clean_text": true,
      "handle_chinese_chars": true, "strip_accents": null, "lowercase": true}]},
    "pre_tokenizer": {"type": "BertPreTokenizer"}, "post_processor": null,
    "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": true},
    "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
      "max_input_chars_per_word": 100, "vocab": {"[PAD]": 0, "[UNK]": 1, "un": 2, "##able": 3, "cafe": 4, ".": 5}}})");
}

std::string message_of(const fs::path& path) {
  try {
    load_tokenizer(path);
  } catch (const core::Error& error) {
    return error.text();
  }
  return "loaded";
}

std::vector<std::int32_t> ids_of(const Tokenizer& tokenizer, std::string_view text) {
  return tokenizer.encode(text, {SpecialTokens::add, std::nullopt}).ids;
}

}  // namespace

TEST_CASE("two tokens with one id are refused by their names", "[tokenizer]") {
  const TemporaryDirectory folder;
  Json json = small_bert();
  json["model"]["vocab"]["##less"] = 3;
  const std::string message = message_of(folder.write("tokenizer.json", json.dump()));
  CHECK(message.find("tokenizer.json: model.vocab: '##able' and '##less'") != std::string::npos);
  CHECK(message.find("id 3") != std::string::npos);
  CHECK(message_of(folder.write("tokenizer.model", "YQ== 0\nYg== 1\nYw== 1\n")).find("the rank 1") !=
        std::string::npos);
}

TEST_CASE("the first of two merges in the list is made first", "[tokenizer]") {
  const TemporaryDirectory folder;
  Json json = Json::parse(R"({"version": "1.0", "added_tokens": [], "normalizer": null, "pre_tokenizer": null,
    "post_processor": null, "decoder": null,
    "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "c": 2, "ab": 3, "bc": 4}, "merges": ["a b", "b c"]}})");
  CHECK(ids_of(*load_tokenizer(folder.write("first.json", json.dump())), "abc") == std::vector<std::int32_t>{3, 2});
  json["model"]["merges"] = {"b c", "a b"};
  CHECK(ids_of(*load_tokenizer(folder.write("second.json", json.dump())), "abc") == std::vector<std::int32_t>{0, 4});
}

TEST_CASE("a tokenizer.json's padding and truncation are the caller's business", "[tokenizer]") {
  const TemporaryDirectory folder;
  const auto tokenizer = load_tokenizer(folder.write("tokenizer.json", small_bert().dump()));
  CHECK(ids_of(*tokenizer, "Unable. Caf\u00E9 unable. xyz") == std::vector<std::int32_t>{2, 3, 5, 4, 2, 3, 5, 1});
  const Encoding cut = tokenizer->encode("unable unable", {SpecialTokens::add, 3});
  CHECK(cut.ids == std::vector<std::int32_t>{2, 3, 2});
  CHECK(cut.offsets[2] == TextRange{7, 9});
  CHECK(tokenizer->vocab_size() == 6);
  CHECK(tokenizer->id_of("##able") == 3);
  CHECK_FALSE(tokenizer->id_of("nothing").has_value());
  CHECK(tokenizer->token_of(4) == "cafe");
  CHECK(tokenizer->token_of(-1).empty());
  CHECK(tokenizer->token_of(1'000'000).empty());
  CHECK(tokenizer->roles().pad == 0);
  CHECK(tokenizer->roles().unknown == 1);
  CHECK(tokenizer->decode(std::vector<std::int32_t>{2, 3, 5, 99, -4}, SpecialTokens::add) == "unable.");
}

TEST_CASE("what a tokenizer.json has that is not known is named with its place", "[tokenizer]") {
  const TemporaryDirectory folder;
  const auto with = [&](const char* pointer, const Json& value) {
    Json json = small_bert();
    json[Json::json_pointer(pointer)] = value;
    return message_of(folder.write("tokenizer.json", json.dump()));
  };
  using Catch::Matchers::Contains;
  CHECK_THAT(with("/normalizer/normalizers/0/type", "Precompiled"),
             Contains("tokenizer.json: normalizer.normalizers[0]: unknown normalizer 'Precompiled'"));
  CHECK_THAT(with("/pre_tokenizer/type", "UnicodeScripts"), Contains("pre_tokenizer: unknown pre-tokenizer"));
  CHECK_THAT(with("/decoder/type", "X"), Contains("decoder: unknown decoder 'X'"));
  CHECK_THAT(with("/post_processor", {{"type", "Y"}}), Contains("post_processor: unknown post-processor 'Y'"));
  CHECK_THAT(with("/model/type", "Unigram"), Contains("model: a Unigram model is not supported"));
  CHECK_THAT(with("/model/type", "Z"), Contains("model: unknown model 'Z'"));
  CHECK_THAT(with("/model/vocab/un", -5), Contains("model.vocab: the id of 'un'"));
  CHECK_THAT(with("/model/vocab/un", 4'000'000'000U), Contains("model.vocab: the id of 'un'"));
  CHECK_THAT(with("/model/vocab", Json::array()), Contains("model.vocab: expected an object"));
  CHECK_THAT(with("/added_tokens/0/content", 7), Contains("added_tokens[0].content: expected a text"));
  const Json split{{"type", "Split"}, {"pattern", {{"Regex", "(a"}}}, {"behavior", "Isolated"}, {"invert", false}};
  CHECK_THAT(with("/pre_tokenizer", split),
             Contains("pre_tokenizer.pattern.Regex: cannot read the regular expression"));
  Json odd = split;
  odd["pattern"]["Regex"] = "\\Ga";
  CHECK_THAT(with("/pre_tokenizer", odd), Contains("pattern.Regex: '\\G'"));
  odd = split;
  odd["behavior"] = "Sideways";
  CHECK_THAT(with("/pre_tokenizer", odd), Contains("pre_tokenizer.behavior: unknown behavior 'Sideways'"));
}

TEST_CASE("files that are no tokenizer are refused in words", "[tokenizer]") {
  const TemporaryDirectory folder;
  using Catch::Matchers::Contains;
  CHECK_THAT(message_of(folder.path() / "absent.json"), Contains("absent.json"));
  CHECK_THAT(message_of(folder.path()), Contains("no tokenizer in the directory"));
  CHECK_THAT(message_of(folder.write("tokenizer.json", "{\"model\": ")), Contains("is not valid JSON"));
  CHECK_THAT(message_of(folder.write("tokenizer.json", "[1, 2]")), Contains("is neither a tokenizer.json"));
  CHECK_THAT(message_of(folder.write("vocab.json", "{\"a\": 0}")), Contains("without merges"));
  folder.write("merges.txt", "#version: 0.2\na b c\n");
  CHECK_THAT(message_of(folder.path() / "vocab.json"), Contains("merges.txt: merge 0 is not two texts"));
  folder.write("merges.txt", "#version: 0.2\na b\n");
  CHECK_THAT(message_of(folder.path() / "vocab.json"), Contains("which is not in the vocabulary"));
  CHECK_THAT(message_of(folder.path() / "merges.txt"), Contains("holds only merges"));
  CHECK_THAT(message_of(folder.write("vocab.txt", "a\nb\n")), Contains("has no line [UNK]"));
  CHECK_THAT(message_of(folder.write("vocab.txt", "a\n\xFF\n")), Contains("is not UTF-8 at byte 2"));
  CHECK_THAT(message_of(folder.write("tokenizer.model", "IQ== 0\nIg== 1\n")), Contains("expected those of Llama 3"));
  CHECK_THAT(message_of(folder.write("tokenizer.model", "IQ== 0\n?? 1\n")),
             Contains("tokenizer.model:2: malformed line"));
  CHECK_THAT(message_of(folder.write("tokenizer.model", std::string(100, '\x7f'))),
             Contains("neither a SentencePiece model"));
  CHECK_THAT(message_of(folder.write("tokenizer.model", "")), Contains("neither a SentencePiece model"));
}

TEST_CASE("of a directory with a Unigram model in both forms, the SentencePiece model is taken", "[tokenizer]") {
  const TemporaryDirectory folder;
  using Catch::Matchers::Contains;
  folder.write("tokenizer.json", R"({"model": {"type": "Unigram", "vocab": [["a", 0.0]]}})");
  CHECK_THAT(message_of(folder.path()), Contains("a Unigram model is not supported here"));
  folder.write("spiece.model", "x");
  CHECK_THAT(message_of(folder.path()), Contains("spiece.model is neither a SentencePiece model"));
  folder.write("tokenizer.json", R"({"model": {"type": "BPE"}})");
  CHECK_THAT(message_of(folder.path()), Contains("tokenizer.json"));
}

TEST_CASE("a tokenizer.json damaged anywhere loads or is refused, and never crashes", "[tokenizer]") {
  const TemporaryDirectory folder;
  const std::string whole = small_bert().dump();
  std::mt19937 random(3);
  const auto pick = [&](std::size_t end) { return random() % end; };
  int num_loaded = 0;
  for (int round = 0; round < 150; ++round) {
    std::string bytes = whole;
    if (round % 3 == 0) {
      bytes.resize(pick(bytes.size()));
    } else if (round % 3 == 1) {
      bytes[pick(bytes.size())] = static_cast<char>(random());
    } else {  // one value for another of the same document
      Json json = small_bert();
      const Json places = json.flatten();
      const auto at = [&] { return std::next(places.begin(), static_cast<std::ptrdiff_t>(pick(places.size()))); };
      const Json values[] = {nullptr, -1, 1e300, "", "\u2581", Json::array(), Json::object(), true, 16777216};
      json[Json::json_pointer(at().key())] = round % 2 == 0 ? values[pick(std::size(values))] : at().value();
      bytes = json.dump();
    }
    try {
      const auto tokenizer = load_tokenizer(folder.write("tokenizer.json", bytes));
      tokenizer->decode(ids_of(*tokenizer, "Unable. Caf\u00E9 \xF0\x9F un"), SpecialTokens::add);
      ++num_loaded;
    } catch (const core::Error&) {
    }
  }
  CHECK(num_loaded > 15);
}

TEST_CASE("bytes that are not UTF-8 are read as Python's errors=replace reads them", "[tokenizer]") {
  const auto bytes = byte_tokenizer();
  const auto text_of = [&](std::string_view text) {
    std::vector<std::int32_t> ids;
    bytes->append_ids(text, ids);
    return bytes->decode(ids, SpecialTokens::add);
  };
  CHECK(text_of("a\xFF"
                "b") == "a\uFFFDb");
  CHECK(text_of("\xE2\x82") == "\uFFFD");
  CHECK(text_of("\xE2\x82z") == "\uFFFDz");
  CHECK(text_of("\xC0\x80") == "\uFFFD\uFFFD");
  CHECK(text_of("\xED\xA0\x80") == "\uFFFD\uFFFD\uFFFD");
  CHECK(text_of("\xF0\x9F\x98") == "\uFFFD");
  CHECK(text_of("\xF4\x90\x80\x80") == "\uFFFD\uFFFD\uFFFD\uFFFD");
  const Encoding encoding = bytes->encode("\xFF!", {SpecialTokens::add, std::nullopt});
  CHECK(encoding.ids.size() == 4);
  CHECK(encoding.offsets.back() == TextRange{1, 2});
}

TEST_CASE("the byte tokenizer needs no file and ends documents", "[tokenizer]") {
  const auto tokenizer = byte_tokenizer();
  CHECK(tokenizer->vocab_size() == 257);
  CHECK(tokenizer->roles().end == 256);
  CHECK(ids_of(*tokenizer, "hi\n") == std::vector<std::int32_t>{'h', 'i', '\n'});
  CHECK(ids_of(*tokenizer, "a<|endoftext|>") == std::vector<std::int32_t>{'a', 256});
  CHECK(ids_of(*tokenizer, "").empty());
}

TEST_CASE("one tokenizer serves many threads", "[tokenizer]") {
  const TemporaryDirectory folder;
  const auto tokenizer = load_tokenizer(folder.write("tokenizer.json", small_bert().dump()));
  const std::vector<std::int32_t> expected = ids_of(*tokenizer, "unable cafe. unable");
  std::vector<int> wrong(4, 0);
  std::vector<std::thread> threads;
  for (int& count : wrong)
    threads.emplace_back([&] {
      for (int i = 0; i < 500; ++i) count += ids_of(*tokenizer, "unable cafe. unable") != expected;
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == std::vector<int>(4, 0));
}

TEST_CASE("fingerprints tell tokenizers apart", "[tokenizer]") {
  const TemporaryDirectory folder;
  const std::string first = load_tokenizer(folder.write("tokenizer.json", small_bert().dump()))->fingerprint();
  Json other = small_bert();
  other["model"]["vocab"]["more"] = 6;
  CHECK(first != load_tokenizer(folder.write("tokenizer.json", other.dump()))->fingerprint());
  CHECK(first == load_tokenizer(folder.write("copy.json", small_bert().dump()))->fingerprint());
}

TEST_CASE("repeated intervals and options mean what Ruby's expressions mean", "[tokenizer][regression]") {
  const auto pieces = [](const std::string& expression, const std::string& text) {
    std::vector<Match> matches;
    regex_pattern(expression, "here")->find(text, matches);
    std::string found;
    for (const Match& match : matches) found += text.substr(match.begin, match.end - match.begin) + "|";
    return found;
  };
  // The pieces are those of tokenizers 0.23.
  CHECK(pieces(R"(\p{N}{1,3}+)", "1234567") == "1234567|");
  CHECK(pieces(R"(\d{2}+)", "12345") == "1234|");
  CHECK(pieces("[ab]{2}+c", "abbac") == "abbac|");
  CHECK(pieces("(?:ab){2}?c", "ababc c") == "ababc|c|");
  CHECK(pieces("a{2}?", "aaa").starts_with("aa|"));
  CHECK(pieces("a{1,2}?", "aa") == "a|a|");
  CHECK(pieces("(x(?:a{2}+))+", "xaaxaaaa") == "xaaxaaaa|");
  CHECK(pieces("(?i)ab|c", "AB C") == "AB|C|");
  CHECK_THROWS_WITH(regex_pattern("a(?i)b|c", "here"), Catch::Contains("options such as (?i)"));
  CHECK_NOTHROW(regex_pattern("a(?i)b", "here"));
  CHECK(pieces("a\\{2}+", "a{2}}") == "a{2}}|");
}

TEST_CASE("rules that lengthen a text again and again are refused at their place", "[tokenizer][regression]") {
  const TemporaryDirectory directory;
  const auto sequence = [](const std::string& parts) {
    std::string steps;
    for (int i = 0; i < 60; ++i)
      steps += std::string(i == 0 ? "" : ", ") + R"({"type": "Replace", "pattern": {"String": "a"}, "content": "aa"})";
    return R"({"type": "Sequence", ")" + parts + R"(": [)" + steps + "]}";
  };
  const auto load = [&](const std::string& rules) {
    return load_tokenizer(directory.write("tokenizer.json", R"({"model": {"type": "WordLevel", "vocab": {"a": 0},
      "unk_token": "a"}, )" + rules + "}"));
  };
  const auto doubling = load(R"("normalizer": )" + sequence("normalizers"));
  CHECK_THROWS_WITH(ids_of(*doubling, "a"), Catch::Contains("tokenizer.json: normalizer: makes 2.0 MiB of"));
  const auto at_once = load(R"("normalizer": {"type": "Replace", "pattern": {"String": "a"}, "content": ")" +
                            std::string(1 << 15, 'a') + R"("})");
  CHECK_THROWS_WITH(ids_of(*at_once, std::string(1 << 16, 'a')), Catch::Contains("normalizer: makes 2.0 GiB of"));
  const auto decoding = load(R"("decoder": )" + sequence("decoders"));
  CHECK_THROWS_WITH(decoding->decode(std::vector<std::int32_t>{0}, SpecialTokens::add),
                    Catch::Contains("tokenizer.json: decoder: makes 2.0 MiB of"));
}

TEST_CASE("a regular expression of more than 64 KiB is refused", "[tokenizer][regression]") {
  CHECK_THROWS_WITH(regex_pattern(std::string(70'000, 'a'), "here"), Catch::Contains("here: a regular expression of"));
}

TEST_CASE("a regular expression that tries very many ways is given up, and named", "[tokenizer]") {
  const TemporaryDirectory folder;
  const std::string text = std::string(30'000, 'a') + "!";
  for (const char* expression : {"(a+)+$", "(.*a){25}"}) {
    INFO(expression);
    Json splitting = small_bert();
    splitting["pre_tokenizer"] = {
        {"type", "Split"}, {"pattern", {{"Regex", expression}}}, {"behavior", "Isolated"}, {"invert", false}};
    Json replacing = small_bert();
    replacing["normalizer"] = {{"type", "Replace"}, {"pattern", {{"Regex", expression}}}, {"content", " "}};
    for (const Json& json : {splitting, replacing}) {
      const auto tokenizer = load_tokenizer(folder.write("tokenizer.json", json.dump()));
      std::string told = "nothing";
      try {
        tokenizer->encode(text, {SpecialTokens::add, std::nullopt});
      } catch (const core::Error& error) {
        told = error.text();
      }
      CHECK_THAT(told, Catch::Contains("the regular expression takes too long for a text of 30,001 bytes"));
      CHECK_THAT(told, Catch::Contains("try: "));
    }
  }
}

}  // namespace trainctl::tokenizer
