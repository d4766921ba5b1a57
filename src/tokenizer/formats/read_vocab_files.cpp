// Reads tokenizers that have no tokenizer.json: vocab.txt, encoder.json with vocab.bpe, and the byte tokenizer, which
// has no file.
#include <algorithm>

#include "core/error.h"
#include "core/file.h"
#include "core/utf8.h"
#include "tokenizer/formats/formats.h"
#include "tokenizer/pipeline/pipeline.h"
#include "tokenizer/unicode/byte_chars.h"

namespace trainctl::tokenizer {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kMaxVocabFileBytes = std::uint64_t{1} << 30;

std::vector<std::string> read_lines(const fs::path& path) {
  const std::string bytes = core::read_file(path, kMaxVocabFileBytes);
  if (!core::valid_utf8(bytes))
    throw core::Error(path.string() + " is not UTF-8 at byte " + std::to_string(core::valid_prefix(bytes)));
  std::vector<std::string> lines;
  for (std::size_t at = 0; at < bytes.size();) {
    const std::size_t end = std::min(bytes.find('\n', at), bytes.size());
    lines.push_back(bytes.substr(at, end - at));
    if (lines.back().ends_with('\r')) lines.back().pop_back();
    at = end + 1;
  }
  return lines;
}

AddedToken special_token(std::uint32_t id, std::string content) {
  AddedToken token;
  token.id = id;
  token.pattern = token.content = std::move(content);
  token.special = true;
  return token;
}

bool flag_or(const Json& config, const char* key, bool fallback) {
  const auto found = config.find(key);
  return found != config.end() && found->is_boolean() ? found->get<bool>() : fallback;
}

/// Byte-level BPE that splits text as GPT-2 does.
PipelineParts byte_level_parts() {
  PipelineParts parts;
  parts.characters = std::make_shared<const Characters>();
  parts.pre_tokenizers.push_back(pattern_pre_tokenizer(gpt2_pattern(parts.characters)));
  parts.decoder = byte_level_decoder();
  return parts;
}

void finish(PipelineParts& parts, std::string fingerprint) {
  parts.roles = roles_by_name(parts.model->vocabulary(), parts.added, parts.model->unknown());
  parts.fingerprint = std::move(fingerprint);
}

}  // namespace

std::unique_ptr<Tokenizer> read_vocab_txt(const fs::path& path) {
  WordPieceOptions options;
  options.where = path.string();
  std::uint32_t id = 0;
  std::string all;
  for (std::string& line : read_lines(path)) {
    while (!line.empty() && (line.back() == ' ' || line.back() == '\t')) line.pop_back();
    all += line + "\n";
    options.vocabulary.add(std::move(line), id++);
    if (id > kMaxTokenId) throw core::Error(path.string() + " has too many lines");
  }
  options.vocabulary.finish();
  for (const char* const needed : {"[UNK]", "[CLS]", "[SEP]"})
    if (!options.vocabulary.find(needed)) throw core::Error(path.string() + " has no line " + needed);

  const Json config = config_beside(path);
  BertNormalizerOptions normalizer;
  normalizer.lowercase = flag_or(config, "do_lower_case", true);
  normalizer.handle_chinese_chars = flag_or(config, "tokenize_chinese_chars", true);
  normalizer.strip_accents = flag_or(config, "strip_accents", normalizer.lowercase);

  PipelineParts parts;
  parts.characters = std::make_shared<const Characters>();
  parts.normalizer = bert_normalizer(normalizer, parts.characters);
  parts.pre_tokenizers.push_back(bert_pre_tokenizer(parts.characters));
  parts.post_processor = bert_template(*options.vocabulary.find("[CLS]"), *options.vocabulary.find("[SEP]"));
  parts.decoder = word_piece_decoder("##");
  for (const char* const name : {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"})
    if (const auto known = options.vocabulary.find(name)) parts.added.push_back(special_token(*known, name));
  parts.model = word_piece_model(std::move(options));
  const std::string flags{normalizer.lowercase ? 'l' : 'L', normalizer.handle_chinese_chars ? 'c' : 'C',
                          normalizer.strip_accents ? 'a' : 'A'};
  finish(parts, "vocab.txt:" + flags + ":" + core::checksum(std::string_view(all)));
  return make_pipeline(std::move(parts));
}

std::unique_ptr<Tokenizer> read_vocab_and_merges(const fs::path& vocab, const fs::path& merges) {
  const std::string bytes = core::read_file(vocab, kMaxVocabFileBytes);
  const Json json = parse_json(vocab, bytes);
  BpeOptions options;
  options.where = merges.string();
  options.vocabulary = read_vocabulary(JsonCursor(json, vocab.string()));
  std::string all = bytes;
  for (const std::string& line : read_lines(merges)) {
    if (line.starts_with("#version") || line.empty()) continue;
    const std::size_t space = line.find(' ');
    if (space == std::string::npos || line.find(' ', space + 1) != std::string::npos)
      throw core::Error(merges.string() + ": merge " + std::to_string(options.merges.size()) +
                        " is not two texts: " + line);
    options.merges.emplace_back(line.substr(0, space), line.substr(space + 1));
    all += line + "\n";
  }
  const bool has_bytes = has_all_bytes(options.vocabulary);
  options.form = has_bytes ? WordForm::bytes : WordForm::characters;
  PipelineParts parts = byte_level_parts();
  if (!has_bytes) parts.pre_tokenizers.push_back(byte_chars_pre_tokenizer());
  const std::string end = "<|endoftext|>";
  if (const auto id = options.vocabulary.find(end)) parts.added.push_back(special_token(*id, end));
  parts.model = bpe_model(std::move(options));
  finish(parts, "bpe:" + core::checksum(std::string_view(all)));
  return make_pipeline(std::move(parts));
}

std::unique_ptr<Tokenizer> byte_tokenizer() {
  BpeOptions options;
  options.where = "the bytes";
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    const char one = static_cast<char>(byte);
    options.vocabulary.add(bytes_to_chars({&one, 1}), byte);
  }
  options.vocabulary.finish();
  options.form = WordForm::bytes;
  PipelineParts parts = byte_level_parts();
  parts.model = bpe_model(std::move(options));
  parts.added.push_back(special_token(256, "<|endoftext|>"));
  finish(parts, "bytes");
  return make_pipeline(std::move(parts));
}

}  // namespace trainctl::tokenizer
