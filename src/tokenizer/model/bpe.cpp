// Byte-pair encoding. It merges the adjacent pair with the lowest rank first, and the leftmost pair among equal ranks.
#include <algorithm>
#include <atomic>
#include <bit>
#include <tuple>

#include "core/error.h"
#include "core/utf8.h"
#include "tokenizer/model/model.h"
#include "tokenizer/unicode/byte_chars.h"

namespace trainctl::tokenizer {
namespace {

constexpr std::uint32_t kNoRank = 0xFFFFFFFF;

/// Hash table (left, right) -> (rank, merged), with open addressing.
class Merges {
 public:
  struct Merge {
    std::uint32_t rank = kNoRank;
    std::uint32_t id = 0;
  };
  explicit Merges(std::size_t size) : slots_(std::bit_ceil(size * 2 + 2)), mask_(slots_.size() - 1) {}

  void set(std::uint32_t left, std::uint32_t right, Merge merge) {
    const std::uint64_t pair = key(left, right);
    std::size_t slot = place(pair);
    while (slots_[slot].merge.rank != kNoRank && slots_[slot].pair != pair) slot = (slot + 1) & mask_;
    slots_[slot] = {pair, merge};
  }
  Merge find(std::uint32_t left, std::uint32_t right) const {
    const std::uint64_t pair = key(left, right);
    for (std::size_t slot = place(pair);; slot = (slot + 1) & mask_) {
      const Slot& seen = slots_[slot];
      if (seen.merge.rank == kNoRank || seen.pair == pair) return seen.merge;
    }
  }

 private:
  struct Slot {
    std::uint64_t pair = 0;
    Merge merge{};
  };
  static std::uint64_t key(std::uint32_t left, std::uint32_t right) { return std::uint64_t{left} << 32 | right; }
  std::size_t place(std::uint64_t pair) const {
    const std::uint64_t mixed = (pair ^ pair >> 29) * 0x9E3779B97F4A7C15;
    return (mixed ^ mixed >> 32) & mask_;
  }

  std::vector<Slot> slots_;
  std::size_t mask_;
};

class Bpe final : public Model {
 public:
  explicit Bpe(BpeOptions options)
      : options_(std::move(options)), merges_(options_.merges.size()), states_(vocabulary().end()) {
    if (options_.unknown) unknown_ = vocabulary().find(*options_.unknown);
    read_merges();
    if (options_.form == WordForm::bytes) {
      for (std::uint32_t id = 0; id < vocabulary().end(); ++id)
        if (vocabulary().has(id) && vocabulary().find(vocabulary().text(id)) == id)
          if (const auto bytes = chars_to_bytes(vocabulary().text(id))) by_bytes_.add(*bytes, id);
      by_bytes_.finish();
    }
    for (std::size_t byte = 0; byte < 256; ++byte) {
      const char one = static_cast<char>(byte);
      byte_ids_[byte] = whole_words().find({&one, 1});
      constexpr std::string_view kDigits = "0123456789ABCDEF";
      const std::string code{'<', '0', 'x', kDigits[byte >> 4], kDigits[byte & 15], '>'};
      fallback_ids_[byte] = vocabulary().by_text().find(code);
    }
  }

  void tokenize(std::string_view word, WordTokens& tokens, ModelRoom& room) const override {
    const std::uint64_t hash = TextMap::hash(word);
    const std::uint32_t whole = whole_words().find(word, hash);
    if (whole != TextMap::kNone && (options_.ignore_merges || is_itself(whole, word, room)))
      return tokens.add(whole, word.size());
    if (word.size() > ModelRoom::Remembered::kMaxBytes) return merge(word, tokens, room);
    if (room.memory.empty()) room.memory.resize(ModelRoom::kMemory);
    ModelRoom::Remembered& seen = room.memory[(hash >> 20) % ModelRoom::kMemory];
    if (seen.hash == hash && seen.size == word.size() &&
        std::memcmp(seen.bytes.data(), word.data(), word.size()) == 0) {
      std::size_t end = 0;
      for (std::size_t i = 0; i < seen.count; ++i) tokens.add(seen.ids[i], end += seen.lengths[i]);
      return;
    }
    const std::size_t before = tokens.ids.size();
    merge(word, tokens, room);
    remember(word, hash, tokens, before, seen);
  }

  const Vocabulary& vocabulary() const override { return options_.vocabulary; }
  std::optional<std::uint32_t> unknown() const override { return unknown_; }

 private:
  using Symbol = ModelRoom::Symbol;
  using Candidate = ModelRoom::Candidate;
  enum State : std::uint8_t { kNotKnown, kItself, kOther };

  const TextMap& whole_words() const { return options_.form == WordForm::bytes ? by_bytes_ : vocabulary().by_text(); }

