// Runs SentencePiece models with the sentencepiece library. Tokens that the files beside the model add are found in the
// text first, and the library encodes what is between them.
#include <sentencepiece_processor.h>

#include <array>
#include <limits>
#include <map>

#include "core/error.h"
#include "core/file.h"
#include "core/utf8.h"
#include "tokenizer/formats/formats.h"
#include "tokenizer/formats/side_files.h"
#include "tokenizer/pipeline/char_offsets.h"
#include "tokenizer/post_processor/truncate.h"

namespace trainctl::tokenizer {
namespace {

using sentencepiece::SentencePieceProcessor;

/// Special tokens to put around a text. The model file lacks them; tokenizer_config.json in its directory has them.
struct Around {
  bool begin = true;
  bool end = false;
};

/// Where text gets a space before it: at its first character; or behind each added token, too, always or unless it has
/// one.
enum class PrefixSpace { first, always, unless_there };

/// What the files beside a model add.
struct Additions {
  std::vector<AddedToken> tokens{};
  PrefixSpace prefix_space = PrefixSpace::first;
  SpecialTokenIds roles{};
};

class SentencePiece final : public Tokenizer {
 public:
  /// `continuing` encodes and decodes text that follows an added token; null: there are none.
  SentencePiece(std::unique_ptr<SentencePieceProcessor> processor, std::unique_ptr<SentencePieceProcessor> continuing,
                Around around, Additions additions, std::string fingerprint)
      : processor_(std::move(processor)),
        continuing_(std::move(continuing)),
        around_(around),
        added_(std::move(additions.tokens)),
        finder_(added_, std::make_shared<const Characters>()),
        prefix_space_(additions.prefix_space),
        roles_(additions.roles),
        fingerprint_(std::move(fingerprint)) {
    around_.begin = around_.begin && roles_.begin;
    around_.end = around_.end && roles_.end;
    vocab_size_ = processor_->GetPieceSize();
    for (const AddedToken& token : added_) {
      vocab_size_ = std::max(vocab_size_, static_cast<std::int64_t>(token.id) + 1);
      added_by_id_[static_cast<std::int32_t>(token.id)] = &token;
    }
  }

  Encoding encode(std::string_view text, const EncodeOptions& options) const override {
    std::vector<PartEncoding> parts;
    parts.push_back(encode_text(text, 0));
    return finish(std::move(parts), options);
  }

  Encoding encode_pair(std::string_view first, std::string_view second, const EncodeOptions& options) const override {
    std::vector<PartEncoding> parts;
    parts.push_back(encode_text(first, 0));
    parts.push_back(encode_text(second, 1));
    return finish(std::move(parts), options);
  }

  void append_ids(std::string_view text, std::vector<std::int32_t>& ids) const override {
    const std::string whole = valid(text);
    for (const Piece& part : parts_of(whole)) {
      if (part.token != kNoToken) {
        ids.push_back(static_cast<std::int32_t>(added(part).id));
        continue;
      }
      std::vector<int> found;
      const auto status = processor_of(part, whole).Encode(part.text, &found);
      if (!status.ok()) throw core::Error("sentencepiece: " + status.ToString());
      ids.insert(ids.end(), found.begin(), found.end());
    }
  }

  std::string decode(std::span<const std::int32_t> ids, SpecialTokens special_tokens) const override {
    std::string text;
    std::vector<int> run;
    bool follows_added = false;
    const auto flush = [&] {
      if (!run.empty()) text += (follows_added ? *continuing_ : *processor_).DecodeIds(run);
      run.clear();
    };
    for (const std::int32_t id : ids) {
      if (const auto found = added_by_id_.find(id); found != added_by_id_.end()) {
        flush();
        if (special_tokens == SpecialTokens::add || !found->second->special) text += found->second->content;
        follows_added = !text.empty();
        continue;
      }
      if (id < 0 || id >= processor_->GetPieceSize()) continue;
      if (!processor_->IsControl(id)) {
        run.push_back(id);
      } else if (special_tokens == SpecialTokens::add) {
        flush();
        text += processor_->IdToPiece(id);
      }
    }
    flush();
    return text;
  }

  std::int64_t vocab_size() const override { return vocab_size_; }

