#include "tokenizer/post_processor/truncate.h"

#include <algorithm>

namespace trainctl::tokenizer {
namespace {

void cut(PartEncoding& part, std::int64_t length) {
  const auto size = static_cast<std::size_t>(length);
  Encoding& encoding = part.encoding;
  if (size >= encoding.ids.size()) return;
  encoding.ids.resize(size);
  encoding.type_ids.resize(size);
  encoding.offsets.resize(size);
  encoding.words.resize(size);
  encoding.is_special.resize(size);
  if (part.spaces.size() > size) part.spaces.resize(size);
}

std::int64_t length(const PartEncoding& part) {
  return static_cast<std::int64_t>(part.encoding.ids.size());
}

}  // namespace

void truncate(std::vector<PartEncoding>& parts, std::int64_t max_length) {
  max_length = std::max<std::int64_t>(max_length, 0);
  if (parts.size() == 1) return cut(parts[0], max_length);
  std::int64_t shorter = std::min(length(parts[0]), length(parts[1]));
  std::int64_t longer = std::max(length(parts[0]), length(parts[1]));
  if (shorter + longer <= max_length) return;
  const bool first_is_longer = length(parts[0]) > length(parts[1]);
  longer = shorter > max_length ? shorter : std::max(shorter, max_length - shorter);
  if (shorter + longer > max_length) {
    shorter = max_length / 2;
    longer = shorter + max_length % 2;
  }
  cut(parts[0], first_is_longer ? longer : shorter);
  cut(parts[1], first_is_longer ? shorter : longer);
}

void append_encoding(Encoding& to, const Encoding& from) {
  to.ids.insert(to.ids.end(), from.ids.begin(), from.ids.end());
  to.type_ids.insert(to.type_ids.end(), from.type_ids.begin(), from.type_ids.end());
  to.offsets.insert(to.offsets.end(), from.offsets.begin(), from.offsets.end());
  to.words.insert(to.words.end(), from.words.begin(), from.words.end());
  to.is_special.insert(to.is_special.end(), from.is_special.begin(), from.is_special.end());
}

}  // namespace trainctl::tokenizer
