// Conversations, or pairs of which the first is preferred, as samples: rows of packed ones, or one in each row. Targets
// are the successors of tokens, where these are learned.
#include <algorithm>
#include <array>
#include <numeric>

#include "core/error.h"
#include "core/file.h"
#include "core/text.h"
#include "dataset/chat/packing.h"
#include "dataset/collate/token_rows.h"
#include "dataset/image/transform/transform.h"
#include "dataset/sampler/split.h"
#include "dataset/sources.h"
#include "dataset/text/language_source.h"

namespace trainctl::dataset {
namespace {

/// The numbers that open_rows tells.
struct LongRows {
  std::int64_t too_long = 0;
  std::int64_t left_out = 0;  // nothing of them is learned
  std::int64_t alike = 0;     // pairs that differ behind the cut alone
};

/// What the consecutive conversations of a store are: one by one, or pairs.
struct PieceKind {
  std::int64_t conversations = 1;  // of a piece
  Targets targets = Targets::next_tokens;
  std::string name = "conversation";
};
const PieceKind kPairs{.conversations = 2, .targets = Targets::preferences, .name = "pair"};

class ChatSource final : public RawSource {
 public:
  ChatSource(std::shared_ptr<const TokenStore> store, const ChatConfig& config, const PieceKind& kind,
             const std::vector<std::int64_t>& chosen, const std::string& set, std::int64_t vocab_size, std::int32_t pad)
      : store_(std::move(store)),
        length_(config.seq_len),
        in_piece_(kind.conversations),
        packing_(config.packing),
        pad_(pad) {
    keep_learned(chosen, config.too_long);
    if (kept_.empty()) {
      const std::string each = in_piece_ > 1 ? " of each conversation" : "";
      if (long_rows_.too_long == std::ssize(chosen) && config.too_long == TooLong::drop)
        throw core::Error("each " + kind.name + " of dataset." + set + " has more than " +
                          core::format_count(most_tokens()) + " tokens" + (in_piece_ > 1 ? " in a conversation" : "") +
                          ", and is dropped")
            .hint("raise dataset.seq_len, or set dataset.too_long: cut");
      throw core::Error("no " + kind.name + " of dataset." + set + " has anything to learn among the first " +
                        core::format_count(most_tokens()) + " tokens" + each)
          .hint("raise dataset.seq_len");
    }
    fill_rows();
    spec_.input_shape = {length_};
    spec_.input_dtype = at::kLong;
    spec_.vocab_size = vocab_size;
    spec_.targets = kind.targets;
  }

  std::int64_t size() const override { return static_cast<std::int64_t>(rows_.size()); }
  const SampleSpec& spec() const override { return spec_; }
  std::int64_t sample_bytes() const override { return 3 * length_ * kIdBytes; }
  std::span<const std::int32_t> lengths() const override { return lengths_; }
  /// T ids, then T numbers of conversations, then T targets.
  std::int64_t get(std::int64_t index, std::byte* sample) const override {
    auto* const ids = reinterpret_cast<std::int64_t*>(sample);
    write_row(index, ids, ids + length_, ids + 2 * length_);
    return 0;
  }
  std::string fingerprint() const override {
    return core::checksum(store_->fingerprint() + " " + std::to_string(length_) + " " +
                          std::string(config::name_of(packing_)) + core::checksum(std::as_bytes(std::span(kept_))));
  }
  std::unique_ptr<SampleWriter> make_writer(Phase phase, std::uint64_t seed) const override;

  void write_row(std::int64_t index, std::int64_t* ids, std::int64_t* documents, std::int64_t* targets) const {
    const auto length = static_cast<std::size_t>(length_);
    std::fill_n(targets, length, std::int64_t{kNoTarget});
    std::vector<std::int64_t> labels;
    std::int64_t document = 0;
    std::size_t at = 0;
    for (const std::int32_t number : rows_[static_cast<std::size_t>(index)]) {
      const std::int64_t piece = kept_[static_cast<std::size_t>(number)];
      for (std::int64_t row = piece * in_piece_; row < (piece + 1) * in_piece_; ++row) {
        const auto count = static_cast<std::size_t>(length_of(row));
        labels.resize(count);
        store_->copy(store_->document_start(row), {ids + at, count});
        store_->copy_labels(store_->document_start(row), labels);
        std::copy(labels.begin() + 1, labels.end(), targets + at);
        std::fill_n(documents + at, count, document++);
        at += count;
      }
    }
    std::fill(ids + at, ids + length, pad_);
    // A network has positions for a conversation, and padding may be longer.
    for (std::size_t t = at; t < length; ++t)
      documents[t] = document + static_cast<std::int64_t>(t - at) / most_tokens();
  }
  std::int64_t num_tokens_of(std::int64_t index) const {
    std::int64_t count = 0;
    for (const std::int32_t number : rows_[static_cast<std::size_t>(index)])
      count += length_of_piece(kept_[static_cast<std::size_t>(number)]);
    return count;
  }
  std::int64_t length() const { return length_; }
  bool is_packed() const { return packing_ == Packing::best_fit; }
  /// Whether a row has several conversations, which don't see each other.
  bool has_documents() const { return is_packed() || in_piece_ > 1; }
  const LongRows& long_rows() const { return long_rows_; }

