// Tokens that tokenizer_config.json, special_tokens_map.json and added_tokens.json add to each form of a vocabulary.
// Expected ids are those of AutoTokenizer (transformers 5.17, tokenizers 0.23).
#include <bit>
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <set>

#include "core/error.h"
#include "support/temporary_directory.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/unicode/byte_chars.h"

namespace trainctl::tokenizer::side_files_test {
namespace {

namespace fs = std::filesystem;
using Catch::Matchers::Contains;
using Ids = std::vector<std::int32_t>;
using Json = nlohmann::json;
using testing::TemporaryDirectory;

struct File {
  std::string name;
  std::string bytes;
};

/// A directory that has these files alone.
class Files {
 public:
  explicit Files(const std::vector<File>& files) {
    for (const File& file : files) folder_.write(file.name, file.bytes);
  }
  std::unique_ptr<Tokenizer> load() const { return load_tokenizer(folder_.path()); }
  std::string refusal() const {
    try {
      load_tokenizer(folder_.path());
    } catch (const core::Error& error) {
      return error.text();
    }
    return "loaded";
  }

 private:
  TemporaryDirectory folder_;
};

Ids ids_of(const Tokenizer& tokenizer, std::string_view text, SpecialTokens special = SpecialTokens::leave_out) {
  const Ids ids = tokenizer.encode(text, {special, std::nullopt}).ids;
  if (special == SpecialTokens::leave_out) {
    Ids alone;
    tokenizer.append_ids(text, alone);
    CHECK(alone == ids);
  }
  return ids;
}

/// An added_tokens_decoder of special tokens with ids from `first` on.
std::string decoder(std::uint32_t first, const std::vector<std::string>& contents, const std::string& more = "") {
  Json json = more.empty() ? Json::object() : Json::parse(more);
  for (const std::string& content : contents)
    json["added_tokens_decoder"][std::to_string(first++)] = {{"content", content},   {"lstrip", false},
                                                             {"rstrip", false},      {"normalized", false},
                                                             {"single_word", false}, {"special", true}};
  return json.dump();
}

const File kWords{"vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n[\n]\nent\nthe\nfox\n<\ns\n>\n"};

/// The model of a tokenizer.json: WordPiece with these words, whose ids are their places.
Json word_piece(const std::vector<std::string>& words) {
  Json vocabulary;
  for (const std::string& word : words) vocabulary[word] = vocabulary.size();
  return {{"type", "WordPiece"},
          {"unk_token", "[UNK]"},
          {"continuing_subword_prefix", "##"},
          {"max_input_chars_per_word", 100},
          {"vocab", vocabulary}};
}

/// Byte-level BPE: every byte, "th" and "the".
std::vector<File> byte_level(std::vector<File> more) {
  Json vocabulary;
  for (int byte = 0; byte < 256; ++byte) {
    const char one = static_cast<char>(byte);
    vocabulary[bytes_to_chars({&one, 1})] = byte;
  }
  vocabulary["th"] = 256;
  vocabulary["the"] = 257;
  more.push_back({"vocab.json", vocabulary.dump()});
  more.push_back({"merges.txt", "#version: 0.2\nt h\nth e\n"});
  return more;
}

// A SentencePiece model in protobuf's wire format.
std::string number(std::uint64_t value) {
  std::string bytes;
  do {
    bytes += static_cast<char>((value & 127) | (value > 127 ? 128 : 0));
    value >>= 7;
  } while (value > 0);
  return bytes;
}
std::string message(int field, const std::string& bytes) {
  return number(static_cast<std::uint64_t>(field) << 3 | 2) + number(bytes.size()) + bytes;
}
std::string varint(int field, std::int64_t value) {
  return number(static_cast<std::uint64_t>(field) << 3) + number(static_cast<std::uint64_t>(value));
}
std::string piece(const std::string& text, float score, int type = 1) {
  const auto bits = std::bit_cast<std::uint32_t>(score);
  std::string fixed;
  for (int shift = 0; shift < 32; shift += 8) fixed += static_cast<char>(bits >> shift & 255);
  return message(1, message(1, text) + number(2 << 3 | 5) + fixed + varint(3, type));
}
struct Roles {
  int unknown, begin, end, pad;
};
/// `type`: 1 is Unigram, 2 is BPE. `keeps_spaces`: text isn't stripped. `adds_prefix`: a space is put before it.
std::string spm(const std::string& pieces, int type, const Roles& roles, bool keeps_spaces, bool adds_prefix = true) {
  return pieces +
         message(2, varint(3, type) + varint(40, roles.unknown) + varint(41, roles.begin) + varint(42, roles.end) +
                        varint(43, roles.pad)) +
         message(3, message(1, "identity") + (adds_prefix ? "" : varint(3, 0)) + (keeps_spaces ? varint(4, 0) : ""));
}
std::string t5_model() {
  return spm(piece("<pad>", 0, 3) + piece("</s>", 0, 3) + piece("<unk>", 0, 2) + piece("\u2581", -2) +
                 piece("\u2581the", -3) + piece("\u2581fox", -3.5F) + piece("the", -4) + piece("f", -5) +
                 piece("o", -5.5F) + piece("x", -6) + piece("r", -6.5F) + piece("u", -7) + piece("n", -7.5F) +
                 piece("s", -8) + piece("{", -9),
             1, {.unknown = 2, .begin = -1, .end = 1, .pad = 0}, /*keeps_spaces=*/false);
}
std::string llama_model() {
  return spm(piece("<unk>", 0, 2) + piece("<s>", 0, 3) + piece("</s>", 0, 3) + piece("th", 0) + piece("the", -1) +
                 piece("\u2581the", -2) + piece("fo", -3) + piece("fox", -4) + piece("\u2581fox", -5) +
                 piece("\u2581", -6) + piece("t", -7) + piece("h", -8) + piece("e", -9) + piece("f", -10) +
                 piece("o", -11) + piece("x", -12),
             2, {.unknown = 0, .begin = 1, .end = 2, .pad = -1}, /*keeps_spaces=*/true);
}

}  // namespace

TEST_CASE("a vocab.txt has the tokens of the files beside it", "[tokenizer][regression]") {
  const auto listed = Files({kWords, {"tokenizer_config.json", decoder(13, {"[ENT]"})}}).load();
  CHECK(ids_of(*listed, "the [ENT] fox") == Ids{8, 13, 9});
  CHECK(ids_of(*listed, "The [ent] fox[ENT]s") == Ids{8, 5, 7, 6, 9, 13, 11});
  CHECK(listed->vocab_size() == 14);
  CHECK(listed->token_of(13) == "[ENT]");
  // A token of added_tokens.json that no role makes special is looked for in lower case.
  const auto added = Files({kWords, {"added_tokens.json", R"({"[ENT]": 13})"}}).load();
  CHECK(ids_of(*added, "The [ent] fox[ENT]s") == Ids{8, 13, 9, 13, 11});
  const auto named = Files({kWords, {"special_tokens_map.json", R"({"mask_token": "<s>"})"}}).load();
  CHECK(ids_of(*named, "the <s> fox") == Ids{8, 13, 9});
  CHECK(named->roles().mask == 13);
  for (const char* file : {"special_tokens_map.json", "tokenizer_config.json"}) {
    const auto extra = Files({kWords, {file, R"({"additional_special_tokens": ["[ENT]"]})"}}).load();
    CHECK(ids_of(*extra, "The [ent] fox[ENT]s") == Ids{8, 5, 7, 6, 9, 13, 11});
  }
  const auto around = Files({kWords, {"tokenizer_config.json", R"({"cls_token": "fox", "sep_token": "the"})"}}).load();
  CHECK(ids_of(*around, "s", SpecialTokens::add) == Ids{9, 11, 8});
  const auto plain = Files({kWords}).load();
  CHECK(plain->fingerprint() != listed->fingerprint());
  CHECK(plain->vocab_size() == 13);
  // A line that a vocab.txt repeats counts once, so that a new token takes the id of the last line.
  const File repeated{"vocab.txt", kWords.bytes + "fox\n"};
  const auto behind = Files({repeated, {"tokenizer_config.json", R"({"eos_token": "[ENT]"})"}}).load();
  CHECK(ids_of(*behind, "fox[ENT]") == Ids{13, 13});
}

TEST_CASE("fingerprints differ where files beside a vocabulary give other roles or tokens around texts",
          "[tokenizer][regression]") {
  const auto fingerprint = [](const File& file, const char* config) {
    return Files({file, {"tokenizer_config.json", config}}).load()->fingerprint();
  };
  const std::string words = fingerprint(kWords, "{}");
  CHECK(fingerprint(kWords, "{}") == words);
  for (const char* config : {R"({"cls_token": "fox"})", R"({"sep_token": "the"})", R"({"unk_token": "fox"})",
                             R"({"eos_token": "the"})", R"({"pad_token": "fox"})"}) {
    CAPTURE(config);
    CHECK(fingerprint(kWords, config) != words);
  }
  const File model{"tokenizer.model", llama_model()};
  const std::string both = R"({"tokenizer_class": "LlamaTokenizer", "legacy": true, "add_prefix_space": true)";
  std::set<std::string> pieces;
  for (const std::string rest : {"}", R"(, "add_bos_token": true})", R"(, "add_eos_token": true})",
                                 R"(, "add_bos_token": true, "add_eos_token": true})"})
    pieces.insert(Files({model, {"tokenizer_config.json", both + rest}}).load()->fingerprint());
  CHECK(pieces.size() == 4);
  const File json{"tokenizer.json",
                  R"({"added_tokens": [], "normalizer": null, "pre_tokenizer": {"type": "Whitespace"},
                      "model": {"type": "WordLevel", "unk_token": "[UNK]", "vocab": {"[UNK]": 0, "the": 1, "fox": 2}}})"};
  const char* const special = R"({"additional_special_tokens": ["the", "fox"], "eos_token": "the"})";
  const char* const other = R"({"additional_special_tokens": ["the", "fox"], "eos_token": "fox"})";
  CHECK(fingerprint(json, special) != fingerprint(json, other));
}

