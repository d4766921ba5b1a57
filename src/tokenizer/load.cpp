#include <array>

#include "core/error.h"
#include "core/file.h"
#include "core/json.h"
#include "tokenizer/formats/formats.h"

namespace trainctl::tokenizer {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kMaxFileBytes = std::uint64_t{1} << 30;

/// Finds merges.txt or vocab.bpe in the vocabulary's directory.
fs::path merges_beside(const fs::path& vocab) {
  for (const char* const name : {"merges.txt", "vocab.bpe"})
    if (fs::exists(vocab.parent_path() / name)) return vocab.parent_path() / name;
  throw core::Error(vocab.string() + " is a vocabulary without merges").hint("put merges.txt or vocab.bpe beside it");
}

/// Whether a tokenizer.json has a Unigram model, which only the SentencePiece model beside it tells here.
bool has_unigram(const fs::path& path) {
  const Json json = parse_json(path, core::read_file(path, kMaxFileBytes));
  const auto model = json.find("model");
  return model != json.end() && model->is_object() && model->contains("type") && (*model)["type"] == "Unigram";
}

fs::path find_in(const fs::path& directory) {
  if (const fs::path json = directory / "tokenizer.json"; fs::exists(json))
    for (const char* const name : {"spiece.model", "sentencepiece.bpe.model", "tokenizer.model"})
      if (fs::exists(directory / name) && has_unigram(json)) return directory / name;
  constexpr std::array kNames{"tokenizer.json",  "vocab.json",   "encoder.json",           "vocab.txt",
                              "tokenizer.model", "spiece.model", "sentencepiece.bpe.model"};
  for (const char* const name : kNames)
    if (fs::exists(directory / name)) return directory / name;
  throw core::Error("no tokenizer in the directory " + directory.string())
      .hint("tokenizer.json, vocab.json with merges.txt, encoder.json with vocab.bpe, vocab.txt or tokenizer.model");
}

std::unique_ptr<Tokenizer> load_json(const fs::path& path, const std::string& bytes) {
  const Json json = parse_json(path, bytes);
  if (json.is_object() && json.contains("model") && json["model"].is_object()) return read_tokenizer_json(path, bytes);
  const auto first = json.is_object() && !json.empty() ? json.begin() : json.end();
  if (!json.is_object() || json.empty() || !first->is_number())
    throw core::Error(path.string() +
                      " is neither a tokenizer.json (with a key 'model') nor a vocabulary of tokens and ids");
  return read_vocab_and_merges(path, merges_beside(path));
}

}  // namespace

std::unique_ptr<Tokenizer> load_tokenizer(const fs::path& given) {
  const fs::path path = fs::is_directory(given) ? find_in(given) : given;
  const std::string name = path.filename().string();
  if (name.ends_with(".txt") && name != "merges.txt") return read_vocab_txt(path);
  if (name == "merges.txt" || name.ends_with(".bpe"))
    throw core::Error(path.string() + " holds only merges").hint("name the vocab.json or encoder.json beside it");
  const std::string bytes = core::read_file(path, kMaxFileBytes);
  if (name.ends_with(".json")) return load_json(path, bytes);
  return is_tiktoken(bytes) ? read_tiktoken(path, bytes) : read_sentence_piece(path, bytes);
}

Json parse_json(const fs::path& path, const std::string& bytes) {
  try {
    return core::parse_json(bytes, path.string());
  } catch (const Json::exception& error) {
    throw core::Error(path.string() + " is not valid JSON: " + core::as_error(error).what());
  }
}

}  // namespace trainctl::tokenizer
