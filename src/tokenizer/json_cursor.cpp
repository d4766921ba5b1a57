#include "tokenizer/json_cursor.h"

#include "core/utf8.h"

namespace trainctl::tokenizer {

bool JsonCursor::has(std::string_view key) const {
  if (!value_->is_object()) return false;
  const auto found = value_->find(key);
  return found != value_->end() && !found->is_null();
}

JsonCursor JsonCursor::at(std::string_view key) const {
  if (!value_->is_object()) throw error("expected an object");
  const auto found = value_->find(key);
  if (found == value_->end()) throw error("'" + std::string(key) + "' is missing");
  return {*found, where_ + (where_.ends_with(": ") ? "" : ".") + std::string(key)};
}

std::optional<JsonCursor> JsonCursor::find(std::string_view key) const {
  if (!has(key)) return std::nullopt;
  return at(key);
}

std::vector<JsonCursor> JsonCursor::list() const {
  if (!value_->is_array()) throw error("expected a list");
  std::vector<JsonCursor> parts;
  parts.reserve(value_->size());
  for (std::size_t i = 0; i < value_->size(); ++i)
    parts.emplace_back((*value_)[i], where_ + "[" + std::to_string(i) + "]");
  return parts;
}

std::string JsonCursor::text() const {
  if (!value_->is_string()) throw error("expected a text");
  return value_->get<std::string>();
}

std::uint32_t JsonCursor::id() const {
  const std::uint64_t number = count();
  if (number > kMaxTokenId) throw error("token id " + std::to_string(number) + " is too large");
  return static_cast<std::uint32_t>(number);
}

char32_t JsonCursor::character() const {
  const std::string one = text();
  if (one.empty() || core::decode_at(one, 0).length != one.size()) throw error("expected one character");
  return core::decode_at(one, 0).code;
}

bool JsonCursor::flag() const {
  if (!value_->is_boolean()) throw error("expected true or false");
  return value_->get<bool>();
}

std::uint64_t JsonCursor::count() const {
  if (!value_->is_number_unsigned()) throw error("expected a number, not negative");
  return value_->get<std::uint64_t>();
}

std::string JsonCursor::text_or(std::string_view key, std::string_view fallback) const {
  return has(key) ? at(key).text() : std::string(fallback);
}

bool JsonCursor::flag_or(std::string_view key, bool fallback) const {
  return has(key) ? at(key).flag() : fallback;
}

std::optional<std::string> JsonCursor::optional_text(std::string_view key) const {
  if (!has(key)) return std::nullopt;
  return at(key).text();
}

std::string JsonCursor::type() const {
  return at("type").text();
}

}  // namespace trainctl::tokenizer
