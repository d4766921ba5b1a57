// Tokens by text and by id.
#pragma once

#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/json_cursor.h"

namespace trainctl::tokenizer {

/// A fixed map from texts to numbers: open addressing over one block of text.
class TextMap {
 public:
  /// The last of equal texts wins.
  void add(std::string_view text, std::uint32_t value) { entries_.push_back(make_entry(text, value)); }
  /// Must follow the last add(). Returns how many different texts there are.
  std::size_t finish();
  /// The value, or kNone.
  std::uint32_t find(std::string_view text) const { return find(text, hash(text)); }
  std::uint32_t find(std::string_view text, std::uint64_t hash) const {
    if (slots_.empty() || text.size() > longest_) return kNone;
    for (std::size_t slot = hash & mask_;; slot = (slot + 1) & mask_) {
      const Slot& seen = slots_[slot];
      if (seen.value == kNone) return kNone;
      if (seen.tag == static_cast<std::uint32_t>(hash >> 32) && seen.size == text.size() &&
          std::memcmp(arena_.data() + seen.begin, text.data(), text.size()) == 0)
        return seen.value;
    }
  }
  static std::uint64_t hash(std::string_view text);
  std::size_t longest() const { return longest_; }  // bytes
  static constexpr std::uint32_t kNone = 0xFFFFFFFF;

 private:
  struct Entry {
    std::uint64_t begin;
    std::uint32_t size, value;
  };
  struct Slot {
    std::uint32_t tag = 0, size = 0;
    std::uint64_t begin = 0;
    std::uint32_t value = kNone;
  };
  Entry make_entry(std::string_view text, std::uint32_t value);

  std::string arena_;
  std::vector<Entry> entries_;
  std::vector<Slot> slots_;
  std::size_t mask_ = 0;
  std::size_t longest_ = 0;
};

class Vocabulary {
 public:
  /// An id has one text, a text one id: the last ones added.
  void add(std::string text, std::uint32_t id);
  void finish() { size_ = by_text_.finish(); }

  std::optional<std::uint32_t> find(std::string_view text) const {
    const std::uint32_t id = by_text_.find(text);
    return id == TextMap::kNone ? std::nullopt : std::optional(id);
  }
  const TextMap& by_text() const { return by_text_; }
  /// "" where the id has no token.
  const std::string& text(std::uint32_t id) const;
  bool has(std::uint32_t id) const { return id < texts_.size() && used_[id] != 0; }
  /// One more than the largest id.
  std::size_t end() const { return texts_.size(); }
  /// How many different texts there are.
  std::size_t size() const { return size_; }

 private:
  TextMap by_text_;
  std::vector<std::string> texts_;
  std::vector<std::uint8_t> used_;
  std::size_t size_ = 0;
};

/// {"token": id, …}.
Vocabulary read_vocabulary(const JsonCursor& json);

}  // namespace trainctl::tokenizer
