#include "dataset/text/class_labels.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "core/text.h"
#include "dataset/text/reading/column_kind.h"

namespace trainctl::dataset {
namespace {

constexpr std::size_t kMostClasses = 10'000;
constexpr std::size_t kMostListed = 20;

/// Returns "a, b or c"; of many names only the first.
std::string short_list(const std::vector<std::string>& names) {
  return names.size() <= kMostListed ? core::list_words(names, "or") : core::list_first_words(names, kMostListed);
}

}  // namespace

void ClassNames::add(std::string_view name, const std::string& place) {
  if (name.empty()) throw core::Error(place + ": the label is empty").hint("is it the right column?");
  if (names_.find(name) != names_.end()) return;
  names_.emplace(name);
  if (names_.size() > kMostClasses)
    throw core::Error(place + ": label '" + std::string(name.substr(0, 60)) + "' is the " +
                      core::format_count(static_cast<long long>(names_.size())) + "th different one")
        .hint("is it the right column? dataset.label_type: value takes numbers");
}

std::vector<std::string> sorted_as_numbers(std::vector<std::string> names) {
  const auto number_of = [](const std::string& name) { return number_in(name).value_or(std::nan("")); };
  if (std::none_of(names.begin(), names.end(), [&](const std::string& name) { return std::isnan(number_of(name)); }))
    std::sort(names.begin(), names.end(),
              [&](const std::string& a, const std::string& b) { return number_of(a) < number_of(b); });
  else
    std::sort(names.begin(), names.end());
  return names;
}

ClassNumbers::ClassNumbers(std::vector<std::string> names) : names_(std::move(names)) {
  for (std::size_t i = 0; i < names_.size(); ++i) numbers_.emplace(names_[i], static_cast<std::int64_t>(i));
}

std::int64_t ClassNumbers::find(std::string_view name) const {
  const auto found = numbers_.find(std::string(name));
  return found == numbers_.end() ? -1 : found->second;
}

std::int64_t ClassNumbers::of(std::string_view name, const std::string& place) const {
  const std::int64_t number = find(name);
  if (number >= 0) return number;
  const std::string nearest = core::nearest_word(name, names_);
  throw core::Error(place + ": the label '" + std::string(name.substr(0, 60)) + "' is none of the classes: " +
                    short_list(names_) + (nearest.empty() ? "" : "; did you mean '" + nearest + "'?"))
      .hint("dataset.class_names lists them; without it, they are those of the training data");
}

double label_value(std::string_view label, const std::string& place) {
  const std::optional<double> value = is_truth_value(label) ? std::nullopt : number_in(label);
  if (!value || !std::isfinite(*value))
    throw core::Error(place + ": the label should be a number, but is '" + std::string(label.substr(0, 60)) + "'")
        .hint("dataset.label_type: class takes names");
  return *value;
}

}  // namespace trainctl::dataset
