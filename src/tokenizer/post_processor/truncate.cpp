#include "tokenizer/post_processor/truncate.h"

#include <algorithm>

namespace trainctl::tokenizer {
namespace {

template <typename Value>
void cut(std::vector<Value>& values, std::size_t size, TruncationSide side) {
  if (values.size() <= size) return;
  if (side == TruncationSide::left) values.erase(values.begin(), values.end() - static_cast<std::ptrdiff_t>(size));
  values.resize(size);
}

void cut(PartEncoding& part, std::int64_t length, TruncationSide side) {
  const auto size = static_cast<std::size_t>(length);
  Encoding& encoding = part.encoding;
  cut(encoding.ids, size, side);
  cut(encoding.type_ids, size, side);
  cut(encoding.offsets, size, side);
  cut(encoding.words, size, side);
  cut(encoding.is_special, size, side);
  cut(part.spaces, size, side);
}

std::int64_t length(const PartEncoding& part) {
  return static_cast<std::int64_t>(part.encoding.ids.size());
}

}  // namespace

void truncate(std::vector<PartEncoding>& parts, std::int64_t max_length, TruncationSide side) {
  max_length = std::max<std::int64_t>(max_length, 0);
  if (parts.size() == 1) return cut(parts[0], max_length, side);
  std::int64_t shorter = std::min(length(parts[0]), length(parts[1]));
  std::int64_t longer = std::max(length(parts[0]), length(parts[1]));
  if (shorter + longer <= max_length) return;
  const bool first_is_longer = length(parts[0]) > length(parts[1]);
  longer = shorter > max_length ? shorter : std::max(shorter, max_length - shorter);
  if (shorter + longer > max_length) {
    shorter = max_length / 2;
    longer = shorter + max_length % 2;
  }
  cut(parts[0], first_is_longer ? longer : shorter, side);
  cut(parts[1], first_is_longer ? shorter : longer, side);
}

void append_encoding(Encoding& to, const Encoding& from) {
  to.ids.insert(to.ids.end(), from.ids.begin(), from.ids.end());
  to.type_ids.insert(to.type_ids.end(), from.type_ids.begin(), from.type_ids.end());
  to.offsets.insert(to.offsets.end(), from.offsets.begin(), from.offsets.end());
  to.words.insert(to.words.end(), from.words.begin(), from.words.end());
  to.is_special.insert(to.is_special.end(), from.is_special.begin(), from.is_special.end());
}

}  // namespace trainctl::tokenizer