  std::optional<std::int32_t> id_of(std::string_view token) const override {
    for (const AddedToken& one : added_)
      if (one.content == token) return static_cast<std::int32_t>(one.id);
    const int id = processor_->PieceToId(token);  // the id of <unk> if the token is unknown
    if (id < 0 || id >= processor_->GetPieceSize() || processor_->IdToPiece(id) != token) return std::nullopt;
    return id;
  }
  std::string token_of(std::int32_t id) const override {
    if (const auto found = added_by_id_.find(id); found != added_by_id_.end()) return found->second->content;
    return id < 0 || id >= processor_->GetPieceSize() ? std::string() : processor_->IdToPiece(id);
  }

  SpecialTokenIds roles() const override { return roles_; }
  std::string fingerprint() const override { return fingerprint_; }

 private:
  static std::string valid(std::string_view text) {
    if (text.size() >= std::numeric_limits<std::int32_t>::max())
      throw core::Error("a text of " + std::to_string(text.size()) + " bytes is too long to tokenize in one piece");
    return core::valid_utf8(text) ? std::string(text) : core::replace_invalid(text);
  }

  /// Returns the added tokens of a text and what is between them.
  std::vector<Piece> parts_of(std::string_view text) const {
    std::vector<Piece> parts;
    if (finder_.empty())
      parts.push_back({.text = text});
    else
      finder_.split({.text = text}, parts);
    return parts;
  }
  const AddedToken& added(const Piece& part) const { return added_[static_cast<std::size_t>(part.token)]; }
  const SentencePieceProcessor& processor_of(const Piece& part, std::string_view whole) const {
    if (part.text.data() == whole.data() || prefix_space_ == PrefixSpace::always) return *processor_;
    const bool has_space = part.text.starts_with(' ') || part.text.starts_with("\u2581");
    return prefix_space_ == PrefixSpace::unless_there && !has_space ? *processor_ : *continuing_;
  }

  PartEncoding encode_text(std::string_view given, std::int32_t type_id) const {
    const std::string text = valid(given);
    const CharOffsets offsets(text);
    PartEncoding result;
    Encoding& encoding = result.encoding;
    std::int32_t word = -1;
    const auto add = [&](std::uint32_t id, std::size_t begin, std::size_t end) {
      encoding.ids.push_back(static_cast<std::int32_t>(id));
      encoding.offsets.push_back(
          {offsets.before(static_cast<std::uint32_t>(begin)), offsets.before(static_cast<std::uint32_t>(end))});
      encoding.words.push_back(word);
    };
    for (const Piece& part : parts_of(text)) {
      const auto origin = static_cast<std::size_t>(part.text.data() - text.data());
      if (part.token != kNoToken) {
        ++word;
        add(added(part).id, origin, origin + part.text.size());
        continue;
      }
      const sentencepiece::ImmutableSentencePieceText pieces =
          processor_of(part, text).EncodeAsImmutableProto(part.text);
      for (std::size_t i = 0; i < pieces.pieces_size(); ++i) {
        const auto piece = pieces.pieces(static_cast<int>(i));
        word += piece.piece().starts_with("\u2581") || i == 0 ? 1 : 0;
        add(piece.id(), origin + piece.begin(), origin + piece.end());
      }
    }
    encoding.type_ids.assign(encoding.ids.size(), type_id);
    encoding.is_special.assign(encoding.ids.size(), 0);
    return result;
  }

  Encoding finish(std::vector<PartEncoding> parts, const EncodeOptions& options) const {
    const bool adds = options.special_tokens == SpecialTokens::add;
    const std::int64_t each = adds ? (around_.begin ? 1 : 0) + (around_.end ? 1 : 0) : 0;
    if (options.max_length) truncate(parts, *options.max_length - each * static_cast<std::int64_t>(parts.size()));
    Encoding result;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const auto special = [&](int id) {
        append_encoding(result, {{id}, {static_cast<std::int32_t>(i)}, {{0, 0}}, {-1}, {1}});
      };
      if (adds && around_.begin) special(*roles_.begin);
      append_encoding(result, parts[i].encoding);
      if (adds && around_.end) special(*roles_.end);
    }
    return result;
  }