TEST_CASE("a vocabulary with merges has the tokens of the files beside it", "[tokenizer][regression]") {
  const std::string text = "<|im_start|>the's 12<|im_end|>";
  const auto added = Files(byte_level({{"added_tokens.json", R"({"<|im_start|>": 258, "<|im_end|>": 259})"}})).load();
  CHECK(ids_of(*added, text) == Ids{258, 257, 39, 115, 32, 49, 50, 259});
  const auto named =
      Files(byte_level({{"config.json", R"({"model_type": "gpt2"})"},
                        {"special_tokens_map.json", R"({"eos_token": "<|im_end|>", "pad_token": "<|im_start|>"})"}}))
          .load();
  CHECK(ids_of(*named, text) == Ids{260, 257, 39, 115, 32, 49, 50, 259});
  CHECK((named->roles().end == 259 && named->roles().pad == 260));
  const auto prefixed =
      Files(byte_level({{"tokenizer_config.json",
                         R"({"tokenizer_class": "GPT2Tokenizer", "add_prefix_space": true, "add_bos_token": true,
                             "bos_token": "the"})"}}))
          .load();
  CHECK(ids_of(*prefixed, "a the") == Ids{32, 97, 32, 257});
  CHECK(ids_of(*prefixed, "a the", SpecialTokens::add) == Ids{257, 32, 97, 32, 257});
}

TEST_CASE("Qwen's and RoBERTa's classes split text and surround it in their ways", "[tokenizer][regression]") {
  const auto qwen =
      Files(byte_level({{"tokenizer_config.json",
                         decoder(258, {"<|endoftext|>", "<|im_start|>", "<|im_end|>"},
                                 R"({"tokenizer_class": "Qwen2Tokenizer", "eos_token": "<|im_end|>"})")}}))
          .load();
  CHECK(ids_of(*qwen, "<|im_start|>the's 12<|im_end|>") == Ids{259, 257, 39, 115, 32, 49, 50, 260});
  CHECK(ids_of(*qwen, "e\u0301") == Ids{195, 169});
  CHECK(ids_of(*qwen, "the\n\n12") == Ids{257, 10, 10, 49, 50});
  CHECK(qwen->roles().end == 260);

  std::vector<File> files = byte_level({{"config.json", R"({"model_type": "roberta"})"}});
  Json vocabulary = Json::parse(files[1].bytes);
  int id = 258;
  for (const char* token : {"<s>", "<pad>", "</s>", "<unk>", "<mask>"}) vocabulary[token] = id++;
  files[1].bytes = vocabulary.dump();
  const auto roberta = Files(files).load();
  CHECK(ids_of(*roberta, "the <mask>", SpecialTokens::add) == Ids{258, 257, 32, 262, 260});
}

TEST_CASE("T5's sentinels and added tokens are found beside a SentencePiece model", "[tokenizer][regression]") {
  const File model{"spiece.model", t5_model()};
  const File t5{"config.json", R"({"model_type": "t5"})"};
  const auto bare = Files({model, t5}).load();
  const Ids ids = ids_of(*bare, "the <extra_id_0> fox < runs");
  CHECK(ids == Ids{4, 114, 5, 3, 2, 3, 10, 11, 12, 13});
  CHECK(bare->vocab_size() == 115);
  CHECK(bare->decode(ids, SpecialTokens::add) == "the<extra_id_0> fox <unk> runs");
  CHECK(bare->decode(ids, SpecialTokens::leave_out) == "the fox  runs");
  CHECK(ids_of(*bare, "the fox</s> the") == Ids{4, 5, 1, 4});
  CHECK(bare->encode("the <extra_id_0> fox", {SpecialTokens::leave_out, std::nullopt}).offsets ==
        std::vector<TextRange>{{0, 3}, {4, 16}, {17, 20}});
  const auto few = Files({model,
                          t5,
                          {"added_tokens.json", R"({"<": 17})"},
                          {"tokenizer_config.json", R"({"tokenizer_class": "T5Tokenizer", "extra_ids": 2})"}})
                       .load();
  CHECK(ids_of(*few, "the <extra_id_0> fox < runs") == Ids{4, 16, 5, 17, 3, 10, 11, 12, 13});
  // A network without rows for them has no sentinels; a model without other files is the library's.
  CHECK(Files({model, {"config.json", R"({"model_type": "t5", "vocab_size": 15})"}}).load()->vocab_size() == 15);
  CHECK(Files({model}).load()->vocab_size() == 15);
}

TEST_CASE("a tokenizer.json is changed by side files that add tokens alone", "[tokenizer][regression]") {
  const File json{"tokenizer.json",
                  R"({"added_tokens": [], "normalizer": null, "pre_tokenizer": {"type": "Whitespace"},
                      "model": {"type": "WordLevel", "unk_token": "[UNK]", "vocab": {"[UNK]": 0, "the": 1, "fox": 2}}})"};
  CHECK_FALSE(Files({json}).load()->is_changed_by_side_files());
  CHECK_FALSE(
      Files({json, {"tokenizer_config.json", R"({"model_max_length": 8})"}}).load()->is_changed_by_side_files());
  CHECK(Files({json, {"tokenizer_config.json", decoder(3, {"[ENT]"})}}).load()->is_changed_by_side_files());
}

TEST_CASE("text behind an added token of Llama begins with a space in the older class alone",
          "[tokenizer][regression]") {
  const auto llama = [](const std::string& legacy) {
    return Files(
               {{"tokenizer.model", llama_model()},
                {"tokenizer_config.json",
                 decoder(16, {"<|im_start|>", "<|im_end|>"},
                         R"({"tokenizer_class": "LlamaTokenizer", "add_bos_token": true, "legacy": )" + legacy + "}")}})
        .load();
  };
  const auto now = llama("false");
  const Ids ids = ids_of(*now, "<|im_start|>the fox<|im_end|>");
  CHECK(ids == Ids{16, 4, 8, 17});
  CHECK(now->decode(ids, SpecialTokens::add) == "<|im_start|>the fox<|im_end|>");
  CHECK(ids_of(*now, "the fox<|im_end|> the fox", SpecialTokens::add) == Ids{1, 5, 8, 17, 5, 8});
  CHECK(ids_of(*now, "<s>the") == Ids{1, 4});
  const auto legacy = llama("true");
  CHECK(ids_of(*legacy, "<|im_start|>the fox<|im_end|>") == Ids{16, 5, 8, 17});
  CHECK(ids_of(*legacy, "the fox<|im_end|> the fox") == Ids{5, 8, 17, 5, 8});
  CHECK(ids_of(*legacy, "<s>the") == Ids{1, 5});
}

TEST_CASE("Llama's class puts no space before a text that begins with one", "[tokenizer][regression]") {
  const auto llama = [](const char* legacy) {
    const std::string config = R"({"tokenizer_class": "LlamaTokenizer", "legacy": )" + std::string(legacy) + "}";
    return Files({{"tokenizer.model", llama_model()}, {"tokenizer_config.json", config}}).load();
  };
  for (const char* legacy : {"false", "true"}) {
    CAPTURE(legacy);
    CHECK(ids_of(*llama(legacy), " the fox") == Ids{5, 8});
    CHECK(ids_of(*llama(legacy), "  the") == Ids{9, 5});
    CHECK(ids_of(*llama(legacy), "the") == Ids{5});
    CHECK(llama(legacy)->decode(Ids{9, 1, 5}, SpecialTokens::leave_out) == " the");
  }
  // The library, which nothing but the model names, puts one.
  CHECK(ids_of(*Files({{"tokenizer.model", llama_model()}}).load(), " the fox") == Ids{9, 5, 8});
}

TEST_CASE("a SentencePiece model has the tokens and roles of its class", "[tokenizer][regression]") {
  const File named{"tokenizer_config.json", R"({"tokenizer_class": "LlamaTokenizer", "sep_token": "<s>"})"};
  CHECK(Files({{"tokenizer.model", llama_model()}, named}).load()->roles().end == 2);
  const std::string gemma =
      spm(piece("<pad>", 0, 3) + piece("<eos>", 0, 3) + piece("<bos>", 0, 3) + piece("<unk>", 0, 2) + piece("a", -1) +
              piece("<", -2) + piece("s", -3) + piece(">", -4) + piece("<mask>", -5),
          2, {.unknown = 3, .begin = 2, .end = 1, .pad = 0}, /*keeps_spaces=*/true, /*adds_prefix=*/false);
  const auto tokenizer =
      Files({{"tokenizer.model", gemma}, {"tokenizer_config.json", R"({"tokenizer_class": "GemmaTokenizer"})"}}).load();
  CHECK(ids_of(*tokenizer, "a<s>a") == Ids{4, 5, 6, 7, 4});
  CHECK(tokenizer->vocab_size() == 9);
  CHECK(tokenizer->roles().mask == 8);
}

TEST_CASE("a list of special tokens takes the place of a SentencePiece model's own", "[tokenizer][regression]") {
  const auto files = [](const char* config) {
    return Files({{"spiece.model", t5_model()}, {"tokenizer_config.json", config}});
  };
  const auto named = [&](const std::string& rest) {
    return files((R"({"tokenizer_class": "T5Tokenizer", "extra_ids": 2)" + rest + "}").c_str());
  };
  const std::string text = "the <extra_id_0> fox";
  CHECK(ids_of(*named("").load(), text) == Ids{4, 16, 5});
  CHECK(ids_of(*named(R"(, "extra_special_tokens": ["<extra_id_0>", "<extra_id_1>"])").load(), text) == Ids{4, 16, 5});
  CHECK(ids_of(*named(R"(, "additional_special_tokens": ["<extra_id_1>", {"content": "<extra_id_0>",
                          "single_word": true}])")
                    .load(),
               "the<extra_id_0>fox <extra_id_0>")
            .back() == 16);
  for (const char* list : {"null", "[]", R"(["<extra_id_0>"])", R"(["<new>"])"}) {
    CAPTURE(list);
    CHECK_THAT(named(std::string(R"(, "additional_special_tokens": )") + list).refusal(),
               Contains("tokenizer_config.json: the list of special tokens lacks '<extra_id_"));
  }
  CHECK(files(R"({"tokenizer_class": "T5Tokenizer", "extra_ids": 0, "additional_special_tokens": null})")
            .load()
            ->vocab_size() == 15);
  // The older key of special_tokens_map.json adds nothing here.
  const File map{"special_tokens_map.json", R"({"additional_special_tokens": ["<new>"]})"};
  const File t5{"tokenizer_config.json", R"({"tokenizer_class": "T5Tokenizer", "extra_ids": 2})"};
  CHECK(Files({{"spiece.model", t5_model()}, t5, map}).load()->vocab_size() == 17);
}