  void read_merges() {
    std::uint32_t number = 0;
    for (const auto& [left, right] : options_.merges) {
      const std::string& prefix = options_.continuing_prefix;
      const auto id = [&](const std::string& text) {
        if (const auto found = vocabulary().find(text)) return *found;
        throw core::Error(options_.where + ": merges: number " + std::to_string(number) + " needs '" + text +
                          "', which is not in the vocabulary");
      };
      if (right.size() < prefix.size())
        throw core::Error(options_.where + ": merges: number " + std::to_string(number) +
                          " is shorter than the prefix");
      const std::uint32_t rank = options_.ranks.empty() ? number : options_.ranks[number];
      merges_.set(id(left), id(right), {rank, id(left + right.substr(prefix.size()))});
      ++number;
    }
    options_.merges = {};
    options_.ranks = {};
  }

  /// Whether merging a token's own text gives that token. This is usual but not certain; all threads share the cached
  /// answer.
  bool is_itself(std::uint32_t id, std::string_view word, ModelRoom& room) const {
    const std::uint8_t state = states_[id].load(std::memory_order_relaxed);
    if (state != kNotKnown) return state == kItself;
    WordTokens tokens;
    merge(word, tokens, room);
    const bool itself = tokens.ids.size() == 1 && tokens.ids[0] == id && tokens.ends[0] == word.size();
    states_[id].store(itself ? kItself : kOther, std::memory_order_relaxed);
    return itself;
  }

  static void remember(std::string_view word, std::uint64_t hash, const WordTokens& tokens, std::size_t before,
                       ModelRoom::Remembered& seen) {
    const std::size_t count = tokens.ids.size() - before;
    if (count > ModelRoom::Remembered::kMaxTokens) return;
    seen.hash = hash;
    seen.size = static_cast<std::uint8_t>(word.size());
    seen.count = static_cast<std::uint8_t>(count);
    std::memcpy(seen.bytes.data(), word.data(), word.size());
    std::uint32_t begin = 0;
    for (std::size_t i = 0; i < count; ++i) {
      seen.ids[i] = tokens.ids[before + i];
      seen.lengths[i] = static_cast<std::uint8_t>(tokens.ends[before + i] - begin);
      begin = tokens.ends[before + i];
    }
  }

  static void push(std::vector<Symbol>& symbols, std::uint32_t id, std::size_t length) {
    const auto index = static_cast<std::int32_t>(symbols.size());
    if (index > 0) symbols.back().next = index;
    symbols.push_back({id, static_cast<std::uint32_t>(length), index - 1, -1});
  }

  /// Makes one symbol per byte.
  void begin_with_bytes(std::string_view word, std::vector<Symbol>& symbols) const {
    for (const char byte : word) push(symbols, byte_ids_[static_cast<unsigned char>(byte)], 1);
  }

  bool push_bytes(std::string_view text, std::vector<Symbol>& symbols) const {
    for (const char byte : text)
      if (fallback_ids_[static_cast<unsigned char>(byte)] == TextMap::kNone) return false;
    for (const char byte : text) push(symbols, fallback_ids_[static_cast<unsigned char>(byte)], 1);
    return true;
  }

  std::uint32_t unknown_or_throw() const {
    if (!unknown_)
      throw core::Error(options_.where + ": unk_token: '" + *options_.unknown + "' is not in the vocabulary");
    return *unknown_;
  }

  /// Makes one symbol per character. A character outside the vocabulary becomes bytes, the unknown token or nothing.
  void begin_with_characters(std::string_view word, std::vector<Symbol>& symbols) const {
    std::size_t unknown_length = 0;  // length of the pending unknown symbol
    const auto push_unknown = [&] {
      if (unknown_length > 0) push(symbols, *unknown_, unknown_length);
      unknown_length = 0;
    };
    std::string text;
    for (std::size_t at = 0; at < word.size();) {
      const std::size_t length = core::char_length(word[at]);
      text.clear();
      if (at > 0) text += options_.continuing_prefix;
      text += word.substr(at, length);
      if (at + length == word.size()) text += options_.end_suffix;
      at += length;
      const std::uint32_t id =
          text.size() == 1 ? byte_ids_[static_cast<unsigned char>(text[0])] : vocabulary().by_text().find(text);
      if (id != TextMap::kNone) {
        push_unknown();
        push(symbols, id, length);
        continue;
      }
      if (options_.byte_fallback && push_bytes(text, symbols)) continue;
      if (!options_.unknown) continue;
      unknown_or_throw();
      if (!options_.fuse_unknown) push_unknown();
      unknown_length += length;
    }
    push_unknown();
  }