  std::unique_ptr<SentencePieceProcessor> processor_;  // const members are thread-safe
  std::unique_ptr<SentencePieceProcessor> continuing_;
  Around around_;
  std::vector<AddedToken> added_;
  std::map<std::int32_t, const AddedToken*> added_by_id_;
  TokenFinder finder_;
  PrefixSpace prefix_space_;
  SpecialTokenIds roles_;
  std::int64_t vocab_size_ = 0;
  std::string fingerprint_;
};

std::optional<std::uint32_t> piece_id(const SentencePieceProcessor& processor, std::string_view token) {
  const int id = processor.PieceToId(token);  // the id of <unk> if the token is unknown
  if (id < 0 || id >= processor.GetPieceSize() || processor.IdToPiece(id) != token) return std::nullopt;
  return static_cast<std::uint32_t>(id);
}

/// Returns the tokenizer.json of a Unigram model beside the file; null: there is none.
Json unigram_beside(const std::filesystem::path& path) {
  const std::filesystem::path file = path.parent_path() / "tokenizer.json";
  constexpr std::uint64_t kMost = std::uint64_t{1} << 30;
  if (!std::filesystem::exists(file)) return nullptr;
  Json json = parse_json(file, core::read_file(file, kMost));
  const bool is_unigram = json.is_object() && json.contains("model") && json["model"].is_object() &&
                          json["model"].value("type", Json()) == "Unigram";
  return is_unigram ? json : Json();
}

/// Refuses a tokenizer.json whose ids are of other pieces, as those of XLM-RoBERTa are.
void require_same_ids(const Json& unigram, const SentencePieceProcessor& processor, const std::filesystem::path& path) {
  const Json vocabulary = unigram["model"].value("vocab", Json::array());
  const std::size_t count = std::min(vocabulary.size(), static_cast<std::size_t>(processor.GetPieceSize()));
  for (std::size_t id = 0; id < count; ++id) {
    const Json& entry = vocabulary[id];
    const std::string& here = processor.IdToPiece(static_cast<int>(id));
    if (entry.is_array() && !entry.empty() && entry[0] == here) continue;
    throw core::Error(path.string() + ": id " + std::to_string(id) + " is " + here + ", and " +
                      (entry.is_array() && !entry.empty() ? entry[0].dump() : entry.dump()) +
                      " in tokenizer.json, which transformers reads; a Unigram model is read from its .model alone")
        .hint(
            "use a model whose tokenizer.json has BPE or WordPiece, or remove tokenizer.json if its ids aren't meant");
  }
}

/// Returns the tokens of tokenizer.json, with its ids.
std::vector<AddedToken> added_in(const Json& unigram, const std::filesystem::path& path) {
  std::vector<AddedToken> tokens;
  if (!unigram.contains("added_tokens")) return tokens;
  const JsonCursor json(unigram, (path.parent_path() / "tokenizer.json").string() + ": ");
  for (const JsonCursor& part : json.at("added_tokens").list()) {
    AddedToken token;
    token.content = token.pattern = part.text("content");
    if (token.content.empty()) continue;
    token.id = part.at("id").id();
    token.single_word = part.flag_or("single_word", false);
    token.left_strip = part.flag_or("lstrip", false);
    token.right_strip = part.flag_or("rstrip", false);
    token.special = part.flag_or("special", false);
    tokens.push_back(std::move(token));
  }
  return tokens;
}

/// Adds T5's sentinels: the last of them has the first id behind the pieces. A network in the same directory that has
/// no rows for them is one without sentinels.
void add_sentinels(const std::filesystem::path& path, const Json& config, const SentencePieceProcessor& processor,
                   std::vector<AddedToken>& tokens) {
  constexpr std::int64_t kUsual = 100;
  constexpr std::int64_t kMost = 10'000;
  const auto written = config.find("extra_ids");
  const bool is_given = written != config.end() && written->is_number_integer();
  const std::int64_t count = is_given ? written->get<std::int64_t>() : kUsual;
  const Json rows = model_config_beside(path).value("vocab_size", Json());
  if (rows.is_number_integer() && processor.GetPieceSize() + count > rows.get<std::int64_t>()) return;
  auto next = static_cast<std::uint32_t>(processor.GetPieceSize());
  for (std::int64_t i = std::min(count, kMost) - 1; i >= 0; --i) {
    AddedToken token;
    token.content = token.pattern = "<extra_id_" + std::to_string(i) + ">";
    const auto known = piece_id(processor, token.content);
    token.id = known ? *known : next++;
    token.special = true;
    tokens.push_back(std::move(token));
  }
}

constexpr UsualToken kLlamaTokens[] = {{"bos_token", "<s>"}, {"eos_token", "</s>"}, {"unk_token", "<unk>"}};
constexpr UsualToken kT5Tokens[] = {{"eos_token", "</s>"}, {"unk_token", "<unk>"}, {"pad_token", "<pad>"}};

SpecialTokenIds roles_in(const SentencePieceProcessor& processor) {
  const auto role = [](int id) { return id < 0 ? std::nullopt : std::optional<std::int32_t>(id); };
  const auto mask = piece_id(processor, "<mask>");
  return {role(processor.pad_id()), role(processor.unk_id()), role(processor.bos_id()), role(processor.eos_id()),
          mask ? std::optional(static_cast<std::int32_t>(*mask)) : std::nullopt};
}

Additions additions_beside(const std::filesystem::path& path, const Json& config,
                           const SentencePieceProcessor& processor) {
  Additions found{.roles = roles_in(processor)};
  const std::string type = tokenizer_class_beside(path, config);
  constexpr std::array<std::string_view, 4> kRead = {"LlamaTokenizer", "T5Tokenizer", "GemmaTokenizer",
                                                     "PreTrainedTokenizer"};
  require_class(type, kRead, path, "SentencePiece model", "use a model of one of these, or one with BPE or WordPiece");
  const bool is_t5 = type == "T5Tokenizer";
  const bool is_legacy = config.value("legacy", Json()) == true;
  if (is_legacy) found.prefix_space = PrefixSpace::unless_there;
  if (is_t5) found.prefix_space = PrefixSpace::always;
  const Json unigram = unigram_beside(path);
  if (!unigram.is_null()) {
    require_same_ids(unigram, processor, path);
    found.tokens = added_in(unigram, path);
  } else if (is_t5) {
    add_sentinels(path, config, processor, found.tokens);
  }
  const KnownTokens known{.find = [&](std::string_view token) { return piece_id(processor, token); },
                          .size = static_cast<std::uint32_t>(processor.GetPieceSize())};
  const std::vector<SideToken> beside = side_tokens_with_ids(path, config);
  // A model without files beside it is read as the library reads it.
  if (!beside.empty() || !config.empty() || !found.tokens.empty())
    add_side_tokens(side_tokens(path, config, is_t5 ? std::span<const UsualToken>(kT5Tokens) : kLlamaTokens), known,
                    /*normalizer=*/nullptr, found.tokens);
  set_roles(config, known, found.tokens, found.roles);
  return found;
}

/// Loads the model for text that goes on: without a space put before it, or removed from it.
std::unique_ptr<SentencePieceProcessor> continuing_processor(const std::string& bytes) {
  // A second normalizer_spec (field 3 of ModelProto) is merged with the first: add_dummy_prefix (3) and
  // remove_extra_whitespaces (4) become false.
  constexpr std::string_view kContinues("\x1a\x04\x18\x00\x20\x00", 6);
  auto processor = std::make_unique<SentencePieceProcessor>();
  const auto status = processor->LoadFromSerializedProto(bytes + std::string(kContinues));
  if (!status.ok()) throw core::Error("sentencepiece: " + status.ToString());
  return processor;
}

}  // namespace

