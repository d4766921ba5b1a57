#include "exporters/gguf/gguf_vocabulary.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>

#include "core/error.h"
#include "core/file.h"
#include "core/json.h"
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

/// Returns llama.cpp's name for the way a text is cut before the merges.
std::string pre_tokenizer_of(const fs::path& tokenizer, const VocabularyJson& json) {
  if (json.is_null()) return "gpt-2";
  const std::string text = json.value("pre_tokenizer", VocabularyJson()).dump();
  const auto has = [&](const char* part) { return text.find(part) != std::string::npos; };
  if (json.at("model").value("type", "BPE") != "BPE" || !has("ByteLevel"))
    throw not_byte_level(tokenizer, "this one is of another kind");
  if (has("\\\\p{N}{1,3}")) return "llama-bpe";
  if (has("\\\\p{N}")) return "qwen2";
  if (has("\"Digits\"")) return "smollm";
  if (has("\"Regex\"")) throw not_byte_level(tokenizer, "llama.cpp has no name for this pre-tokenizer");
  return "gpt-2";
}

/// Returns the added tokens by id: whether each is special.
std::map<std::int32_t, bool> added_tokens_of(const VocabularyJson& json) {
  std::map<std::int32_t, bool> added;
  if (json.is_null()) return added;
  for (const VocabularyJson& token : json.value("added_tokens", VocabularyJson::array()))
    added[token.at("id").get<std::int32_t>()] = token.value("special", false);
  return added;
}

void add_tokens(GgufFile& file, const tokenizer::Tokenizer& tokenizer, const std::map<std::int32_t, bool>& added,
                std::int64_t vocab_size) {
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
    else if (id == end)
      type = TokenType::control;
    if (token.empty()) token = "[PAD" + std::to_string(id) + "]";
    tokens.push_back(std::move(token));
    types.push_back(static_cast<std::int32_t>(type));
  }
  file.set("tokenizer.ggml.tokens", std::move(tokens));
  file.set("tokenizer.ggml.token_type", std::move(types));
}

void add_role_ids(GgufFile& file, const tokenizer::SpecialTokenIds& roles) {
  const auto add = [&](const char* key, const std::optional<std::int32_t>& id) {
    if (id) file.set(std::string("tokenizer.ggml.") + key + "_token_id", static_cast<std::uint32_t>(*id));
  };
  add("bos", roles.begin ? roles.begin : roles.end);
  add("eos", roles.end);
  add("padding", roles.pad);
}

}  // namespace

void add_vocabulary(GgufFile& file, const fs::path& tokenizer, std::int64_t vocab_size) try {
  const std::unique_ptr<tokenizer::Tokenizer> loaded = tokenizer::load_tokenizer(tokenizer);
  if (loaded->vocab_size() > vocab_size)
    throw core::Error(tokenizer.string() + " has " + std::to_string(loaded->vocab_size()) +
                      " tokens, and the network only " + std::to_string(vocab_size));
  const VocabularyJson json = tokenizer_json(tokenizer, "tokenizer.json");
  const VocabularyJson settings = tokenizer_json(tokenizer, "tokenizer_config.json");
  file.set("tokenizer.ggml.model", std::string("gpt2"));
  file.set("tokenizer.ggml.pre", pre_tokenizer_of(tokenizer, json));
  add_tokens(file, *loaded, added_tokens_of(json), vocab_size);
  file.set("tokenizer.ggml.merges", merges_of(tokenizer, json));
  add_role_ids(file, loaded->roles());
  const std::vector<std::int32_t> ids = loaded->encode("a", {}).ids;
  file.set("tokenizer.ggml.add_bos_token",
           !ids.empty() && loaded->roles().begin && ids.front() == *loaded->roles().begin);
  const fs::path chat = tokenizer_directory(tokenizer) / "chat_template.jinja";
  if (fs::is_regular_file(chat))
    file.set("tokenizer.chat_template", core::read_file(chat));
  else if (!settings.is_null() && settings.value("chat_template", VocabularyJson()).is_string())
    file.set("tokenizer.chat_template", settings["chat_template"].get<std::string>());
} catch (const VocabularyJson::exception& error) {
  throw core::Error(tokenizer.string() + ": tokenizer.json has another form than tokenizers writes: " + error.what());
}

}  // namespace trainctl::exporters
