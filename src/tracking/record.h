// JSON objects of numbers as runs record them: keys in the order given, numbers that read back exactly, and what JSON
// can't say (NaN, infinity) as null beside "non_finite": true.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace trainctl::tracking {

class Record {
 public:
  void text(std::string_view key, std::string_view value);
  void count(std::string_view key, std::int64_t value);
  void number(std::string_view key, double value);
  void object(std::string_view key, nlohmann::ordered_json value);
  void numbers(std::string_view key, const std::vector<std::pair<std::string, double>>& values);

  /// On one line, or indented for people; bytes that aren't UTF-8 are replaced.
  std::string line() const;
  std::string pretty() const;

 private:
  nlohmann::ordered_json finished() const;

  nlohmann::ordered_json json_ = nlohmann::ordered_json::object();
  bool non_finite_ = false;
};

}  // namespace trainctl::tracking