std::unique_ptr<Tokenizer> read_sentence_piece(const std::filesystem::path& path, const std::string& bytes) {
  auto processor = std::make_unique<SentencePieceProcessor>();
  const auto status = processor->LoadFromSerializedProto(bytes);
  if (!status.ok() || processor->GetPieceSize() == 0)
    throw core::Error(path.string() + " is neither a SentencePiece model nor a list of ranks: " + status.ToString());
  const Json config = config_beside(path);
  const auto flag = [&](const char* key, bool fallback) {
    const auto found = config.find(key);
    return found != config.end() && found->is_boolean() ? found->get<bool>() : fallback;
  };
  const Around around{flag("add_bos_token", true), flag("add_eos_token", false)};
  Additions additions = additions_beside(path, config, *processor);
  auto continuing = additions.tokens.empty() ? nullptr : continuing_processor(bytes);
  std::string fingerprint =
      "sentencepiece:" + core::checksum(std::string_view(bytes)) + fingerprint_of(additions.tokens);
  if (!additions.tokens.empty()) fingerprint += std::to_string(static_cast<int>(additions.prefix_space));
  return std::make_unique<SentencePiece>(std::move(processor), std::move(continuing), around, std::move(additions),
                                         std::move(fingerprint));
}

}  // namespace trainctl::tokenizer
