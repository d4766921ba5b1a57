#include "tokenizer/pipeline/pipeline.h"

#include <algorithm>
#include <limits>
#include <mutex>
#include <unordered_map>
#include <unordered_set>

#include "core/error.h"
#include "core/file.h"
#include "core/utf8.h"
#include "tokenizer/pipeline/char_offsets.h"

namespace trainctl::tokenizer {
namespace {

/// Buffers of one call; a pool lends them to one thread at a time.
struct Room {
  TextStore texts;
  std::vector<Piece> pieces, parts;
  std::vector<Match> matches;
  WordTokens tokens;
  ModelRoom model;
};

class Rooms {
 public:
  class Lease {
   public:
    Lease(Rooms& rooms, std::unique_ptr<Room> room) : rooms_(rooms), room_(std::move(room)) {}
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;
    ~Lease() { rooms_.give_back(std::move(room_)); }
    Room& operator*() { return *room_; }

   private:
    Rooms& rooms_;
    std::unique_ptr<Room> room_;
  };

  Lease lend() {
    const std::lock_guard lock(mutex_);
    if (free_.empty()) return {*this, std::make_unique<Room>()};
    std::unique_ptr<Room> room = std::move(free_.back());
    free_.pop_back();
    return {*this, std::move(room)};
  }

 private:
  void give_back(std::unique_ptr<Room> room) {
    room->texts.clear();
    room->pieces.clear();
    const std::lock_guard lock(mutex_);
    free_.push_back(std::move(room));
  }

  std::mutex mutex_;
  std::vector<std::unique_ptr<Room>> free_;
};

/// The text, or a repaired copy if it is not valid UTF-8.
class ValidText {
 public:
  explicit ValidText(std::string_view text) : text_(text) {
    if (!core::valid_utf8(text)) text_ = repaired_ = core::replace_invalid(text);
    if (text_.size() >= std::numeric_limits<std::int32_t>::max())
      throw core::Error("a text of " + std::to_string(text_.size()) + " bytes is too long to tokenize in one piece");
  }
  std::string_view get() const { return text_; }

 private:
  std::string repaired_;
  std::string_view text_;
};

class Pipeline final : public Tokenizer {
 public:
  explicit Pipeline(PipelineParts parts)
      : parts_(std::move(parts)),
        raw_tokens_(find_before_normalizing(parts_.added), parts_.characters),
        normal_tokens_(find_after_normalizing(parts_.added), parts_.characters) {
    for (const auto& step : parts_.pre_tokenizers) needs_spans_ = needs_spans_ || step->needs_spans();
    vocab_size_ = static_cast<std::int64_t>(vocabulary().end());
    for (const AddedToken& token : parts_.added) {
      vocab_size_ = std::max(vocab_size_, static_cast<std::int64_t>(token.id) + 1);
      added_by_text_[token.content] = token.id;
      added_by_id_[token.id] = &token;
      if (token.special) special_texts_.insert(token.content);
    }
    if (parts_.post_processor != nullptr && parts_.post_processor->trims_offsets())
      for (std::uint32_t id = 0; id < vocabulary().end(); ++id)
        spaces_.push_back(token_spaces(vocabulary().text(id), *parts_.characters));
    parts_.fingerprint += fingerprint_of_special_tokens(*this);
    if (parts_.truncation_side == TruncationSide::left) parts_.fingerprint += ":left";
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
    const ValidText valid(text);
    Rooms::Lease lease = rooms_.lend();
    Room& room = *lease;
    split(valid.get(), room, needs_spans_ ? Alignment::keep : Alignment::drop);
    for (const Piece& piece : room.pieces) {
      if (piece.token != kNoToken) {
        ids.push_back(static_cast<std::int32_t>(added(piece).id));
        continue;
      }
      room.tokens.clear();
      parts_.model->tokenize(piece.text, room.tokens, room.model);
      for (const std::uint32_t id : room.tokens.ids) ids.push_back(static_cast<std::int32_t>(id));
    }
  }

