#include <algorithm>
#include <set>
#include <unordered_map>

#include "core/file.h"
#include "core/json.h"
#include "tokenizer/formats/class_pipeline.h"
#include "tokenizer/formats/formats.h"
#include "tokenizer/formats/side_files.h"
#include "tokenizer/pipeline/pipeline.h"

namespace trainctl::tokenizer {
namespace {

/// Gives added tokens the ids that the `tokenizers` package gives them: the vocabulary's id, else the next free one.
std::vector<AddedToken> read_added_tokens(const JsonCursor& json, const Vocabulary& vocabulary,
                                          const Normalizer* normalizer) {
  std::vector<AddedToken> tokens;
  std::unordered_map<std::string, std::size_t> places;
  std::uint32_t next = static_cast<std::uint32_t>(vocabulary.size());
  for (const JsonCursor& part : json.list()) {
    AddedToken token;
    token.content = part.text("content");
    if (token.content.empty()) continue;
    token.single_word = part.flag_or("single_word", false);
    token.left_strip = part.flag_or("lstrip", false);
    token.right_strip = part.flag_or("rstrip", false);
    token.special = part.flag_or("special", false);
    token.normalized = part.flag_or("normalized", !token.special);
    token.pattern = token.normalized ? normalized(normalizer, token.content) : token.content;
    const auto [same, is_new] = places.emplace(token.content, tokens.size());
    if (!is_new) {
      token.id = tokens[same->second].id;
      tokens[same->second] = std::move(token);
      continue;
    }
    if (const auto id = vocabulary.find(token.content))
      token.id = *id;
    else
      token.id = next++;
    if (token.id > kMaxTokenId) throw part.error("too many tokens");
    tokens.push_back(std::move(token));
  }
  return tokens;
}

/// Takes the pad token of tokenizer.json's padding, unless a file beside names one or the class has its own, or none.
void take_padding_token(const Json& document, std::string_view tokenizer_class, Json& config) {
  const bool has_own = tokenizer_class == "GPT2Tokenizer" || tokenizer_class == "CodeGenTokenizer" ||
                       std::ranges::any_of(usual_tokens_of(tokenizer_class), [](const UsualToken& one) {
                         return std::string_view(one.key) == "pad_token";
                       });
  const std::string token = core::text_member(core::object_member(document, "padding"), "pad_token");
  if (!has_own && !token.empty() && !config.contains("pad_token")) config["pad_token"] = token;
}

/// Returns null if the key is missing.
JsonCursor part_or_null(const JsonCursor& json, std::string_view key) {
  static const Json kNull;
  return json.has(key) ? json.at(key) : JsonCursor(kNull, json.where() + std::string(key));
}

}  // namespace

std::unique_ptr<Tokenizer> read_tokenizer_json(const std::filesystem::path& path, const std::string& bytes) {
  Json document = parse_json(path, bytes);
  Json config = config_beside(path);
  const std::string tokenizer_class = auto_tokenizer_class(path, config);
  take_padding_token(document, tokenizer_class, config);
  const std::string other_pipeline = take_pipeline_of_class(document, config, tokenizer_class, path);
  const JsonCursor json(document, path.string() + ": ");
  PipelineParts parts;
  parts.characters = std::make_shared<const Characters>();
  parts.normalizer = read_normalizer(part_or_null(json, "normalizer"), parts.characters);
  PreTokenization splitting = read_pre_tokenizers(part_or_null(json, "pre_tokenizer"), parts.characters);
  const bool had_byte_level = splitting.byte_level;
  parts.model = read_model(json.at("model"), splitting.byte_level);
  parts.pre_tokenizers = std::move(splitting.steps);
  if (had_byte_level && !splitting.byte_level) parts.pre_tokenizers.push_back(byte_chars_pre_tokenizer());
  parts.post_processor = read_post_processor(part_or_null(json, "post_processor"));
  parts.decoder = read_decoder(part_or_null(json, "decoder"), parts.characters);
  if (json.has("added_tokens"))
    parts.added = read_added_tokens(json.at("added_tokens"), parts.model->vocabulary(), parts.normalizer.get());
  const Vocabulary& vocabulary = parts.model->vocabulary();
  const KnownTokens known{.find = [&](std::string_view token) { return vocabulary.find(token); },
                          .size = static_cast<std::uint32_t>(vocabulary.size())};
  const std::size_t num_own = parts.added.size();
  const std::string own_fingerprint = fingerprint_of(parts.added);
  const std::span<const UsualToken> usual = usual_tokens_of(tokenizer_class);
  const std::set<std::string> with_roles = contents_with_roles(config, usual);
  for (AddedToken& token : parts.added) token.special = token.special || with_roles.contains(token.content);
  add_side_tokens(side_tokens(path, config, usual), known, parts.normalizer.get(), parts.added);
  require_plain_special_tokens(parts.added, tokenizer_class, path);
  parts.roles = roles_by_name(vocabulary, parts.added, parts.model->unknown());
  set_roles(config, usual, known, parts.added, parts.roles);
  const bool cuts_left = json.has("truncation") && json.at("truncation").text_or("direction", "Right") == "Left";
  parts.truncation_side = truncation_side(path, config, cuts_left ? TruncationSide::left : TruncationSide::right);
  parts.cleans_up = cleans_up_text(config) && !document["model"].contains("merges");
  std::string changes = fingerprint_of({parts.added.begin() + static_cast<std::ptrdiff_t>(num_own), parts.added.end()});
  const std::vector<AddedToken> own(parts.added.begin(), parts.added.begin() + static_cast<std::ptrdiff_t>(num_own));
  if (fingerprint_of(own) != own_fingerprint) changes += ":own" + fingerprint_of(own);
  parts.is_changed_by_side_files = !other_pipeline.empty() || !changes.empty();
  parts.fingerprint = "tokenizer.json:" + core::checksum(std::string_view(bytes)) + changes;
  if (!other_pipeline.empty()) parts.fingerprint += ":" + core::checksum(std::string_view(other_pipeline));
  return make_pipeline(std::move(parts));
}

SpecialTokenIds roles_by_name(const Vocabulary& vocabulary, const std::vector<AddedToken>& added,
                              std::optional<std::uint32_t> unknown) {
  const auto first_of = [&](std::initializer_list<std::string_view> names) -> std::optional<std::int32_t> {
    for (const std::string_view name : names) {
      if (const auto id = vocabulary.find(name)) return static_cast<std::int32_t>(*id);
      for (const AddedToken& token : added)
        if (token.content == name) return static_cast<std::int32_t>(token.id);
    }
    return std::nullopt;
  };
  SpecialTokenIds roles;
  roles.pad = first_of({"[PAD]", "<pad>", "<|pad|>", "<|finetune_right_pad_id|>"});
  roles.unknown = unknown ? std::optional(static_cast<std::int32_t>(*unknown)) : first_of({"[UNK]", "<unk>"});
  roles.begin = first_of({"[CLS]", "<s>", "<|begin_of_text|>", "<bos>", "<|startoftext|>"});
  roles.end = first_of({"[SEP]", "</s>", "<|end_of_text|>", "<|endoftext|>", "<eos>"});
  roles.mask = first_of({"[MASK]", "<mask>"});
  return roles;
}

}  // namespace trainctl::tokenizer
