#include "compare/evaluation_file.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>

#include "core/file.h"
#include "core/json.h"

namespace trainctl::compare {
namespace {

using nlohmann::ordered_json;
using Matrix = std::vector<std::vector<std::int64_t>>;

/// Returns the list under a key; an empty one if there is none.
ordered_json list_of(const ordered_json& details, const char* key) {
  const auto found = details.find(key);
  return found != details.end() && found->is_array() ? *found : ordered_json::array();
}

std::optional<double> number_at(const ordered_json& list, std::size_t index) {
  return index < list.size() && list[index].is_number() ? std::optional(list[index].get<double>()) : std::nullopt;
}

/// Returns the square matrix of counts; an empty one if the list is anything else.
Matrix matrix_of(const ordered_json& rows) {
  Matrix matrix;
  for (const ordered_json& row : rows) {
    if (!row.is_array() || row.size() != rows.size()) return {};
    std::vector<std::int64_t> counts;
    for (const ordered_json& count : row) {
      if (!count.is_number_integer()) return {};
      counts.push_back(count.get<std::int64_t>());
    }
    matrix.push_back(std::move(counts));
  }
  return matrix;
}

std::optional<double> ratio(std::int64_t part, std::int64_t whole) {
  return whole == 0 ? std::nullopt : std::optional(static_cast<double>(part) / static_cast<double>(whole));
}

void take_counts(const Matrix& matrix, std::vector<ClassFigures>& classes) {
  for (std::size_t i = 0; i < matrix.size(); ++i) {
    std::int64_t predicted = 0;
    for (const auto& row : matrix) predicted += row[i];
    const std::int64_t labeled = std::accumulate(matrix[i].begin(), matrix[i].end(), std::int64_t{0});
    const std::int64_t hits = matrix[i][i];
    classes[i].count = labeled;
    classes[i].recall = ratio(hits, labeled);
    classes[i].precision = ratio(hits, predicted);
    classes[i].f1 = ratio(2 * hits, labeled + predicted);
  }
}

/// Takes figures from the lists by class. Precision follows from recall and F1, their harmonic mean.
void take_lists(const ordered_json& details, std::vector<ClassFigures>& classes) {
  const ordered_json recall = list_of(details, "per_class_accuracy"), f1 = list_of(details, "per_class_f1");
  for (std::size_t i = 0; i < classes.size(); ++i) {
    ClassFigures& one = classes[i];
    one.recall = number_at(recall, i);
    one.f1 = number_at(f1, i);
    if (one.recall && one.f1 && 2 * *one.recall > *one.f1 && *one.f1 > 0)
      one.precision = *one.f1 * *one.recall / (2 * *one.recall - *one.f1);
  }
}

void take_details(const ordered_json& details, EvaluationFile& evaluation) {
  if (const auto count = details.find("num_samples"); count != details.end() && count->is_number_integer())
    evaluation.num_samples = count->get<std::int64_t>();
  evaluation.confusion = matrix_of(list_of(details, "confusion"));
  const std::size_t num_classes = std::max(evaluation.confusion.size(), list_of(details, "per_class_accuracy").size());
  const ordered_json names = list_of(details, "class_names");
  for (std::size_t i = 0; i < num_classes; ++i)
    evaluation.classes.push_back(
        {.name = i < names.size() && names[i].is_string() ? names[i].get<std::string>() : std::to_string(i)});
  if (evaluation.confusion.empty())
    take_lists(details, evaluation.classes);
  else
    take_counts(evaluation.confusion, evaluation.classes);
}

}  // namespace

std::optional<EvaluationFile> read_evaluation(const std::filesystem::path& run_directory) {
  const std::filesystem::path path = run_directory / "evaluation.json";
  std::error_code unreadable;
  if (!std::filesystem::is_regular_file(path, unreadable)) return std::nullopt;
  const ordered_json file = core::parse_json_or_discard<ordered_json>(core::read_file(path));
  if (!file.is_object()) return std::nullopt;
  EvaluationFile evaluation;
  if (const auto step = file.find("step"); step != file.end() && step->is_number_integer())
    evaluation.step = step->get<std::int64_t>();
  if (const auto seconds = file.find("seconds"); seconds != file.end() && seconds->is_number())
    evaluation.seconds = seconds->get<double>();
  if (const auto metrics = file.find("metrics"); metrics != file.end() && metrics->is_object())
    for (const auto& [name, value] : metrics->items())
      evaluation.metrics.emplace_back(name, value.is_number() ? value.get<double>() : NAN);
  if (const auto details = file.find("details"); details != file.end() && details->is_object())
    take_details(*details, evaluation);
  return evaluation;
}

std::vector<Confusion> most_confused(const EvaluationFile& evaluation, std::size_t most) {
  std::vector<Confusion> confusions;
  for (std::size_t label = 0; label < evaluation.confusion.size(); ++label)
    for (std::size_t prediction = 0; prediction < evaluation.confusion.size(); ++prediction) {
      const std::int64_t count = evaluation.confusion[label][prediction];
      if (label == prediction || count == 0) continue;
      confusions.push_back({.label = evaluation.classes[label].name,
                            .prediction = evaluation.classes[prediction].name,
                            .count = count,
                            .share = ratio(count, evaluation.classes[label].count.value_or(0)).value_or(0)});
    }
  std::stable_sort(confusions.begin(), confusions.end(),
                   [](const Confusion& a, const Confusion& b) { return a.count > b.count; });
  if (confusions.size() > most) confusions.resize(most);
  return confusions;
}

}  // namespace trainctl::compare
