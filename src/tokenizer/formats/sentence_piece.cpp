// Runs SentencePiece models with the sentencepiece library. Tokens that the files beside the model add are found in the
// text first, and the library encodes what is between them. It normalizes for Unigram models, whose pieces are chosen
// here: versions of the library differ in which of several best paths they take.
#include <sentencepiece_processor.h>

#include <algorithm>
#include <array>
#include <limits>
#include <map>

#include "core/error.h"
#include "core/file.h"
#include "core/utf8.h"
#include "tokenizer/formats/formats.h"
#include "tokenizer/formats/sentence_piece_file.h"
#include "tokenizer/formats/side_files.h"
#include "tokenizer/model/unigram.h"
#include "tokenizer/pipeline/char_offsets.h"
#include "tokenizer/pipeline/pipeline.h"
#include "tokenizer/post_processor/truncate.h"

namespace trainctl::tokenizer {
namespace {

using sentencepiece::SentencePieceProcessor;

/// Special tokens to put around a text. The model file lacks them; tokenizer_config.json in its directory has them.
struct Around {
  bool begin = true;
  bool end = false;
};

/// Where text gets a space before it. The library puts one at the first character of a text, even before a space.
/// Fingerprints have these numbers.
enum class PrefixSpace {
  of_library = 0,
  each_part = 1,
  first_unless_there = 3,  // at the first character, unless it is a space
  each_unless_there = 4,   // behind each added token, too
};

/// What the files beside a model add.
struct Additions {
  std::vector<AddedToken> tokens{};
  PrefixSpace prefix_space = PrefixSpace::of_library;
  SpecialTokenIds roles{};
  TruncationSide truncation_side = TruncationSide::right;
  bool cleans_up = false;
};

/// Returns where the characters of a text begin, and its end.
std::vector<std::uint32_t> character_places(std::string_view text) {
  std::vector<std::uint32_t> places;
  for (std::uint32_t i = 0; i < text.size(); ++i)
    if ((static_cast<unsigned char>(text[i]) & 0xC0U) != 0x80U) places.push_back(i);
  places.push_back(static_cast<std::uint32_t>(text.size()));
  return places;
}

/// A piece, and the bytes of the text that it is of.
struct FoundPiece {
  std::uint32_t id = 0;
  std::uint32_t begin = 0;
  std::uint32_t end = 0;
  bool begins_word = false;
};

/// Normalized text between pieces that are no matter of scores.
struct NormalizedText {
  std::string text{};
  std::vector<std::uint32_t> origins{};  // by byte of the text
  std::vector<FoundPiece> pieces{};      // of the library

  /// Appends a piece, which the library says to be of `surface`, at `piece.begin`. Characters of both are matched from
  /// their ends, since what is put before a text or removed from it is at its start.
  void add(const FoundPiece& piece, std::string_view normalized, std::string_view surface) {
    const std::vector<std::uint32_t> places = character_places(normalized);
    const std::vector<std::uint32_t> surface_places = character_places(surface);
    for (std::size_t i = 0; i + 1 < places.size(); ++i) {
      const std::size_t from_end = std::min(places.size() - 1 - i, surface_places.size() - 1);
      const std::uint32_t origin = piece.begin + surface_places[surface_places.size() - 1 - from_end];
      origins.insert(origins.end(), places[i + 1] - places[i], origin);
    }
    text += normalized;
    pieces.push_back(piece);
  }
};

/// The pieces of a Unigram model, chosen as `tokenizers` chooses them.
class UnigramPieces {
 public:
  UnigramPieces(const SentencePieceFile& file, const SentencePieceProcessor& processor)
      : unknown_(static_cast<std::uint32_t>(processor.unk_id())),
        unigram_(scored(file), unknown_, unknown_score(file)) {
    for (std::size_t id = 0; id < file.pieces.size(); ++id) {
      types_.push_back(file.pieces[id].type);
      if (file.byte_fallback && types_.back() == PieceType::byte)
        bytes_[static_cast<unsigned char>(byte_of(file.pieces[id].text))] = static_cast<std::uint32_t>(id);
    }
  }