  std::string decode(std::span<const std::int32_t> ids, SpecialTokens special_tokens) const override {
    std::vector<std::string> tokens;
    for (const std::int32_t id : ids) {
      const auto found = added_by_id_.find(static_cast<std::uint32_t>(id));
      if (found == added_by_id_.end() && (id < 0 || !vocabulary().has(static_cast<std::uint32_t>(id)))) continue;
      const std::string& text =
          found != added_by_id_.end() ? found->second->pattern : vocabulary().text(static_cast<std::uint32_t>(id));
      if (special_tokens == SpecialTokens::leave_out && special_texts_.contains(text)) continue;
      tokens.push_back(text);
    }
    if (parts_.decoder != nullptr) tokens = parts_.decoder->decode(std::move(tokens));
    std::string text;
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      if (parts_.decoder == nullptr && i > 0) text += ' ';
      text += tokens[i];
    }
    return parts_.cleans_up ? clean_up_tokenization(std::move(text)) : text;
  }

  std::int64_t vocab_size() const override { return vocab_size_; }

  std::optional<std::int32_t> id_of(std::string_view token) const override {
    const auto found = added_by_text_.find(std::string(token));
    if (found != added_by_text_.end()) return static_cast<std::int32_t>(found->second);
    const auto id = vocabulary().find(token);
    return id ? std::optional(static_cast<std::int32_t>(*id)) : std::nullopt;
  }

  std::string token_of(std::int32_t id) const override {
    if (id < 0) return {};
    const auto found = added_by_id_.find(static_cast<std::uint32_t>(id));
    return found != added_by_id_.end() ? found->second->content : vocabulary().text(static_cast<std::uint32_t>(id));
  }

  SpecialTokenIds roles() const override { return parts_.roles; }
  TruncationSide truncation_side() const override { return parts_.truncation_side; }
  std::string fingerprint() const override { return parts_.fingerprint; }
  bool is_changed_by_side_files() const override { return parts_.is_changed_by_side_files; }

 private:
  static std::vector<AddedToken> keep_patterns(std::vector<AddedToken> tokens, bool normalized) {
    for (AddedToken& token : tokens)
      if (token.normalized != normalized) token.pattern.clear();
    return tokens;
  }
  static std::vector<AddedToken> find_before_normalizing(const std::vector<AddedToken>& tokens) {
    return keep_patterns(tokens, false);
  }
  static std::vector<AddedToken> find_after_normalizing(const std::vector<AddedToken>& tokens) {
    return keep_patterns(tokens, true);
  }

  const Vocabulary& vocabulary() const { return parts_.model->vocabulary(); }
  const AddedToken& added(const Piece& piece) const { return parts_.added[static_cast<std::size_t>(piece.token)]; }

  /// Replaces pieces that are not tokens by what `rewrite(piece, parts)` appends.
  template <typename Rewrite>
  static void each_piece(Room& room, Rewrite rewrite) {
    room.parts.clear();
    for (const Piece& piece : room.pieces) {
      if (piece.token != kNoToken)
        room.parts.push_back(piece);
      else
        rewrite(piece, room.parts);
    }
    std::erase_if(room.parts, [](const Piece& piece) { return piece.text.empty(); });
    std::swap(room.pieces, room.parts);
  }

  /// Splits the text into words and added tokens, in room.pieces.
  void split(std::string_view text, Room& room, Alignment alignment) const {
    room.pieces.clear();
    if (!text.empty()) room.pieces.push_back({text});
    if (!raw_tokens_.empty())
      each_piece(room, [&](const Piece& piece, std::vector<Piece>& parts) { raw_tokens_.split(piece, parts); });
    if (parts_.normalizer != nullptr)
      each_piece(room, [&](const Piece& piece, std::vector<Piece>& parts) {
        NormalizedString& normal = room.texts.make();
        parts_.normalizer->apply(piece, normal, alignment);
        parts.push_back(TextStore::piece(normal, piece));
      });
    if (!normal_tokens_.empty())
      each_piece(room, [&](const Piece& piece, std::vector<Piece>& parts) { normal_tokens_.split(piece, parts); });
    SplitRoom split_room{room.texts, alignment, std::move(room.matches)};
    for (const auto& step : parts_.pre_tokenizers)
      each_piece(room, [&](const Piece& piece, std::vector<Piece>& parts) { step->split(piece, parts, split_room); });
    room.matches = std::move(split_room.matches);
  }