  void merge(std::string_view word, WordTokens& tokens, ModelRoom& room) const {
    std::vector<Symbol>& symbols = room.symbols;
    symbols.clear();
    if (options_.form == WordForm::bytes)
      begin_with_bytes(word, symbols);
    else
      begin_with_characters(word, symbols);
    constexpr std::size_t kFew = 48;  // up to this size, a scan of all pairs per merge is faster than a queue
    if (symbols.size() <= kFew)
      merge_few(symbols, room.ranks);
    else
      merge_many(symbols, room.queue);
    std::size_t end = 0;
    for (std::size_t i = 0; i < symbols.size(); ++i)
      if (symbols[i].length != 0) tokens.add(symbols[i].id, end += symbols[i].length);
  }

  std::uint32_t rank(const Symbol& left, const Symbol& right) const { return merges_.find(left.id, right.id).rank; }

  /// Merges by scanning all pairs. Symbols stay contiguous: a merge shifts the later ones.
  void merge_few(std::vector<Symbol>& symbols, std::vector<std::uint32_t>& ranks) const {
    if (symbols.size() < 2) return;
    ranks.resize(symbols.size() - 1);
    for (std::size_t i = 0; i < ranks.size(); ++i) ranks[i] = rank(symbols[i], symbols[i + 1]);
    while (!ranks.empty()) {
      const auto best = std::min_element(ranks.begin(), ranks.end());
      if (*best == kNoRank) return;
      const auto at = static_cast<std::size_t>(best - ranks.begin());
      symbols[at].id = merges_.find(symbols[at].id, symbols[at + 1].id).id;
      symbols[at].length += symbols[at + 1].length;
      symbols.erase(symbols.begin() + static_cast<std::ptrdiff_t>(at) + 1);
      ranks.erase(best);
      if (at > 0) ranks[at - 1] = rank(symbols[at - 1], symbols[at]);
      if (at < ranks.size()) ranks[at] = rank(symbols[at], symbols[at + 1]);
    }
  }

  /// Merges with a priority queue. Candidates that an earlier merge made stale are skipped when popped.
  void merge_many(std::vector<Symbol>& symbols, std::vector<Candidate>& queue) const {
    const auto later = [](const Candidate& a, const Candidate& b) {
      return std::tie(a.rank, a.position) > std::tie(b.rank, b.position);
    };
    queue.clear();
    for (std::uint32_t i = 0; i + 1 < symbols.size(); ++i)
      if (const auto found = merges_.find(symbols[i].id, symbols[i + 1].id); found.rank != kNoRank)
        queue.push_back({found.rank, i, found.id});
    std::make_heap(queue.begin(), queue.end(), later);
    const auto consider = [&](std::int32_t left, std::int32_t right) {
      if (left < 0 || right < 0) return;
      const auto found =
          merges_.find(symbols[static_cast<std::size_t>(left)].id, symbols[static_cast<std::size_t>(right)].id);
      if (found.rank == kNoRank) return;
      queue.push_back({found.rank, static_cast<std::uint32_t>(left), found.id});
      std::push_heap(queue.begin(), queue.end(), later);
    };
    while (!queue.empty()) {
      const Candidate top = queue.front();
      std::pop_heap(queue.begin(), queue.end(), later);
      queue.pop_back();
      Symbol& left = symbols[top.position];
      if (left.length == 0 || left.next < 0) continue;
      Symbol& right = symbols[static_cast<std::size_t>(left.next)];
      const auto found = merges_.find(left.id, right.id);
      if (found.rank == kNoRank || found.id != top.id) continue;
      left.id = top.id;
      left.length += right.length;
      right.length = 0;
      left.next = right.next;
      if (left.next >= 0)
        symbols[static_cast<std::size_t>(left.next)].previous = static_cast<std::int32_t>(top.position);
      consider(left.previous, static_cast<std::int32_t>(top.position));
      consider(static_cast<std::int32_t>(top.position), left.next);
    }
  }

  BpeOptions options_;
  Merges merges_;
  std::optional<std::uint32_t> unknown_;
  TextMap by_bytes_;                               // the vocabulary in raw bytes, without GPT-2's byte characters
  std::array<std::uint32_t, 256> byte_ids_{};      // ids of words of one byte
  std::array<std::uint32_t, 256> fallback_ids_{};  // ids of tokens such as "<0x41>"
  mutable std::vector<std::atomic<std::uint8_t>> states_;
};

}  // namespace

std::unique_ptr<Model> bpe_model(BpeOptions options) {
  return std::make_unique<Bpe>(std::move(options));
}

bool has_all_bytes(const Vocabulary& vocabulary) {
  for (const char32_t code : byte_chars()) {
    std::string text;
    core::append_utf8(text, code);
    if (!vocabulary.find(text)) return false;
  }
  return true;
}

}  // namespace trainctl::tokenizer
