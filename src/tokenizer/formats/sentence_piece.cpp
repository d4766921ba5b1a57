// Runs SentencePiece models with the sentencepiece library.
#include <sentencepiece_processor.h>

#include <limits>

#include "core/error.h"
#include "core/file.h"
#include "core/utf8.h"
#include "tokenizer/formats/formats.h"
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

class SentencePiece final : public Tokenizer {
 public:
  SentencePiece(std::unique_ptr<SentencePieceProcessor> processor, Around around, std::string fingerprint)
      : processor_(std::move(processor)), around_(around), fingerprint_(std::move(fingerprint)) {
    around_.begin = around_.begin && processor_->bos_id() >= 0;
    around_.end = around_.end && processor_->eos_id() >= 0;
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
    std::vector<int> found;
    const auto status = processor_->Encode(valid(text), &found);
    if (!status.ok()) throw core::Error("sentencepiece: " + status.ToString());
    ids.insert(ids.end(), found.begin(), found.end());
  }

  std::string decode(std::span<const std::int32_t> ids, SpecialTokens special_tokens) const override {
    std::string text;
    std::vector<int> run;
    const auto flush = [&] {
      if (!run.empty()) text += processor_->DecodeIds(run);
      run.clear();
    };
    for (const std::int32_t id : ids) {
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

  std::int64_t vocab_size() const override { return processor_->GetPieceSize(); }

  std::optional<std::int32_t> id_of(std::string_view token) const override {
    const int id = processor_->PieceToId(token);  // the id of <unk> if the token is unknown
    if (id < 0 || id >= processor_->GetPieceSize() || processor_->IdToPiece(id) != token) return std::nullopt;
    return id;
  }
  std::string token_of(std::int32_t id) const override {
    return id < 0 || id >= processor_->GetPieceSize() ? std::string() : processor_->IdToPiece(id);
  }

  SpecialTokenIds roles() const override {
    const auto role = [](int id) { return id < 0 ? std::nullopt : std::optional<std::int32_t>(id); };
    return {role(processor_->pad_id()), role(processor_->unk_id()), role(processor_->bos_id()),
            role(processor_->eos_id()), id_of("<mask>")};
  }
  std::string fingerprint() const override { return fingerprint_; }

 private:
  static std::string valid(std::string_view text) {
    if (text.size() >= std::numeric_limits<std::int32_t>::max())
      throw core::Error("a text of " + std::to_string(text.size()) + " bytes is too long to tokenize in one piece");
    return core::valid_utf8(text) ? std::string(text) : core::replace_invalid(text);
  }

  PartEncoding encode_text(std::string_view given, std::int32_t type_id) const {
    const std::string text = valid(given);
    const CharOffsets offsets(text);
    PartEncoding part;
    Encoding& encoding = part.encoding;
    std::int32_t word = -1;
    const sentencepiece::ImmutableSentencePieceText pieces = processor_->EncodeAsImmutableProto(text);
    for (std::size_t i = 0; i < pieces.pieces_size(); ++i) {
      const auto piece = pieces.pieces(static_cast<int>(i));
      word += piece.piece().starts_with("\u2581") || word < 0 ? 1 : 0;
      encoding.ids.push_back(static_cast<std::int32_t>(piece.id()));
      encoding.offsets.push_back({offsets.before(piece.begin()), offsets.before(piece.end())});
      encoding.words.push_back(word);
    }
    encoding.type_ids.assign(encoding.ids.size(), type_id);
    encoding.is_special.assign(encoding.ids.size(), 0);
    return part;
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
      if (adds && around_.begin) special(processor_->bos_id());
      append_encoding(result, parts[i].encoding);
      if (adds && around_.end) special(processor_->eos_id());
    }
    return result;
  }

  std::unique_ptr<SentencePieceProcessor> processor_;  // const members are thread-safe
  Around around_;
  std::string fingerprint_;
};

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
  return std::make_unique<SentencePiece>(std::move(processor), around,
                                         "sentencepiece:" + core::checksum(std::string_view(bytes)));
}

}  // namespace trainctl::tokenizer
