// Reads tokenizers that have no tokenizer.json: vocab.txt, encoder.json with vocab.bpe, and the byte tokenizer, which
// has no file.
#include <algorithm>
#include <array>
#include <span>

#include "core/error.h"
#include "core/file.h"
#include "core/utf8.h"
#include "tokenizer/formats/class_pipeline.h"
#include "tokenizer/formats/formats.h"
#include "tokenizer/formats/side_files.h"
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

/// Adds the tokens of the files beside the vocabulary, sets roles, and appends to `fingerprint` what was added.
void finish(PipelineParts& parts, const fs::path& path, const Json& config, std::span<const UsualToken> usual,
            std::string fingerprint) {
  const Vocabulary& vocabulary = parts.model->vocabulary();
  const KnownTokens known{.find = [&](std::string_view token) { return vocabulary.find(token); },
                          .size = static_cast<std::uint32_t>(vocabulary.size())};
  std::vector<AddedToken> expected;
  for (const UsualToken& one : usual) {
    const bool is_listed = std::any_of(expected.begin(), expected.end(),
                                       [&](const AddedToken& token) { return token.content == one.content; });
    if (const auto id = vocabulary.find(one.content); id && !is_listed)
      expected.push_back(special_token(*id, std::string(one.content)));
  }
  add_side_tokens(side_tokens(path, config, usual), known, parts.normalizer.get(), parts.added);
  const auto as_expected = [](const std::vector<AddedToken>& tokens) {
    std::vector<AddedToken> sorted = tokens;
    std::sort(sorted.begin(), sorted.end(), [](const AddedToken& a, const AddedToken& b) { return a.id < b.id; });
    return fingerprint_of(sorted);
  };
  // Vocabularies alone keep the fingerprint of texts that are prepared already.
  if (as_expected(parts.added) != as_expected(expected)) fingerprint += as_expected(parts.added);
  parts.roles = roles_by_name(vocabulary, parts.added, parts.model->unknown());
  set_roles(config, usual, known, parts.added, parts.roles);
  parts.truncation_side = truncation_side(path, config);
  parts.fingerprint = std::move(fingerprint);
}

/// How a class of transformers splits text and what it puts around it, for a vocab.json with merges.
struct ByteLevelClass {
  bool is_qwen = false;
  bool is_roberta = false;
  bool adds_prefix_space = false;
};

ByteLevelClass byte_level_class(const fs::path& path, const Json& config) {
  constexpr std::array<std::string_view, 3> kRead = {"GPT2Tokenizer", "Qwen2Tokenizer", "RobertaTokenizer"};
  const std::string name = auto_tokenizer_class(path, config);
  require_class(name, kRead, path, "vocab.json with merges");
  const ByteLevelClass found{.is_qwen = name == "Qwen2Tokenizer",
                             .is_roberta = name == "RobertaTokenizer",
                             .adds_prefix_space = flag_or(config, "add_prefix_space", false)};
  const auto refuse = [&](const char* key, const char* why) {
    throw core::Error((path.parent_path() / "tokenizer_config.json").string() + ": " + key + " is true, and " + why)
        .hint(std::string(kSaveAsJson));
  };
  if (found.is_qwen && found.adds_prefix_space) refuse("add_prefix_space", "Qwen's pieces have no space before them");
  if (flag_or(config, "add_eos_token", false)) refuse("add_eos_token", "no token is put behind these texts");
  return found;
}

/// Byte-level BPE that splits text as the class does.
PipelineParts byte_level_parts(const ByteLevelClass& how) {
  PipelineParts parts;
  parts.characters = std::make_shared<const Characters>();
  if (how.is_qwen) {
    parts.normalizer = unicode_normalizer(NormalForm::nfc);
    parts.pre_tokenizers.push_back(pattern_pre_tokenizer(llama3_pattern(parts.characters, /*max_digits=*/1)));
  } else if (how.adds_prefix_space) {
    const Json step = {{"type", "ByteLevel"}, {"add_prefix_space", true}, {"use_regex", true}};
    parts.pre_tokenizers = read_pre_tokenizers(JsonCursor(step, "ByteLevel"), parts.characters).steps;
  } else {
    parts.pre_tokenizers.push_back(pattern_pre_tokenizer(gpt2_pattern(parts.characters)));
  }
  parts.decoder = byte_level_decoder();
  return parts;
}