  bool is_scored(std::uint32_t id) const {
    return id < types_.size() && types_[id] != PieceType::user_defined && types_[id] != PieceType::control;
  }
  /// Returns the text that a piece of the library stands for.
  std::string normalized(std::uint32_t id, const std::string& piece) const {
    return types_[id] == PieceType::byte ? std::string(1, byte_of(piece)) : piece;
  }
  void append(const NormalizedText& part, std::vector<FoundPiece>& found) const {
    if (part.pieces.empty()) return;
    WordTokens tokens;
    unigram_.tokenize(part.text, tokens);
    if (!bytes_.empty()) fall_back(part.text, tokens);
    const bool are_same = std::ranges::equal(tokens.ids, part.pieces, {}, {}, &FoundPiece::id);
    if (are_same) {
      found.insert(found.end(), part.pieces.begin(), part.pieces.end());
      return;
    }
    std::uint32_t begin = 0;
    for (std::size_t i = 0; i < tokens.ids.size(); ++i) {
      const std::uint32_t end = tokens.ends[i];
      found.push_back({.id = tokens.ids[i],
                       .begin = part.origins[begin],
                       .end = end < part.origins.size() ? part.origins[end] : part.pieces.back().end,
                       .begins_word = std::string_view(part.text).substr(begin).starts_with("\u2581")});
      begin = end;
    }
  }

 private:
  static std::vector<ScoredPiece> scored(const SentencePieceFile& file) {
    std::vector<ScoredPiece> pieces;
    for (std::size_t id = 0; id < file.pieces.size(); ++id) {
      const SentencePieceFile::Piece& piece = file.pieces[id];
      if (piece.type == PieceType::normal || piece.type == PieceType::unused)
        pieces.push_back({.text = piece.text, .id = static_cast<std::uint32_t>(id), .score = piece.score});
    }
    return pieces;
  }
  static double unknown_score(const SentencePieceFile& file) {
    constexpr double kPenalty = 10;
    double least = std::numeric_limits<double>::max();
    for (const SentencePieceFile::Piece& piece : file.pieces) least = std::min(least, double{piece.score});
    return least - kPenalty;
  }
  /// Returns the byte of "<0x0A>".
  static char byte_of(std::string_view piece) {
    constexpr std::size_t kBegin = 3;
    constexpr int kHex = 16;
    return static_cast<char>(std::stoi(std::string(piece.substr(kBegin, 2)), nullptr, kHex));
  }
  /// Writes unknown characters as their bytes.
  void fall_back(std::string_view text, WordTokens& tokens) const {
    WordTokens all;
    std::size_t begin = 0;
    for (std::size_t i = 0; i < tokens.ids.size(); begin = tokens.ends[i++]) {
      if (tokens.ids[i] != unknown_) {
        all.add(tokens.ids[i], tokens.ends[i]);
        continue;
      }
      for (std::size_t at = begin; at < tokens.ends[i]; ++at)
        all.add(bytes_.at(static_cast<unsigned char>(text[at])), at + 1);
    }
    tokens = std::move(all);
  }

