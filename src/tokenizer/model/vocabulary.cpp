#include "tokenizer/model/vocabulary.h"

#include <xxhash.h>

#include <bit>

namespace trainctl::tokenizer {

std::uint64_t TextMap::hash(std::string_view text) {
  return XXH3_64bits(text.data(), text.size());
}

TextMap::Entry TextMap::make_entry(std::string_view text, std::uint32_t value) {
  const Entry entry{arena_.size(), static_cast<std::uint32_t>(text.size()), value};
  arena_ += text;
  longest_ = std::max(longest_, text.size());
  return entry;
}

std::size_t TextMap::finish() {
  std::size_t count = 0;
  slots_.assign(std::bit_ceil(entries_.size() * 2 + 2), {});
  mask_ = slots_.size() - 1;
  for (const Entry& entry : entries_) {
    const std::string_view text(arena_.data() + entry.begin, entry.size);
    const std::uint64_t hashed = hash(text);
    const auto tag = static_cast<std::uint32_t>(hashed >> 32);
    std::size_t slot = hashed & mask_;
    const auto is_other = [&](const Slot& seen) {
      return seen.value != kNone &&
             (seen.tag != tag || std::string_view(arena_.data() + seen.begin, seen.size) != text);
    };
    while (is_other(slots_[slot])) slot = (slot + 1) & mask_;
    if (slots_[slot].value == kNone) ++count;
    slots_[slot] = {tag, entry.size, entry.begin, entry.value};
  }
  entries_ = {};
  return count;
}

void Vocabulary::add(std::string text, std::uint32_t id) {
  if (id >= texts_.size()) {
    texts_.resize(id + 1);
    used_.resize(id + 1);
  }
  by_text_.add(text, id);
  texts_[id] = std::move(text);
  used_[id] = 1;
}

const std::string& Vocabulary::text(std::uint32_t id) const {
  static const std::string kEmpty;
  return id < texts_.size() ? texts_[id] : kEmpty;
}

Vocabulary read_vocabulary(const JsonCursor& json) {
  if (!json.value().is_object()) throw json.error("expected an object of tokens and their ids");
  Vocabulary vocabulary;
  for (const auto& [text, id] : json.value().items()) {
    if (!id.is_number_unsigned() || id.get<std::uint64_t>() > kMaxTokenId)
      throw json.error("the id of '" + text + "' is not a number from 0 to " + std::to_string(kMaxTokenId));
    const auto number = id.get<std::uint32_t>();
    if (vocabulary.has(number))
      throw json.error("'" + vocabulary.text(number) + "' and '" + text + "' both have the id " +
                       std::to_string(number) + "; expected one token for each id");
    vocabulary.add(text, number);
  }
  vocabulary.finish();
  return vocabulary;
}

}  // namespace trainctl::tokenizer