  PartEncoding encode_text(std::string_view text, std::int32_t type_id) const {
    const ValidText valid(text);
    Rooms::Lease lease = rooms_.lend();
    Room& room = *lease;
    split(valid.get(), room, Alignment::keep);
    const CharOffsets offsets(valid.get());
    PartEncoding part;
    part.encoding.ids.reserve(room.pieces.size() * 5 / 4);
    part.encoding.offsets.reserve(room.pieces.size() * 5 / 4);
    part.encoding.words.reserve(room.pieces.size() * 5 / 4);
    for (std::size_t word = 0; word < room.pieces.size(); ++word) append_piece(room, word, offsets, part);
    part.encoding.type_ids.assign(part.encoding.ids.size(), type_id);
    part.encoding.is_special.assign(part.encoding.ids.size(), 0);
    return part;
  }

  void append_piece(Room& room, std::size_t word, const CharOffsets& offsets, PartEncoding& part) const {
    const Piece& piece = room.pieces[word];
    room.tokens.clear();
    if (piece.token != kNoToken)
      room.tokens.add(added(piece).id, piece.text.size());
    else
      parts_.model->tokenize(piece.text, room.tokens, room.model);
    std::size_t begin = 0;
    for (std::size_t i = 0; i < room.tokens.ids.size(); ++i) {
      const std::size_t end = room.tokens.ends[i];
      const std::uint32_t id = room.tokens.ids[i];
      part.encoding.ids.push_back(static_cast<std::int32_t>(id));
      part.encoding.offsets.push_back(offsets.of(piece, begin, end));
      part.encoding.words.push_back(static_cast<std::int32_t>(word));
      if (!spaces_.empty())
        part.spaces.push_back(piece.token != kNoToken ? token_spaces(piece.text, *parts_.characters) : spaces_[id]);
      begin = end;
    }
  }

  Encoding finish(std::vector<PartEncoding> parts, const EncodeOptions& options) const {
    const PostProcessor* const post = parts_.post_processor.get();
    if (options.max_length) {
      const bool adds = options.special_tokens == SpecialTokens::add && post != nullptr;
      truncate(parts, *options.max_length - (adds ? post->num_added(parts.size()) : 0), parts_.truncation_side);
    }
    if (post != nullptr) post->process(parts, options.special_tokens);
    if (parts.size() == 2) append_encoding(parts[0].encoding, parts[1].encoding);
    return std::move(parts[0].encoding);
  }

  PipelineParts parts_;
  TokenFinder raw_tokens_, normal_tokens_;
  bool needs_spans_ = false;
  std::int64_t vocab_size_ = 0;
  std::unordered_map<std::string, std::uint32_t> added_by_text_;
  std::unordered_map<std::uint32_t, const AddedToken*> added_by_id_;
  std::unordered_set<std::string> special_texts_;
  std::vector<TokenSpaces> spaces_;  // by id; filled if offsets are trimmed
  mutable Rooms rooms_;
};

}  // namespace

std::string fingerprint_of_special_tokens(const Tokenizer& tokenizer) {
  std::string all;
  const SpecialTokenIds roles = tokenizer.roles();
  for (const auto& role : {roles.pad, roles.unknown, roles.begin, roles.end, roles.mask})
    all += std::to_string(role.value_or(-1)) + " ";
  for (const Encoding& around : {tokenizer.encode("", {}), tokenizer.encode_pair("", "", {})}) {
    all += "around ";
    for (std::size_t i = 0; i < around.ids.size(); ++i)
      all += std::to_string(around.ids[i]) + ":" + std::to_string(around.type_ids[i]) + " ";
  }
  return ":" + core::checksum(std::string_view(all));
}

std::unique_ptr<Tokenizer> make_pipeline(PipelineParts parts) {
  return std::make_unique<Pipeline>(std::move(parts));
}

}  // namespace trainctl::tokenizer