/// Returns the id of a token with a role; an Error if neither the vocabulary nor a file beside it has one.
std::uint32_t id_with_role(const PipelineParts& parts, const std::string& content, const fs::path& path) {
  for (const AddedToken& token : parts.added)
    if (token.content == content) return token.id;
  if (const auto id = parts.model->vocabulary().find(content)) return *id;
  throw core::Error(path.string() + " has no token " + content + ", which is put around texts");
}

/// Returns what the class puts around texts; null: nothing.
std::unique_ptr<PostProcessor> tokens_around(const PipelineParts& parts, const ByteLevelClass& how,
                                             const fs::path& path, const Json& config) {
  const auto content = [&](const char* key, const char* usual) { return needed_token(config, key, usual, path); };
  if (how.is_roberta) {
    const std::string begin = content("cls_token", "<s>");
    const std::string end = content("sep_token", "</s>");
    const Json step = {{"type", "RobertaProcessing"},
                       {"sep", {end, id_with_role(parts, end, path)}},
                       {"cls", {begin, id_with_role(parts, begin, path)}},
                       {"trim_offsets", flag_or(config, "trim_offsets", true)},
                       {"add_prefix_space", how.adds_prefix_space}};
    return read_post_processor(JsonCursor(step, "RobertaProcessing"));
  }
  if (!flag_or(config, "add_bos_token", false)) return nullptr;
  return begin_template(id_with_role(parts, content("bos_token", "<|endoftext|>"), path));
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
  const Json config = config_beside(path);
  constexpr std::array<std::string_view, 2> kRead = {"BertTokenizer", "PreTrainedTokenizer"};
  require_class(auto_tokenizer_class(path, config), kRead, path, "vocab.txt");
  const auto content = [&](const char* key, const char* usual) { return needed_token(config, key, usual, path); };
  options.unknown = content("unk_token", "[UNK]");
  const std::string begin = content("cls_token", "[CLS]");
  const std::string end = content("sep_token", "[SEP]");
  for (const std::string& needed : {options.unknown, begin, end})
    if (!options.vocabulary.find(needed)) throw core::Error(path.string() + " has no line " + needed);

  BertNormalizerOptions normalizer;
  normalizer.lowercase = flag_or(config, "do_lower_case", true);
  normalizer.handle_chinese_chars = flag_or(config, "tokenize_chinese_chars", true);
  normalizer.strip_accents = flag_or(config, "strip_accents", normalizer.lowercase);

  PipelineParts parts;
  parts.characters = std::make_shared<const Characters>();
  parts.normalizer = bert_normalizer(normalizer, parts.characters);
  parts.pre_tokenizers.push_back(bert_pre_tokenizer(parts.characters));
  parts.post_processor = bert_template(*options.vocabulary.find(begin), *options.vocabulary.find(end));
  parts.decoder = word_piece_decoder("##");
  parts.model = word_piece_model(std::move(options));
  parts.cleans_up = cleans_up_text(config);
  const std::string flags{normalizer.lowercase ? 'l' : 'L', normalizer.handle_chinese_chars ? 'c' : 'C',
                          normalizer.strip_accents ? 'a' : 'A'};
  finish(parts, path, config, usual_tokens_of("BertTokenizer"),
         "vocab.txt:" + flags + ":" + core::checksum(std::string_view(all)));
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
  const Json config = config_beside(vocab);
  const ByteLevelClass how = byte_level_class(vocab, config);
  PipelineParts parts = byte_level_parts(how);
  if (!has_bytes) parts.pre_tokenizers.push_back(byte_chars_pre_tokenizer());
  parts.model = bpe_model(std::move(options));
  const std::string name = how.is_qwen ? "Qwen2Tokenizer" : how.is_roberta ? "RobertaTokenizer" : "GPT2Tokenizer";
  const std::span<const UsualToken> usual = usual_tokens_of(name);
  std::string form = "bpe";
  if (how.is_qwen) form += "-qwen";
  if (how.is_roberta) form += "-roberta";
  if (how.adds_prefix_space) form += "-prefix";
  if (flag_or(config, "add_bos_token", false)) form += "-begin";
  finish(parts, vocab, config, usual, form + ":" + core::checksum(std::string_view(all)));
  parts.post_processor = tokens_around(parts, how, vocab, config);
  require_plain_special_tokens(parts.added, name, vocab);
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
  PipelineParts parts = byte_level_parts({});
  parts.model = bpe_model(std::move(options));
  parts.added.push_back(special_token(256, "<|endoftext|>"));
  parts.roles = roles_by_name(parts.model->vocabulary(), parts.added, parts.model->unknown());
  parts.fingerprint = "bytes";
  return make_pipeline(std::move(parts));
}

}  // namespace trainctl::tokenizer
