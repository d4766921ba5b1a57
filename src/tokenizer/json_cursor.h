// Reading a tokenizer's JSON with its place at hand: every complaint names the file and the path inside it.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.h"

namespace trainctl::tokenizer {

using Json = nlohmann::json;

class JsonCursor {
 public:
  JsonCursor(const Json& value, std::string where) : value_(&value), where_(std::move(where)) {}

  const Json& value() const { return *value_; }
  const std::string& where() const { return where_; }
  /// "tokenizer.json: model.vocab: <message>"
  core::Error error(std::string_view message) const { return core::Error(where_ + ": " + std::string(message)); }

  /// Whether the key is there and not null.
  bool has(std::string_view key) const;
  JsonCursor at(std::string_view key) const;
  std::optional<JsonCursor> find(std::string_view key) const;
  /// The elements of a list.
  std::vector<JsonCursor> list() const;

  /// The part's own value.
  std::string text() const;
  std::uint32_t id() const;  // of a token
  char32_t character() const;
  bool flag() const;
  std::uint64_t count() const;

  /// A member's value; the fallback where it isn't there.
  std::string text(std::string_view key) const { return at(key).text(); }
  std::string text_or(std::string_view key, std::string_view fallback) const;
  bool flag_or(std::string_view key, bool fallback) const;
  std::optional<std::string> optional_text(std::string_view key) const;
  /// The name of a component: its "type".
  std::string type() const;

 private:
  const Json* value_;
  std::string where_;
};

/// Ids beyond this are refused, so that tables by id stay small.
inline constexpr std::uint32_t kMaxTokenId = (1U << 24) - 1;

}  // namespace trainctl::tokenizer