 private:
  std::int64_t most_tokens() const { return length_ / in_piece_; }
  std::int64_t length_of(std::int64_t row) const { return std::min(store_->document_length(row), most_tokens()); }
  std::int64_t length_of_piece(std::int64_t piece) const {
    std::int64_t length = 0;
    for (std::int64_t row = piece * in_piece_; row < (piece + 1) * in_piece_; ++row) length += length_of(row);
    return length;
  }
  bool is_learned(std::int64_t row) const {
    std::vector<std::int64_t> labels(static_cast<std::size_t>(length_of(row)));
    store_->copy_labels(store_->document_start(row), labels);
    // The first token is nobody's successor.
    return std::any_of(labels.begin() + 1, labels.end(), [](std::int64_t label) { return label != kNoTarget; });
  }

  void keep_learned(const std::vector<std::int64_t>& chosen, TooLong too_long) {
    for (const std::int64_t piece : chosen) {
      bool is_long = false;
      bool learns = true;
      for (std::int64_t row = piece * in_piece_; row < (piece + 1) * in_piece_; ++row) {
        is_long = is_long || store_->document_length(row) > most_tokens();
        learns = learns && is_learned(row);
      }
      if (is_long) ++long_rows_.too_long;
      if (is_long && too_long == TooLong::drop) continue;
      if (!learns)
        ++long_rows_.left_out;
      else if (is_long && in_piece_ == 2 && are_alike(2 * piece, 2 * piece + 1))
        ++long_rows_.alike;
      else
        kept_.push_back(piece);
    }
  }

  /// Returns whether two conversations have the same tokens up to the cut, so that neither can be preferred.
  bool are_alike(std::int64_t row, std::int64_t other) const {
    if (length_of(row) != length_of(other)) return false;
    std::vector<std::int64_t> ids(static_cast<std::size_t>(length_of(row)));
    std::vector<std::int64_t> other_ids(ids.size());
    store_->copy(store_->document_start(row), ids);
    store_->copy(store_->document_start(other), other_ids);
    return ids == other_ids;
  }

  void fill_rows() {
    if (packing_ == Packing::best_fit) {
      std::vector<std::int64_t> sizes;
      for (const std::int64_t piece : kept_) sizes.push_back(length_of_piece(piece));
      rows_ = pack_best_fit(sizes, length_);
      return;
    }
    for (std::size_t i = 0; i < kept_.size(); ++i) {
      rows_.push_back({static_cast<std::int32_t>(i)});
      lengths_.push_back(static_cast<std::int32_t>(length_of_piece(kept_[i])));
    }
  }

  std::shared_ptr<const TokenStore> store_;
  std::int64_t length_;
  std::int64_t in_piece_;
  Packing packing_;
  std::int64_t pad_;
  std::vector<std::int64_t> kept_;  // pieces: piece i has the store's documents from i in_piece_ on
  PackedRows rows_;                 // of numbers in kept_
  std::vector<std::int32_t> lengths_;
  LongRows long_rows_;
  SampleSpec spec_;
};

/// A writer of T ids, T numbers of conversations, and room for T positions of targets.
class ChatWriter final : public SampleWriter {
 public:
  explicit ChatWriter(const ChatSource& source) : source_(source), length_(source.length()) {}

  std::int64_t input_bytes() const override { return 3 * length_ * kIdBytes; }
  std::int64_t target_count() const override { return length_; }
  Scratch make_scratch() const override { return {}; }
  /// The place of the positions has the row's number of tokens until `wrap`.
  void write(SampleKey key, Scratch&, std::byte* input, std::int64_t* target) const override {
    auto* const ids = reinterpret_cast<std::int64_t*>(input);
    source_.write_row(key.index, ids, ids + length_, target);
    ids[2 * length_] = source_.num_tokens_of(key.index);
  }

  Batch wrap(std::int64_t count, void* inputs, void* targets,
             const std::function<void(void*)>& release) const override {
    auto* const values = static_cast<std::int64_t*>(inputs);
    const bool is_packed = source_.is_packed();
    std::int64_t width = is_packed ? length_ : 1;
    for (std::int64_t row = 0; row < count && !is_packed; ++row)
      width = std::max(width, values[row * 3 * length_ + 2 * length_]);
    const std::array parts = {RowPart{0, width}, RowPart{length_, width}};
    pack_rows({values, count, 3 * length_}, std::span(parts).first(source_.has_documents() ? 2 : 1));
    if (!is_packed) pack_rows({static_cast<std::int64_t*>(targets), count, length_}, std::array{RowPart{0, width}});
    BatchMemory memory(inputs, release);
    Batch batch{.inputs = memory.take({count, width}, at::kLong),
                .targets = BatchMemory(targets, release).take({count, width}, at::kLong)};
    if (source_.has_documents()) batch.documents = memory.take({count, width}, at::kLong);
    batch.target_positions = memory.take_target_positions(batch.targets);
    return batch;
  }

