#include "exporters/gguf/gguf_vocabulary.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>

#include "core/error.h"
#include "core/file.h"
#include "core/json.h"
#include "core/text.h"
#include "tokenizer/tokenizer.h"

namespace trainctl::exporters {
namespace {

namespace fs = std::filesystem;
using VocabularyJson = nlohmann::json;

constexpr std::uint64_t kLargestVocabulary = 256 << 20;

/// The numbers by which llama.cpp names what a token is.
enum class TokenType : std::int32_t { normal = 1, control = 3, user_defined = 4, unused = 5 };

fs::path tokenizer_directory(const fs::path& tokenizer) {
  return fs::is_directory(tokenizer) ? tokenizer : tokenizer.parent_path();
}

/// Returns a JSON file of the tokenizer's directory; null if there is none.
VocabularyJson tokenizer_json(const fs::path& tokenizer, const char* name) {
  const fs::path path = tokenizer_directory(tokenizer) / name;
  if (!fs::is_regular_file(path)) return nullptr;
  VocabularyJson json = core::parse_json_or_discard(core::read_file(path, kLargestVocabulary));
  if (!json.is_object()) throw core::Error(path.string() + " is no JSON object");
  return json;
}

core::Error not_byte_level(const fs::path& tokenizer, const std::string& reason) {
  return core::Error(tokenizer.string() + ": GGUF files are written with byte-level BPE alone; " + reason)
      .hint("--format hf keeps every tokenizer");
}

/// Returns the merges "a b" of a tokenizer.json, or of the merges.txt or vocab.bpe of GPT-2.
std::vector<std::string> merges_of(const fs::path& tokenizer, const VocabularyJson& json) {
  std::vector<std::string> merges;
  if (!json.is_null()) {
    for (const VocabularyJson& merge : json.at("model").value("merges", VocabularyJson::array()))
      merges.push_back(merge.is_string() ? merge.get<std::string>()
                                         : merge.at(0).get<std::string>() + " " + merge.at(1).get<std::string>());
    return merges;
  }
  for (const char* name : {"merges.txt", "vocab.bpe"}) {
    const fs::path path = tokenizer_directory(tokenizer) / name;
    if (!fs::is_regular_file(path)) continue;
    std::istringstream lines(core::read_file(path));
    for (std::string line; std::getline(lines, line);)
      if (!line.empty() && !line.starts_with("#version")) merges.push_back(line);
    return merges;
  }
  throw not_byte_level(tokenizer, "this tokenizer has no merges");
}

constexpr const char* kGpt2Split = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
constexpr const char* kLlama3Split =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kQwen2Split =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

constexpr const char* kBytes = "ByteLevel";
constexpr const char* kSpacedBytes = "ByteLevel with a space before the text";

/// A way of llama.cpp to cut texts before the merges (llama-vocab.cpp), by the steps that a tokenizer.json has for it.
struct NamedSteps {
  const char* name;
  std::vector<std::string> steps;
  bool ignores_merges = false;  // a word that is a token isn't merged
  bool takes_nfc = false;       // llama.cpp's converter names tokenizers with NFC so, too
};

const std::vector<NamedSteps>& named_steps() {
  static const std::vector<NamedSteps> all = {
      {"gpt-2", {kGpt2Split, "ByteLevel"}},
      {"smollm", {"Digits, each", kGpt2Split, "ByteLevel"}},
      {"falcon", {"Punctuation, Contiguous", kGpt2Split, "ByteLevel", "Digits", "[0-9][0-9][0-9]"}},
      {"llama-bpe", {kLlama3Split, "ByteLevel"}, true},
      {"smaug-bpe", {kLlama3Split, "ByteLevel"}},
      {"qwen2", {kQwen2Split, "ByteLevel"}, false, true},
  };
  return all;
}

/// Appends the steps of a pre-tokenizer: patterns that split, and names.
void append_steps(const VocabularyJson& json, std::vector<std::string>& steps) {
  if (json.is_null()) return;
  const auto type = json.at("type").get<std::string>();
  if (type == "Sequence") {
    for (const VocabularyJson& step : json.at("pretokenizers")) append_steps(step, steps);
  } else if (type == "Split" && json.value("behavior", "") == "Isolated" && !json.value("invert", false) &&
             json.at("pattern").contains("Regex")) {
    steps.push_back(json.at("pattern").at("Regex").get<std::string>());
  } else if (type == "ByteLevel") {
    if (json.value("use_regex", true)) steps.emplace_back(kGpt2Split);
    steps.emplace_back(json.value("add_prefix_space", true) ? kSpacedBytes : kBytes);
  } else if (type == "Digits") {
    steps.push_back(json.value("individual_digits", false) ? "Digits, each" : "Digits");
  } else if (type == "Punctuation") {
    steps.push_back("Punctuation, " + json.value("behavior", "Isolated"));
  } else {
    steps.push_back(json.dump());
  }
}

/// Returns the steps of the tokenizer.
std::vector<std::string> steps_of(const fs::path& tokenizer, const VocabularyJson& json,
                                  const VocabularyJson& settings) {
  const std::string name = tokenizer::auto_tokenizer_class(tokenizer_directory(tokenizer) / "tokenizer.json");
  const bool adds_space = !settings.is_null() && settings.value("add_prefix_space", VocabularyJson()) == true;
  const char* const bytes = adds_space ? kSpacedBytes : kBytes;
  if (name == "Qwen2Tokenizer") return {kQwen2Split, bytes};
  if (json.is_null() || name == "GPT2Tokenizer" || name == "CodeGenTokenizer" || name == "RobertaTokenizer")
    return {kGpt2Split, bytes};
  std::vector<std::string> steps;
  append_steps(json.value("pre_tokenizer", VocabularyJson()), steps);
  return steps;
}

/// Refuses what llama.cpp lacks beside the merges of bytes.
void check_model(const fs::path& tokenizer, const VocabularyJson& model) {
  if (model.value("type", "BPE") != "BPE") throw not_byte_level(tokenizer, "this one is of another kind");
  for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"})
    if (const VocabularyJson value = model.value(key, VocabularyJson()); !value.is_null() && value != "")
      throw not_byte_level(tokenizer, "this one has model." + std::string(key) + " " + value.dump());
}

/// Returns llama.cpp's name for the way a text is cut before the merges.
std::string pre_tokenizer_of(const fs::path& tokenizer, const VocabularyJson& json, const VocabularyJson& settings) {
  const std::vector<std::string> steps = steps_of(tokenizer, json, settings);
  const bool ignores_merges = !json.is_null() && json.at("model").value("ignore_merges", false);
  const VocabularyJson normalizer = json.is_null() ? VocabularyJson() : json.value("normalizer", VocabularyJson());
  const bool has_nfc = normalizer.is_object() && normalizer.value("type", "") == "NFC";
  if (!json.is_null()) check_model(tokenizer, json.at("model"));
  for (const NamedSteps& known : named_steps()) {
    if (known.steps != steps || known.ignores_merges != ignores_merges) continue;
    if (normalizer.is_null() || (has_nfc && known.takes_nfc)) return known.name;
    throw not_byte_level(tokenizer, "llama.cpp has no normalizer there, and this one has " + normalizer.dump());
  }
  throw not_byte_level(tokenizer, "llama.cpp has no name for the pre-tokenizer " +
                                      (steps.empty() ? "null" : core::list_words(steps, "then")) +
                                      (ignores_merges ? " with ignore_merges" : ""));
}

/// Returns the added tokens by id: whether each is special.
std::map<std::int32_t, bool> added_tokens_of(const fs::path& tokenizer, const VocabularyJson& json,
                                             const VocabularyJson& settings) {
  std::map<std::int32_t, bool> added;
  const auto add = [&](std::int32_t id, const VocabularyJson& token) {
    for (const char* flag : {"single_word", "lstrip", "rstrip"})
      if (token.value(flag, false))
        throw not_byte_level(tokenizer, "the added token " + token.at("content").dump() + " has " + flag +
                                            ", which these files can't express");
    added[id] = token.value("special", false);
  };
  if (!json.is_null())
    for (const VocabularyJson& token : json.value("added_tokens", VocabularyJson::array()))
      add(token.at("id").get<std::int32_t>(), token);
  if (!settings.is_null() && settings.contains("added_tokens_decoder"))
    for (const auto& [id, token] : settings.at("added_tokens_decoder").items()) add(std::stoi(id), token);
  return added;
}

/// Returns one more than the largest id of the vocabulary; the tokens behind it are added ones.
std::int64_t num_words(const fs::path& tokenizer, const VocabularyJson& json) {
  VocabularyJson words;
  if (!json.is_null()) words = json.at("model").at("vocab");
  for (const char* name : {"vocab.json", "encoder.json"})
    if (words.is_null()) words = tokenizer_json(tokenizer, name);
  std::int64_t count = 0;
  for (const auto& [word, id] : words.items()) count = std::max(count, id.get<std::int64_t>() + 1);
  return count;
}

void add_tokens(GgufFile& file, const tokenizer::Tokenizer& tokenizer, const std::map<std::int32_t, bool>& added,
                std::int64_t vocab_size, std::int64_t num_words) {
  std::vector<std::string> tokens;
  std::vector<std::int32_t> types;
  const std::optional<std::int32_t> end = tokenizer.roles().end;
  for (std::int32_t id = 0; id < vocab_size; ++id) {
    std::string token = id < tokenizer.vocab_size() ? tokenizer.token_of(id) : "";
    TokenType type = TokenType::normal;
    if (const auto found = added.find(id); found != added.end())
      type = found->second ? TokenType::control : TokenType::user_defined;
    else if (token.empty())
      type = TokenType::unused;
    else if (id == end || id >= num_words)
      type = TokenType::control;
    if (token.empty()) token = "[PAD" + std::to_string(id) + "]";
    tokens.push_back(std::move(token));
    types.push_back(static_cast<std::int32_t>(type));
  }
  file.set("tokenizer.ggml.tokens", std::move(tokens));
  file.set("tokenizer.ggml.token_type", std::move(types));
}

void add_role_ids(GgufFile& file, const tokenizer::SpecialTokenIds& roles,
                  const std::optional<std::int32_t>& end_of_answer) {
  const auto add = [&](const char* key, const std::optional<std::int32_t>& id) {
    if (id) file.set(std::string("tokenizer.ggml.") + key + "_token_id", static_cast<std::uint32_t>(*id));
  };
  add("bos", roles.begin ? roles.begin : roles.end);
  add("eos", roles.end);
  add("eot", end_of_answer);
  add("padding", roles.pad);
}

/// Adds whether the first and the last token are put around a text.
void add_tokens_around(GgufFile& file, const fs::path& path, const tokenizer::Tokenizer& tokenizer) {
  using tokenizer::SpecialTokens;
  const std::vector<std::int32_t> ids = tokenizer.encode("a", {}).ids;
  const std::vector<std::int32_t> alone = tokenizer.encode("a", {.special_tokens = SpecialTokens::leave_out}).ids;
  for (const bool begins : {false, true})
    for (const bool ends : {false, true}) {
      std::vector<std::int32_t> around = alone;
      if (begins) around.insert(around.begin(), tokenizer.roles().begin.value_or(-1));
      if (ends) around.push_back(tokenizer.roles().end.value_or(-1));
      if (around != ids) continue;
      file.set("tokenizer.ggml.add_bos_token", begins);
      if (ends) file.set("tokenizer.ggml.add_eos_token", true);
      return;
    }
  throw not_byte_level(path, "this one puts other tokens around a text than its first and last");
}

/// Adds chat templates as gguf's writer in Python does: the default, and others by their names.
void add_chat_templates(GgufFile& file, const chat_template::NamedTemplates& templates) {
  constexpr const char* kKey = "tokenizer.chat_template";
  std::vector<std::string> names;
  for (const auto& [name, source] : templates) {
    if (name == chat_template::kDefaultTemplate) {
      file.set(kKey, source);
      continue;
    }
    names.push_back(name);
    for (char& byte : names.back())
      if (std::isalnum(static_cast<unsigned char>(byte)) == 0) byte = '_';
    file.set(std::string(kKey) + "." + names.back(), source);
  }
  if (!names.empty()) file.set("tokenizer.chat_templates", std::move(names));
}

}  // namespace

void add_vocabulary(GgufFile& file, const fs::path& tokenizer, const pretrained::ModelInfo& facts,
                    const chat_template::NamedTemplates& of_training) try {
  const std::unique_ptr<tokenizer::Tokenizer> loaded = tokenizer::load_tokenizer(tokenizer);
  if (loaded->vocab_size() > facts.vocab_size)
    throw core::Error(tokenizer.string() + " has " + std::to_string(loaded->vocab_size()) +
                      " tokens, and the network only " + std::to_string(facts.vocab_size));
  const VocabularyJson json = tokenizer_json(tokenizer, "tokenizer.json");
  const VocabularyJson settings = tokenizer_json(tokenizer, "tokenizer_config.json");
  file.set("tokenizer.ggml.model", std::string("gpt2"));
  file.set("tokenizer.ggml.pre", pre_tokenizer_of(tokenizer, json, settings));
  const std::vector<std::string> merges = merges_of(tokenizer, json);
  add_tokens(file, *loaded, added_tokens_of(tokenizer, json, settings), facts.vocab_size, num_words(tokenizer, json));
  file.set("tokenizer.ggml.merges", merges);
  add_role_ids(file, loaded->roles(), facts.end_of_answer);
  add_tokens_around(file, tokenizer, *loaded);
  add_chat_templates(file,
                     of_training.empty() ? chat_template::read_templates(tokenizer_directory(tokenizer)) : of_training);
} catch (const VocabularyJson::exception& error) {
  throw core::Error(tokenizer.string() + ": tokenizer.json has another form than tokenizers writes: " + error.what());
}

}  // namespace trainctl::exporters
