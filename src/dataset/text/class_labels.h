// Names of classes, as the config lists them or the training data has them.
#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace trainctl::dataset {

/// The names that a training set has, sorted. Far too many of them are an Error: the column is wrong.
class ClassNames {
 public:
  void add(std::string_view name, const std::string& place);
  std::vector<std::string> sorted() const { return {names_.begin(), names_.end()}; }

 private:
  std::set<std::string, std::less<>> names_;
};

/// Returns the names in the order of their numbers if all are numbers, else in alphabetical order.
std::vector<std::string> sorted_as_numbers(std::vector<std::string> names);

class ClassNumbers {
 public:
  explicit ClassNumbers(std::vector<std::string> names);
  /// What is none of them is an Error at `place`, with the name that was probably meant.
  std::int64_t of(std::string_view name, const std::string& place) const;
  /// The number of a name, or -1.
  std::int64_t find(std::string_view name) const;
  std::int64_t size() const { return static_cast<std::int64_t>(names_.size()); }
  const std::vector<std::string>& names() const { return names_; }

 private:
  std::vector<std::string> names_;
  std::unordered_map<std::string, std::int64_t> numbers_;
};

/// Returns the number that a label is, for regression; an Error at `place` if it is none.
double label_value(std::string_view label, const std::string& place);

}  // namespace trainctl::dataset