 private:
  const ChatSource& source_;
  std::int64_t length_;
};

std::unique_ptr<SampleWriter> ChatSource::make_writer(Phase, std::uint64_t) const {
  return std::make_unique<ChatWriter>(*this);
}

std::vector<std::int64_t> all_pieces(const TokenStore& store, const PieceKind& kind) {
  std::vector<std::int64_t> pieces(static_cast<std::size_t>(store.num_documents() / kind.conversations));
  std::iota(pieces.begin(), pieces.end(), std::int64_t{0});
  return pieces;
}

DividedSamples divided_pieces(const TokenStore& store, const PieceKind& kind, const Split& split) {
  std::vector<std::uint64_t> hashes;
  std::vector<std::int64_t> ids;
  for (std::int64_t row = 0; row < store.num_documents(); row += kind.conversations) {
    const std::int64_t last = row + kind.conversations - 1;
    const std::int64_t begin = store.document_start(row);
    ids.resize(static_cast<std::size_t>(store.document_start(last) + store.document_length(last) - begin));
    store.copy(begin, ids);
    hashes.push_back(key_hash({reinterpret_cast<const char*>(ids.data()), ids.size() * sizeof(std::int64_t)}));
  }
  return divide(hashes, {}, split, kind.name);
}

/// Opens the sets, and tells what is cut and left out.
class ChatSets {
 public:
  ChatSets(ChatConfig config, PieceKind kind, const LoaderOptions& options)
      : config_(std::move(config)),
        kind_(std::move(kind)),
        options_(options),
        tokenizer_(open_tokenizer(config_.tokenizer)) {}

  const tokenizer::Tokenizer& tokenizer() const { return *tokenizer_; }
  Sources open(const PreparedStores& stores) const {
    const Split split{.eval_fraction = config_.eval_fraction,
                      .test_fraction = config_.test_fraction,
                      .seed = static_cast<std::uint64_t>(config_.split_seed),
                      .fold = options_.fold};
    Sources sources;
    if (split.divides()) {
      const DividedSamples parts = divided_pieces(*stores.train.store, kind_, split);
      sources.train = source(stores.train, parts.train, "train");
      sources.eval = source(stores.train, parts.eval, "eval");
      sources.test = source(stores.train, parts.test, "test");
    } else {
      sources.train = source(stores.train, all_pieces(*stores.train.store, kind_), "train");
    }
    if (stores.eval) sources.eval = source(*stores.eval, all_pieces(*stores.eval->store, kind_), "eval");
    if (stores.test) sources.test = source(*stores.test, all_pieces(*stores.test->store, kind_), "test");
    return sources;
  }

 private:
  std::unique_ptr<Source> source(const PreparedStore& prepared, const std::vector<std::int64_t>& chosen,
                                 const std::string& set) const {
    if (chosen.empty()) return nullptr;
    const std::int64_t count = std::ssize(chosen);
    const std::int32_t pad = tokenizer_->roles().pad.value_or(tokenizer_->roles().end.value_or(0));
    auto opened =
        std::make_unique<ChatSource>(prepared.store, config_, kind_, chosen, set, tokenizer_->vocab_size(), pad);
    tell(opened->long_rows(), count, set);
    return opened;
  }

  void tell(const LongRows& rows, std::int64_t count, const std::string& set) const {
    if (!options_.tell) return;
    const std::string of_all = " of " + core::format_count(count) + " " + kind_.name + "s of dataset." + set;
    if (rows.too_long > 0)
      options_.tell(core::format_count(rows.too_long) + of_all + " have more than " +
                    core::format_count(config_.seq_len / kind_.conversations) + " tokens" +
                    (kind_.conversations > 1 ? " in a conversation: " : ": ") +
                    (config_.too_long == TooLong::cut ? "cut" : "dropped") + " (dataset.too_long)");
    if (rows.left_out > 0)
      options_.tell(core::format_count(rows.left_out) + of_all + " have no token to learn after the cut: left out");
    if (rows.alike > 0)
      options_.tell(core::format_count(rows.alike) + of_all + " differ behind the cut alone: left out");
  }

  ChatConfig config_;
  PieceKind kind_;
  const LoaderOptions& options_;
  std::shared_ptr<const tokenizer::Tokenizer> tokenizer_;
};

}  // namespace

Sources build(const ChatConfig& config, const LoaderOptions& options) {
  const ChatSets sets(config, {}, options);
  return sets.open(prepare_stores(config, sets.tokenizer(), prepare_options(options)));
}

Sources build(const PreferenceConfig& config, const LoaderOptions& options) {
  const ChatSets sets(config.as_chat(), kPairs, options);
  return sets.open(prepare_stores(config, sets.tokenizer(), prepare_options(options)));
}

}  // namespace trainctl::dataset