TEST_CASE("files beside a SentencePiece model say which of its pieces are special", "[tokenizer][regression]") {
  const std::string pieces = piece("<pad>", 0, 3) + piece("<eos>", 0, 3) + piece("<bos>", 0, 3) + piece("<unk>", 0, 2) +
                             piece("a", -1) + piece("user", 0, 4) + piece("control", 0, 3) + piece("<mask>", -5);
  const File model{"tokenizer.model", spm(pieces, 2, {.unknown = 3, .begin = 2, .end = 1, .pad = 0},
                                          /*keeps_spaces=*/true, /*adds_prefix=*/false)};
  const auto shown = [&](const std::string& config) {
    return Files({model, {"tokenizer_config.json", config}}).load()->decode(Ids{4, 5, 6}, SpecialTokens::leave_out);
  };
  CHECK(shown(R"({"tokenizer_class": "GemmaTokenizer"})") == "a");
  CHECK(shown(R"({"tokenizer_class": "GemmaTokenizer", "added_tokens_decoder": {"5": {"content": "user"},
                  "6": {"content": "control", "special": false}}})") == "ausercontrol");
}

TEST_CASE("a token is special because of its role, or as the files say", "[tokenizer][regression]") {
  const auto shown = [](const std::vector<File>& files, std::int32_t id) {
    return Files(files).load()->decode(Ids{8, id}, SpecialTokens::leave_out);
  };
  const auto config = [](const char* json) { return File{"tokenizer_config.json", json}; };
  // One of a list that is an object is special if the object says so.
  const char* const object = R"({"extra_special_tokens": [{"__type": "AddedToken", "content": "[ENT]"}]})";
  CHECK(shown({kWords, config(object)}, 13) == "the [ent]");
  CHECK(shown({kWords, config(R"({"extra_special_tokens": ["[ENT]"]})")}, 13) == "the");
  CHECK(shown({kWords, {"special_tokens_map.json", R"({"extra_special_tokens": [{"content": "[ENT]"}]})"}}, 13) ==
        "the");
  // A list doesn't change a token of added_tokens_decoder, and a role does.
  const std::string listed = R"({"added_tokens_decoder": {"13": {"content": "[ent]", "special": false}}, )";
  CHECK(shown({kWords, config((listed + R"("extra_special_tokens": ["[ent]"]})").c_str())}, 13) == "the [ent]");
  CHECK(shown({kWords, config((listed + R"("eos_token": "[ent]"})").c_str())}, 13) == "the");
  CHECK(shown({kWords, config((listed + R"("image_token": "[ent]"})").c_str())}, 13) == "the");

  // A tokenizer.json that is read as it is keeps its special tokens; a class takes the flags of the files beside it.
  Json json = {{"added_tokens", {{{"id", 5}, {"content", "the"}, {"special", true}}}},
               {"normalizer", nullptr},
               {"pre_tokenizer", {{"type", "BertPreTokenizer"}}},
               {"decoder", {{"type", "WordPiece"}}},
               {"model", word_piece({"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "fox"})}};
  const auto fox = [&](const char* tokenizer_class) {
    Json beside = {{"tokenizer_class", tokenizer_class}};
    beside["added_tokens_decoder"]["5"] = {{"content", "the"}, {"special", false}, {"normalized", false}};
    return Files({{"tokenizer.json", json.dump()}, config(beside.dump().c_str())})
        .load()
        ->decode(Ids{6, 5}, SpecialTokens::leave_out);
  };
  CHECK(fox("PreTrainedTokenizerFast") == "fox");
  CHECK(fox("BertTokenizer") == "fox the");
  json["added_tokens"] = {{{"id", 0}, {"content", "[PAD]"}, {"special", false}, {"normalized", false}}};
  const auto padded = [&](const char* beside) {
    return Files({{"tokenizer.json", json.dump()}, config(beside)}).load()->decode(Ids{6, 0}, SpecialTokens::leave_out);
  };
  CHECK(padded("{}") == "fox [PAD]");
  CHECK(padded(R"({"eos_token": "[PAD]"})") == "fox");
  CHECK(padded(R"({"tokenizer_class": "BertTokenizer"})") == "fox");
}

TEST_CASE("side files that contradict a vocabulary are refused with their place", "[tokenizer]") {
  CHECK_THAT(Files({kWords, {"added_tokens.json", R"({"[ENT]": 18})"}}).refusal(),
             Contains("added_tokens.json: '[ENT]'") && Contains("has id 18") && Contains("13"));
  CHECK_THAT(Files({kWords, {"tokenizer_config.json", decoder(8, {"[ENT]"})}}).refusal(),
             Contains("tokenizer_config.json: added_tokens_decoder"));
  CHECK_THAT(Files({kWords, {"tokenizer_config.json", R"({"cls_token": null})"}}).refusal(),
             Contains("vocab.txt needs a cls_token, and the files beside it say null"));
  CHECK_THAT(Files({kWords, {"tokenizer_config.json", R"({"tokenizer_class": "MPNetTokenizer"})"}}).refusal(),
             Contains("tokenizer_class is MPNetTokenizer"));
  CHECK_THAT(Files(byte_level({{"tokenizer_config.json", R"({"tokenizer_class": "CLIPTokenizer"})"}})).refusal(),
             Contains("tokenizer_class is CLIPTokenizer"));
  CHECK_THAT(Files({{"sentencepiece.bpe.model", llama_model()},
                    {"tokenizer_config.json", R"({"tokenizer_class": "XLMRobertaTokenizer"})"}})
                 .refusal(),
             Contains("tokenizer_class is XLMRobertaTokenizer"));
  const std::string shifted = R"({"model": {"type": "Unigram", "vocab": [["<s>", 0], ["<pad>", 0]]}})";
  CHECK_THAT(Files({{"spiece.model", t5_model()}, {"tokenizer.json", shifted}}).refusal(),
             Contains("spiece.model: id 0 is <pad>") && Contains("tokenizer.json"));
  CHECK_THAT(Files({{"tokenizer.model", llama_model()},
                    {"tokenizer_config.json", R"({"tokenizer_class": "PreTrainedTokenizerFast"})"}})
                 .refusal(),
             Contains("the model puts a space before texts"));
  CHECK_THAT(
      Files({kWords,
             {"tokenizer_config.json", R"({"fast_tokenizer_files": ["tokenizer.json", "tokenizer.4.0.0.json"]})"}})
          .refusal(),
      Contains("tokenizer_config.json: fast_tokenizer_files names \"tokenizer.4.0.0.json\""));
}

TEST_CASE("the files beside a tokenizer.json give roles, tokens and BERT's normalizer", "[tokenizer][regression]") {
  const Json model = word_piece({"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "king", "The", "King"});
  const Json cased = {{"normalizer",
                       {{"type", "BertNormalizer"},
                        {"clean_text", true},
                        {"handle_chinese_chars", true},
                        {"strip_accents", nullptr},
                        {"lowercase", false}}},
                      {"pre_tokenizer", {{"type", "BertPreTokenizer"}}},
                      {"model", model}};
  const File json{"tokenizer.json", cased.dump()};
  const auto plain = Files({json}).load();
  CHECK(ids_of(*plain, "The King") == Ids{7, 8});
  const auto lower =
      Files({json, {"tokenizer_config.json", R"({"tokenizer_class": "BertTokenizer", "do_lower_case": true})"}}).load();
  CHECK(ids_of(*lower, "The King") == Ids{5, 6});
  CHECK(lower->fingerprint() != plain->fingerprint());
  const auto other =
      Files(
          {json, {"tokenizer_config.json", R"({"tokenizer_class": "PreTrainedTokenizerFast", "do_lower_case": true})"}})
          .load();
  CHECK(ids_of(*other, "The King") == Ids{7, 8});

  const auto roles =
      Files({json, {"special_tokens_map.json", R"({"eos_token": "king", "pad_token": {"content": "the"}})"}}).load();
  CHECK((roles->roles().end == 6 && roles->roles().pad == 5));
  const auto more = Files({json, {"tokenizer_config.json", decoder(9, {"<x>"})}}).load();
  CHECK(ids_of(*more, "The <x>King") == Ids{7, 9, 8});
}

/// A tokenizer.json of byte_level() that splits texts at spaces alone.
File split_at_spaces() {
  const std::vector<File> files = byte_level({});
  const Json split = {{"type", "Split"}, {"pattern", {{"String", " "}}}, {"behavior", "Removed"}, {"invert", false}};
  const Json bytes = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", false}};
  const Json json = {{"added_tokens", Json::array()},
                     {"normalizer", nullptr},
                     {"pre_tokenizer", {{"type", "Sequence"}, {"pretokenizers", {split, bytes}}}},
                     {"post_processor", nullptr},
                     {"decoder", {{"type", "ByteLevel"}}},
                     {"model", {{"type", "BPE"}, {"vocab", Json::parse(files[0].bytes)}, {"merges", {"t h", "th e"}}}}};
  return {"tokenizer.json", json.dump()};
}

TEST_CASE("the network's type and the named class decide together what reads a directory", "[tokenizer][regression]") {
  const auto ids = [](const std::string& config, const std::string& model) {
    return ids_of(*Files({split_at_spaces(), {"tokenizer_config.json", config}, {"config.json", model}}).load(),
                  "a the");
  };
  const Ids file = {97, 257};
  const Ids gpt2 = {97, 32, 257};
  const std::string named = R"({"tokenizer_class": "GPT2Tokenizer"})";
  CHECK(ids(named, "{}") == gpt2);
  CHECK(ids(named, R"({"model_type": "gpt_neo"})") == gpt2);
  for (const char* type : {"olmo2", "gpt_bigcode", "stablelm", "deepseek_v3"}) {
    CAPTURE(type);
    CHECK(ids(named, Json{{"model_type", type}}.dump()) == file);
  }
  CHECK(ids(R"({"tokenizer_class": "GPT2Tokenizer", "auto_map": {"AutoTokenizer": ["a.A", null]}})",
            R"({"model_type": "olmo2"})") == gpt2);
  CHECK(ids("{}", R"({"model_type": "llama"})") == file);
  CHECK(ids("{}", R"({"model_type": "gpt_neo"})") == gpt2);
  CHECK(ids("{}", R"({"model_type": "gpt_neox"})") == gpt2);
  CHECK(ids("{}", R"({"model_type": "llama", "tokenizer_class": "GPT2Tokenizer"})") == gpt2);
  for (const char* type : {"clip", "esm", "blenderbot"}) {
    CAPTURE(type);
    const File model{"config.json", Json{{"model_type", type}}.dump()};
    CHECK_THAT(Files({split_at_spaces(), model}).refusal(), Contains("Tokenizer"));
    CHECK_THAT(Files(byte_level({model})).refusal(), Contains("Tokenizer"));
  }
}

TEST_CASE("a second name of a tokenizer class is read as the first", "[tokenizer][regression]") {
  std::vector<File> files = byte_level({{"tokenizer_config.json", R"({"tokenizer_class": "BartTokenizerFast"})"}});
  Json vocabulary = Json::parse(files[1].bytes);
  for (const char* token : {"<s>", "<pad>", "</s>", "<unk>", "<mask>"}) vocabulary[token] = vocabulary.size();
  files[1].bytes = vocabulary.dump();
  CHECK(ids_of(*Files(files).load(), "the", SpecialTokens::add) == Ids{258, 257, 260});
  const File mobile{"tokenizer_config.json", R"({"tokenizer_class": "MobileBertTokenizer", "do_lower_case": false})"};
  CHECK(ids_of(*Files({kWords, mobile}).load(), "The the") == Ids{1, 8});
}

TEST_CASE("classes build their normalizer, model and decoder in place of tokenizer.json's", "[tokenizer][regression]") {
  const Json model = word_piece({"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "The", "##s", "@@s"});
  const auto bert = [&](const char* changes) {
    Json json = {{"added_tokens", Json::array()},
                 {"normalizer", nullptr},
                 {"pre_tokenizer", {{"type", "WhitespaceSplit"}}},
                 {"decoder", {{"type", "Fuse"}}},
                 {"model", model}};
    json.merge_patch(Json::parse(changes));
    return Files(
        {{"tokenizer.json", json.dump()}, {"tokenizer_config.json", R"({"tokenizer_class": "BertTokenizer"})"}});
  };
  for (const char* changes :
       {"{}", R"({"normalizer": {"type": "NFC"}})", R"({"model": {"max_input_chars_per_word": 2}})",
        R"({"model": {"continuing_subword_prefix": "@@"}})"}) {
    CAPTURE(changes);
    const auto made = bert(changes).load();
    CHECK(ids_of(*made, "The thes") == Ids{5, 5, 7});
    CHECK(made->decode(Ids{5, 7, 5}, SpecialTokens::add) == "thes the");
    CHECK(made->is_changed_by_side_files());
  }
  CHECK_THAT(bert(R"({"model": {"type": "WordLevel"}})").refusal(), Contains("isn't WordPiece"));

  // A vocabulary without all bytes: GPT-2's class leaves unknown ones out, whatever the file has for them.
  const Json short_bpe = {
      {"added_tokens", Json::array()},
      {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}}},
      {"decoder", nullptr},
      {"model",
       {{"type", "BPE"},
        {"unk_token", "?"},
        {"vocab", {{"?", 0}, {"t", 1}, {"h", 2}, {"\u0120", 3}, {"th", 4}}},
        {"merges", {"t h"}}}}};
  const File gpt2{"tokenizer_config.json", R"({"tokenizer_class": "GPT2Tokenizer"})"};
  const auto bytes = Files({{"tokenizer.json", short_bpe.dump()}, gpt2}).load();
  CHECK(ids_of(*bytes, "th xt") == Ids{4, 3, 1});
  CHECK(bytes->decode(Ids{4, 3, 1}, SpecialTokens::add) == "th t");
}

TEST_CASE("truncation removes the end of a text that the files name", "[tokenizer][regression]") {
  const auto cut = [](const Tokenizer& tokenizer, std::string_view text, std::int64_t length) {
    return tokenizer.encode(text, {SpecialTokens::add, length}).ids;
  };
  const File left{"tokenizer_config.json", R"({"truncation_side": "left"})"};
  const auto plain = Files({kWords}).load();
  const auto words = Files({kWords, left}).load();
  CHECK(cut(*plain, "the fox ent s", 4) == Ids{2, 8, 9, 3});
  CHECK(cut(*words, "the fox ent s", 4) == Ids{2, 7, 11, 3});
  CHECK(words->encode("the fox ent s", {SpecialTokens::add, 4}).offsets ==
        std::vector<TextRange>{{0, 0}, {8, 11}, {12, 13}, {0, 0}});
  CHECK(words->encode_pair("the fox ent", "s s", {SpecialTokens::add, 6}).ids == Ids{2, 9, 7, 3, 11, 3});
  CHECK(words->fingerprint() != plain->fingerprint());
  CHECK(cut(*Files({{"tokenizer.model", llama_model()}, left}).load(), "the fox", 2) == Ids{1, 8});

  const auto json = [](const char* direction) {
    return File{"tokenizer.json",
                R"({"added_tokens": [], "normalizer": null, "pre_tokenizer": {"type": "Whitespace"},
                    "model": {"type": "WordLevel", "unk_token": "[UNK]", "vocab": {"[UNK]": 0, "the": 1, "fox": 2}},
                    "truncation": {"max_length": 9, "strategy": "LongestFirst", "stride": 0, "direction": ")" +
                    std::string(direction) + "\"}}"};
  };
  CHECK(cut(*Files({json("Left")}).load(), "the fox", 1) == Ids{2});
  CHECK(cut(*Files({json("Right"), left}).load(), "the fox", 1) == Ids{2});
  CHECK(cut(*Files({json("Left"), {"tokenizer_config.json", R"({"truncation_side": "right"})"}}).load(), "the fox",
            1) == Ids{1});
  CHECK_THAT(Files({kWords, {"tokenizer_config.json", R"({"truncation_side": "both"})"}}).refusal(),
             Contains("truncation_side"));
}

TEST_CASE("a class gives the roles that no file names", "[tokenizer][regression]") {
  std::vector<File> files = byte_level({{"tokenizer_config.json", R"({"tokenizer_class": "GPT2Tokenizer"})"}});
  Json vocabulary = Json::parse(files[1].bytes);
  for (const char* token : {"<s>", "</s>", "<|endoftext|>"}) vocabulary[token] = vocabulary.size();
  files[1].bytes = vocabulary.dump();
  const SpecialTokenIds gpt2 = Files(files).load()->roles();
  CHECK((gpt2.begin == 260 && gpt2.end == 260 && gpt2.unknown == 260));
  files[0].bytes = R"({"tokenizer_class": "GPT2Tokenizer", "eos_token": "</s>"})";
  const SpecialTokenIds named = Files(files).load()->roles();
  CHECK((named.begin == 260 && named.end == 259));
}

TEST_CASE("Llama's older tokenizer.json puts no second space before a text", "[tokenizer][regression]") {
  const Json older = {{"added_tokens", Json::array()},
                      {"normalizer",
                       {{"type", "Sequence"},
                        {"normalizers",
                         {{{"type", "Prepend"}, {"prepend", "\u2581"}},
                          {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", "\u2581"}}}}}},
                      {"pre_tokenizer", nullptr},
                      {"model",
                       {{"type", "BPE"},
                        {"unk_token", "<unk>"},
                        {"byte_fallback", true},
                        {"fuse_unk", true},
                        {"vocab", {{"<unk>", 0}, {"<s>", 1}, {"</s>", 2}, {"\u2581", 3}, {"a", 4}, {"\u2581a", 5}}},
                        {"merges", {"\u2581 a"}}}}};
  const File json{"tokenizer.json", older.dump()};
  CHECK(ids_of(*Files({json}).load(), " a") == Ids{3, 5});
  const File named{"tokenizer_config.json", R"({"tokenizer_class": "LlamaTokenizer", "legacy": true})"};
  const auto llama = Files({json, named}).load();
  CHECK(ids_of(*llama, " a") == Ids{5});
  CHECK(ids_of(*llama, "a  a") == Ids{5, 3, 5});
}

TEST_CASE("RoBERTa's class trims offsets, whatever a tokenizer.json does", "[tokenizer][regression]") {
  Json json = Json::parse(split_at_spaces().bytes);
  json["pre_tokenizer"] = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", false}};
  for (const char* token : {"<s>", "</s>"}) json["model"]["vocab"][token] = json["model"]["vocab"].size();
  const auto processor = [](bool trims) {
    return Json{{"type", "RobertaProcessing"},
                {"sep", {"</s>", 259}},
                {"cls", {"<s>", 258}},
                {"trim_offsets", trims},
                {"add_prefix_space", false}};
  };
  const auto load = [&](const char* config, bool trims) {
    json["post_processor"] = processor(trims);
    return Files({{"tokenizer.json", json.dump()}, {"tokenizer_config.json", config}}).load();
  };
  const char* const roberta = R"({"tokenizer_class": "RobertaTokenizer"})";
  const auto trimmed = load(roberta, false);
  CHECK(ids_of(*trimmed, " the", SpecialTokens::add) == Ids{258, 32, 257, 259});
  CHECK(trimmed->encode(" the", {SpecialTokens::leave_out, std::nullopt}).offsets ==
        std::vector<TextRange>{{1, 1}, {1, 4}});
  const auto whole = load(R"({"tokenizer_class": "RobertaTokenizer", "trim_offsets": false})", true);
  CHECK(whole->encode(" the", {SpecialTokens::leave_out, std::nullopt}).offsets ==
        std::vector<TextRange>{{0, 1}, {1, 4}});
}

TEST_CASE("tokens with roles that only a model's class knows are added as transformers adds them",
          "[tokenizer][regression]") {
  const auto config = [](const char* json) { return File{"tokenizer_config.json", json}; };
  const auto object = Files({kWords, config(R"({"image_token": {"__type": "AddedToken", "content": "[I]"}})")}).load();
  CHECK(ids_of(*object, "the [I]") == Ids{8, 13});
  CHECK_THAT(Files({kWords, config(R"({"z_token": "[Z]", "a_token": "[A]"})")}).refusal(),
             Contains("has no id") && Contains("'[Z]'"));
  CHECK_THAT(Files({kWords, config(R"({"extra_special_tokens": {"z_token": "[Z]", "a_token": "[A]"}})")}).refusal(),
             Contains("extra_special_tokens"));
  const auto listed = Files({kWords,
                             config(R"({"extra_special_tokens": ["[Z]"]})"),
                             {"special_tokens_map.json", R"({"extra_special_tokens": ["[A]", "[Z]"]})"}})
                          .load();
  CHECK(ids_of(*listed, "[Z][A]") == Ids{13, 14});
  const auto old = Files({kWords,
                          config(R"({"extra_special_tokens": ["[Z]"]})"),
                          {"special_tokens_map.json", R"({"additional_special_tokens": ["[A]"]})"}})
                       .load();
  CHECK(old->vocab_size() == 14);
}

TEST_CASE("a decoded text loses spaces before punctuation where the files ask for it", "[tokenizer][regression]") {
  const File json{"tokenizer.json",
                  R"({"added_tokens": [], "normalizer": null, "pre_tokenizer": {"type": "WhitespaceSplit"},
                      "decoder": null,
                      "model": {"type": "WordLevel", "unk_token": "?",
                                "vocab": {"?": 0, "it": 1, "'": 2, "s": 3, ",": 4, "n't": 5, "do": 6, "not": 7}}})"};
  const Ids ids = {1, 2, 3, 4, 6, 5, 6, 7, 0};
  const File asks{"tokenizer_config.json", R"({"clean_up_tokenization_spaces": true})"};
  CHECK(Files({json}).load()->decode(ids, SpecialTokens::add) == "it ' s , do n't do not ?");
  CHECK(Files({json, asks}).load()->decode(ids, SpecialTokens::add) == "it's, don't do not?");
}

TEST_CASE("a token with several roles has the flags of the last", "[tokenizer][regression]") {
  const auto ids = [](const char* config) {
    return ids_of(*Files({kWords, {"tokenizer_config.json", config}}).load(), "the<x>s");
  };
  CHECK(ids(R"({"eos_token": "<x>"})") == Ids{8, 13, 11});
  const std::string word = R"({"__type": "AddedToken", "content": "<x>", "single_word": true})";
  CHECK(ids((R"({"eos_token": "<x>", "pad_token": )" + word + "}").c_str()) == Ids{8, 10, 1, 12, 11});
  CHECK(ids((R"({"eos_token": )" + word + R"(, "pad_token": "<x>"})").c_str()) == Ids{8, 13, 11});
}

TEST_CASE("the padding of a tokenizer.json gives the pad token that no file names", "[tokenizer][regression]") {
  const File json{"tokenizer.json",
                  R"({"added_tokens": [], "normalizer": null, "pre_tokenizer": {"type": "Whitespace"},
                      "padding": {"strategy": "BatchLongest", "direction": "Right", "pad_to_multiple_of": null,
                                  "pad_id": 2, "pad_type_id": 0, "pad_token": "fox"},
                      "model": {"type": "WordLevel", "unk_token": "[UNK]",
                                "vocab": {"[UNK]": 0, "[PAD]": 1, "fox": 2, "the": 3}}})"};
  CHECK(Files({json}).load()->roles().pad == 2);
  CHECK(Files({json, {"tokenizer_config.json", R"({"pad_token": "the"})"}}).load()->roles().pad == 3);
}

}  // namespace trainctl::tokenizer::side_files_test
