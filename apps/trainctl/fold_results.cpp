#include "fold_results.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "compare/text_table.h"
#include "core/file.h"
#include "core/json.h"
#include "core/text.h"

namespace trainctl::cli {
namespace {

namespace fs = std::filesystem;

/// Returns an empty object if there is no readable summary.
nlohmann::ordered_json summary_of(const fs::path& run) {
  const fs::path path = run / "summary.json";
  if (!fs::exists(path)) return nlohmann::ordered_json::object();
  auto summary = core::parse_json_or_discard<nlohmann::ordered_json>(core::read_file(path));
  return summary.is_object() ? summary : nlohmann::ordered_json::object();
}

double number_of(const nlohmann::ordered_json& metrics, const std::string& name) {
  const auto found = metrics.find(name);
  return found != metrics.end() && found->is_number() ? found->get<double>() : std::nan("");
}

/// JSON has no nan.
nlohmann::ordered_json json_of(double value) {
  return std::isfinite(value) ? nlohmann::ordered_json(value) : nlohmann::ordered_json(nullptr);
}

}  // namespace

double FoldMetric::mean() const {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

double FoldMetric::standard_deviation() const {
  const double center = mean();
  double squares = 0;
  for (const double value : values) squares += (value - center) * (value - center);
  return std::sqrt(squares / static_cast<double>(values.size() - 1));
}

bool is_finished_run(const fs::path& run) {
  const nlohmann::ordered_json summary = summary_of(run);
  return summary.value("outcome", "") == "finished";
}

std::vector<FoldMetric> metrics_of_folds(const std::vector<fs::path>& runs, const std::string& kind) {
  std::vector<FoldMetric> metrics;
  std::vector<nlohmann::ordered_json> found;
  for (const fs::path& run : runs) found.push_back(summary_of(run).value(kind, nlohmann::ordered_json::object()));
  for (const auto& [name, value] : found.front().items()) {
    FoldMetric metric{.name = name, .values = {}};
    for (const nlohmann::ordered_json& one : found) metric.values.push_back(number_of(one, name));
    metrics.push_back(std::move(metric));
  }
  return metrics;
}

nlohmann::ordered_json as_json(const std::vector<FoldMetric>& metrics) {
  auto document = nlohmann::ordered_json::object();
  for (const FoldMetric& metric : metrics) {
    auto values = nlohmann::ordered_json::array();
    for (const double value : metric.values) values.push_back(json_of(value));
    document[metric.name] = {
        {"mean", json_of(metric.mean())}, {"std", json_of(metric.standard_deviation())}, {"values", std::move(values)}};
  }
  return document;
}

std::string as_table(const std::vector<FoldMetric>& metrics) {
  std::vector<compare::TextRow> rows{{"", "mean", "std"}};
  for (std::size_t fold = 0; fold < metrics.front().values.size(); ++fold)
    rows.front().push_back("fold_" + std::to_string(fold));
  for (const FoldMetric& metric : metrics) {
    compare::TextRow row{metric.name, core::format_digits(metric.mean(), 4),
                         core::format_digits(metric.standard_deviation(), 2)};
    for (const double value : metric.values) row.push_back(core::format_digits(value, 4));
    rows.push_back(std::move(row));
  }
  return compare::align(rows);
}

}  // namespace trainctl::cli