  std::uint32_t unknown_;
  Unigram unigram_;
  std::vector<PieceType> types_;                  // by id
  std::map<unsigned char, std::uint32_t> bytes_;  // empty: unknown characters have no bytes
};

class SentencePiece final : public Tokenizer {
 public:
  /// `continuing` encodes and decodes text that follows an added token; null: there are none. `unigram` is null for
  /// other models.
  SentencePiece(std::unique_ptr<SentencePieceProcessor> processor, std::unique_ptr<SentencePieceProcessor> continuing,
                std::unique_ptr<UnigramPieces> unigram, Around around, Additions additions, std::string fingerprint)
      : processor_(std::move(processor)),
        continuing_(std::move(continuing)),
        unigram_(std::move(unigram)),
        around_(around),
        added_(std::move(additions.tokens)),
        finder_(added_, std::make_shared<const Characters>()),
        prefix_space_(additions.prefix_space),
        roles_(additions.roles),
        truncation_side_(additions.truncation_side),
        cleans_up_(additions.cleans_up),
        fingerprint_(std::move(fingerprint)) {
    around_.begin = around_.begin && roles_.begin;
    around_.end = around_.end && roles_.end;
    vocab_size_ = processor_->GetPieceSize();
    for (const AddedToken& token : added_) {
      vocab_size_ = std::max(vocab_size_, static_cast<std::int64_t>(token.id) + 1);
      added_by_id_[static_cast<std::int32_t>(token.id)] = &token;
    }
    fingerprint_ += fingerprint_of_special_tokens(*this);
    if (truncation_side_ == TruncationSide::left) fingerprint_ += ":left";
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
      if (unigram_) {
        for (const FoundPiece& piece : pieces_of(part, whole)) ids.push_back(static_cast<std::int32_t>(piece.id));
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
    bool has_begun = false;  // so that what follows an added token keeps its space
    bool follows_added = false;
    const auto flush = [&] {
      if (run.empty()) return;
      text += (follows_added ? *continuing_ : *processor_).DecodeIds(run);
      has_begun = true;
      run.clear();
    };
    for (const std::int32_t id : ids) {
      if (const auto found = added_by_id_.find(id); found != added_by_id_.end()) {
        flush();
        if (special_tokens == SpecialTokens::add || !found->second->special) text += found->second->content;
        follows_added = has_begun || !text.empty();
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
    return cleans_up_ ? clean_up_tokenization(std::move(text)) : text;
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
  TruncationSide truncation_side() const override { return truncation_side_; }
  std::string fingerprint() const override { return fingerprint_; }
  bool is_changed_by_side_files() const override { return false; }

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
    const bool is_first = part.text.data() == whole.data();
    if (prefix_space_ == PrefixSpace::each_part) return *processor_;
    if (prefix_space_ == PrefixSpace::of_library) return is_first ? *processor_ : *continuing_;
    const bool has_space = part.text.starts_with(' ') || part.text.starts_with("\u2581");
    const bool may_have = is_first || prefix_space_ == PrefixSpace::each_unless_there;
    return may_have && !has_space ? *processor_ : *continuing_;
  }

  /// Returns the pieces of a text between added tokens; their places count from its start.
  std::vector<FoundPiece> pieces_of(const Piece& part, std::string_view whole) const {
    const sentencepiece::ImmutableSentencePieceText pieces =
        processor_of(part, whole).EncodeAsImmutableProto(part.text);
    std::vector<FoundPiece> found;
    NormalizedText scored;
    for (std::size_t i = 0; i < pieces.pieces_size(); ++i) {
      const auto piece = pieces.pieces(static_cast<int>(i));
      const FoundPiece one{.id = piece.id(),
                           .begin = piece.begin(),
                           .end = piece.end(),
                           .begins_word = piece.piece().starts_with("\u2581")};
      if (unigram_ && unigram_->is_scored(one.id)) {
        scored.add(one, unigram_->normalized(one.id, piece.piece()), part.text.substr(one.begin, one.end - one.begin));
        continue;
      }
      if (unigram_) unigram_->append(std::exchange(scored, {}), found);
      found.push_back(one);
    }
    if (unigram_) unigram_->append(scored, found);
    return found;
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
      bool is_first = true;
      for (const FoundPiece& piece : pieces_of(part, text)) {
        word += piece.begins_word || is_first ? 1 : 0;
        is_first = false;
        add(piece.id, origin + piece.begin, origin + piece.end);
      }
    }
    encoding.type_ids.assign(encoding.ids.size(), type_id);
    encoding.is_special.assign(encoding.ids.size(), 0);
    return result;
  }

  Encoding finish(std::vector<PartEncoding> parts, const EncodeOptions& options) const {
    const bool adds = options.special_tokens == SpecialTokens::add;
    const std::int64_t each = adds ? (around_.begin ? 1 : 0) + (around_.end ? 1 : 0) : 0;
    if (options.max_length)
      truncate(parts, *options.max_length - each * static_cast<std::int64_t>(parts.size()), truncation_side_);
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
  std::unique_ptr<UnigramPieces> unigram_;
  Around around_;
  std::vector<AddedToken> added_;
  std::map<std::int32_t, const AddedToken*> added_by_id_;
  TokenFinder finder_;
  PrefixSpace prefix_space_;
  SpecialTokenIds roles_;
  TruncationSide truncation_side_;
  bool cleans_up_;
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
  if (rows.is_number_integer() && processor.GetPieceSize() + count > rows.get<std::int64_t>()) {
    if (side_tokens_with_ids(path, config).empty()) return;
    throw core::Error(path.string() +
                      ": the network in config.json has no rows for T5's sentinels, which come before " +
                      "the tokens that the files beside add");
  }
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

SpecialTokenIds roles_in(const SentencePieceProcessor& processor) {
  const auto role = [](int id) { return id < 0 ? std::nullopt : std::optional<std::int32_t>(id); };
  const auto mask = piece_id(processor, "<mask>");
  return {role(processor.pad_id()), role(processor.unk_id()), role(processor.bos_id()), role(processor.eos_id()),
          mask ? std::optional(static_cast<std::int32_t>(*mask)) : std::nullopt};
}

/// Refuses a model that the class reads otherwise than the library: Llama's and Gemma's class have no rules of
/// normalization, and BPE alone.
void require_model_of_class(const std::filesystem::path& path, const Json& config, const std::string& type,
                            const SentencePieceFile& file) {
  const bool is_llama = type == "LlamaTokenizer";
  const bool has_no_class = type == "PreTrainedTokenizer";
  if (!is_llama && !has_no_class && type != "GemmaTokenizer") return;
  const bool has_prefix = is_llama && config.value("add_prefix_space", Json()) != false;
  const auto refuse = [&](const std::string& what) {
    throw core::Error(path.string() + ": " + what + ", and transformers reads this directory with " + type +
                      ", which knows nothing of that")
        .hint(std::string(kSaveAsJson));
  };
  if (config.empty() && !model_config_beside(path).contains("model_type")) return;
  if (!config.contains("tokenizer_class") && is_llama) refuse("no file names the tokenizer_class");
  if (file.is_unigram && !has_no_class) refuse("the model is a Unigram model");
  if (file.changes_characters && !has_no_class) refuse("the model normalizes characters");
  if (file.remove_extra_whitespaces) refuse("the model removes extra spaces");
  if (file.add_dummy_prefix != has_prefix)
    refuse(file.add_dummy_prefix ? "the model puts a space before texts" : "the model puts no space before texts");
}

/// transformers finds a model's control pieces and user-defined pieces in texts before anything else.
void add_control_pieces(const SentencePieceFile& file, std::vector<AddedToken>& tokens) {
  for (std::size_t id = 0; id < file.pieces.size(); ++id) {
    const SentencePieceFile::Piece& piece = file.pieces[id];
    if (piece.type != PieceType::control && piece.type != PieceType::user_defined) continue;
    AddedToken token;
    token.content = token.pattern = std::string(piece.text);
    token.id = static_cast<std::uint32_t>(id);
    token.special = true;
    tokens.push_back(std::move(token));
  }
}

/// Returns those of the class's own tokens that the files beside the model leave as they are. A list of special tokens
/// takes their place, and transformers then encodes those that the list lacks as any other text.
std::vector<AddedToken> tokens_not_beside(std::vector<AddedToken> own, const std::vector<SideToken>& beside,
                                          const std::filesystem::path& path, const Json& config) {
  const auto listed = config.find("extra_special_tokens");
  const bool has_list = listed != config.end() && !listed->is_object();
  std::erase_if(own, [&](const AddedToken& token) {
    return std::ranges::any_of(
        beside, [&](const SideToken& side) { return side.token.content == token.content && (has_list || side.id); });
  });
  if (has_list && !own.empty())
    throw core::Error((path.parent_path() / "tokenizer_config.json").string() + ": the list of special tokens lacks '" +
                      own.front().content + "', which transformers then encodes as any other text")
        .hint("list all special tokens of the model and its class, or remove the list");
  return own;
}

/// Refuses a tokenizer.json of a Unigram model if transformers reads something else than its .model. That is the file
/// as it is, because the class says so, or other added tokens.
void require_tokens_of_class(const std::filesystem::path& path, const Json& config, const std::string& type,
                             const std::vector<AddedToken>& added) {
  const auto refuse = [&](const std::string& what) {
    throw core::Error((path.parent_path() / "tokenizer.json").string() + ": " + what)
        .hint("a Unigram model is read from its .model alone; leave tokenizer.json out, or name the model's own class");
  };
  if (auto_tokenizer_class(path, config).starts_with("PreTrained") ||
      auto_tokenizer_class(path, config) == "TokenizersBackend")
    refuse("transformers reads this file as it is, since tokenizer_class is " + type);
  const auto decoder = config.find("added_tokens_decoder");
  if (decoder != config.end())
    for (const AddedToken& token : added)
      if (decoder->value(std::to_string(token.id), Json::object()).value("content", Json()) != token.content)
        refuse("the added token '" + token.content + "' is missing in added_tokens_decoder");
  const auto count =
      std::ranges::count_if(added, [](const AddedToken& token) { return token.content.starts_with("<extra_id_"); });
  const Json wanted = config.value("extra_ids", Json(100));
  if (type == "T5Tokenizer" && wanted != count)
    refuse("it has " + std::to_string(count) + " sentinels, and T5Tokenizer has " + wanted.dump());
}

/// Refuses a tokenizer.json whose rules for characters aren't those of the .model.
void require_same_rules(const Json& unigram, const SentencePieceFile& file, const std::filesystem::path& path) {
  const bool changes = unigram.value("normalizer", Json()).dump().find("\"Precompiled\"") != std::string::npos;
  if (changes == file.changes_characters) return;
  throw core::Error(path.string() + ": the model " + (changes ? "doesn't normalize" : "normalizes") +
                    " characters, and tokenizer.json beside it " + (changes ? "does" : "doesn't"))
      .hint("remove tokenizer.json to take the rules of the .model");
}

Additions additions_beside(const std::filesystem::path& path, Json config, const SentencePieceProcessor& processor,
                           const SentencePieceFile& file) {
  Additions found{.roles = roles_in(processor),
                  .truncation_side = truncation_side(path, config),
                  .cleans_up = cleans_up_text(config) && file.is_unigram};
  const std::string type = tokenizer_class_beside(path, config);
  constexpr std::array<std::string_view, 4> kRead = {"LlamaTokenizer", "T5Tokenizer", "GemmaTokenizer",
                                                     "PreTrainedTokenizer"};
  require_class(type, kRead, path, "SentencePiece model", "use a model of one of these, or one with BPE or WordPiece");
  const bool is_t5 = type == "T5Tokenizer";
  require_model_of_class(path, config, type, file);
  const bool is_legacy = config.value("legacy", Json()) == true;
  // Llama's class puts no space before a space, and the library does.
  if (type == "LlamaTokenizer" && config.contains("tokenizer_class"))
    found.prefix_space = PrefixSpace::first_unless_there;
  if (is_legacy) found.prefix_space = PrefixSpace::each_unless_there;
  if (is_t5) found.prefix_space = PrefixSpace::each_part;
  const Json unigram = unigram_beside(path);
  const bool has_config = !config.empty();
  std::vector<AddedToken> own;
  if (!unigram.is_null()) {
    require_same_ids(unigram, processor, path);
    found.tokens = added_in(unigram, path);
    require_tokens_of_class(path, config, type, found.tokens);
    require_same_rules(unigram, file, path);
  } else {
    // transformers puts the model's pieces in the place of these, which special_tokens_map.json lists.
    config.erase("additional_special_tokens");
    if (has_config) add_control_pieces(file, own);
    if (is_t5) add_sentinels(path, config, processor, own);
  }
  const auto find = [&](std::string_view token) -> std::optional<std::uint32_t> {
    const auto same = std::ranges::find(own, token, &AddedToken::content);
    return same == own.end() ? piece_id(processor, token) : std::optional(same->id);
  };
  KnownTokens known{.find = find, .size = static_cast<std::uint32_t>(processor.GetPieceSize())};
  for (const AddedToken& token : own) known.size = std::max(known.size, token.id + 1);
  // A model without files beside it is read as the library reads it.
  std::span<const UsualToken> usual;
  if (!side_tokens_with_ids(path, config).empty() || has_config || !found.tokens.empty() || !own.empty()) {
    usual = usual_tokens_of(is_t5 || type == "GemmaTokenizer" ? type : "LlamaTokenizer");
    const std::vector<SideToken> beside = side_tokens(path, config, usual);
    if (unigram.is_null()) found.tokens = tokens_not_beside(own, beside, path, config);
    add_side_tokens(beside, known, /*normalizer=*/nullptr, found.tokens);
  }
  set_roles(config, usual, known, found.tokens, found.roles);
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
  const bool is_t5 = tokenizer_class_beside(path, config) == "T5Tokenizer";
  const bool has_class = config.contains("tokenizer_class");
  const Around around =
      is_t5 ? Around{false, true} : Around{flag("add_bos_token", !has_class), flag("add_eos_token", false)};
  const SentencePieceFile file = read_sentence_piece_file(bytes);
  Additions additions = additions_beside(path, config, *processor, file);
  auto continuing = additions.tokens.empty() ? nullptr : continuing_processor(bytes);
  std::string fingerprint =
      "sentencepiece:" + core::checksum(std::string_view(bytes)) + fingerprint_of(additions.tokens);
  if (!additions.tokens.empty()) fingerprint += std::to_string(static_cast<int>(additions.prefix_space));
  auto unigram = file.is_unigram ? std::make_unique<UnigramPieces>(file, *processor) : nullptr;
  if (unigram) fingerprint += "unigram 1";
  return std::make_unique<SentencePiece>(std::move(processor), std::move(continuing), std::move(unigram), around,
                                         std::move(additions), std::move(fingerprint));
}

}  // namespace trainctl::tokenizer
