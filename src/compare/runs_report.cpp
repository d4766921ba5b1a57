#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "compare/record_json.h"
#include "compare/runs.h"
#include "compare/runs.js.h"
#include "compare/text_table.h"
#include "core/json.h"
#include "core/text.h"
#include "html_report/page.h"

namespace trainctl::compare {
namespace {

using nlohmann::ordered_json;

constexpr const char* kUnknown = "–";

std::string print_count(double value) {
  return core::format_count(std::llround(value));
}

std::string print_share(double value) {
  return core::format_percent(value, 1);
}

/// Table with a row per figure and a column per run.
class FigureTable {
 public:
  explicit FigureTable(const std::vector<RunRecord>& runs) : runs_(runs) {
    rows_.push_back({""});
    for (const RunRecord& run : runs) rows_.front().push_back(run.name);
  }

  /// Adds a row unless no run has the figure.
  template <class Get, class Print>
  void add(const std::string& name, const Get& get, const Print& printed) {
    TextRow row{name};
    bool any = false;
    for (const RunRecord& run : runs_) {
      const auto value = get(run);
      any = any || value;
      row.push_back(value ? printed(*value) : kUnknown);
    }
    if (any) rows_.push_back(std::move(row));
  }

  void add_metrics(const std::string& prefix, NamedValues RunRecord::*values) {
    std::vector<std::string> names;  // of all runs, in the order of first appearance
    for (const RunRecord& run : runs_)
      for (const auto& [name, value] : run.*values)
        if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
    for (const std::string& name : names)
      add(
          prefix + name,
          [&](const RunRecord& run) {
            const auto found = std::ranges::find(run.*values, name, &NamedValues::value_type::first);
            return found == (run.*values).end() ? std::nullopt : std::optional(found->second);
          },
          core::format_metric);
  }

  std::string text() const { return align(rows_); }

 private:
  const std::vector<RunRecord>& runs_;
  std::vector<TextRow> rows_;
};

std::string figures_text(const std::vector<RunRecord>& runs) {
  const auto one_decimal = [](double value) { return core::format_fixed(value, 1); };
  const auto get = [](auto member) { return [member](const RunRecord& run) { return run.*member; }; };
  const auto as_it_is = [](const std::string& text) { return text; };
  FigureTable table(runs);
  table.add(
      "state", [](const RunRecord& run) { return std::optional(run.state); }, as_it_is);
  table.add(
      "steps", [](const RunRecord& run) { return std::optional<double>(run.steps); }, print_count);
  table.add_metrics("final ", &RunRecord::final_metrics);
  table.add_metrics("best ", &RunRecord::best_metrics);
  table.add("best at step", get(&RunRecord::best_step), print_count);
  table.add("median step ms", get(&RunRecord::median_step_ms), [](double ms) { return core::format_fixed(ms, 2); });
  table.add("samples/s", get(&RunRecord::samples_per_s), one_decimal);
  table.add(
      "tokens/s",
      [](const RunRecord& run) { return run.tokens_per_s.value_or(0) > 0 ? run.tokens_per_s : std::nullopt; },
      print_count);
  table.add("data wait", get(&RunRecord::data_wait_share), print_share);
  table.add("peak MiB", get(&RunRecord::peak_memory_mib), one_decimal);
  table.add("time", get(&RunRecord::wall_s), core::format_duration);
  table.add("parameters", get(&RunRecord::num_parameters), print_count);
  table.add(
      "device", [](const RunRecord& run) { return run.device.empty() ? std::nullopt : std::optional(run.device); },
      as_it_is);
  return table.text();
}

/// Shortens a value. The ends of paths and lists distinguish them, so the ends stay.
std::string shortened(const std::string& value) {
  constexpr std::size_t kMost = 40;
  if (value.size() <= kMost) return value;
  std::size_t from = value.size() - kMost + 1;
  while (from < value.size() && (static_cast<unsigned char>(value[from]) & 0xc0) == 0x80) ++from;
  return "…" + value.substr(from);
}

std::string differences_text(const RunComparison& comparison) {
  if (comparison.runs.size() < 2) return "";
  if (comparison.differences.empty()) return "\nThe configs that can be read are the same.\n";
  std::vector<TextRow> rows{{"config"}};
  for (const RunRecord& run : comparison.runs) rows.front().push_back(run.name);
  for (const ConfigDifference& difference : comparison.differences) {
    rows.push_back({difference.key});
    for (const auto& value : difference.values) rows.back().push_back(shortened(value.value_or(kUnknown)));
  }
  return "\n" + align(rows);
}

ordered_json document_of(const RunComparison& comparison) {
  ordered_json runs = ordered_json::array();
  for (const RunRecord& run : comparison.runs) {
    ordered_json one{{"name", run.name}, {"path", run.path.string()}, {"state", run.state}, {"remarks", run.remarks}};
    one.update(figures_of(run));
    one["device"] = run.device.empty() ? ordered_json(nullptr) : ordered_json(run.device);
    runs.push_back(std::move(one));
  }
  ordered_json differences = ordered_json::array();
  for (const ConfigDifference& difference : comparison.differences) {
    ordered_json values = ordered_json::array();
    for (const auto& value : difference.values) values.push_back(or_null(value));
    differences.push_back({{"key", difference.key}, {"values", std::move(values)}});
  }
  return {{"runs", std::move(runs)}, {"config_differences", std::move(differences)}};
}

/// Returns [{"run": 0, "name": "loss", "step": […], "seconds": […], "value": […]}, …], with as many points as a small
/// page can hold.
ordered_json curves_of(const std::vector<RunRecord>& runs) {
  constexpr std::size_t kAllPoints = 60'000, kFew = 60, kMany = 2'000;
  std::size_t count = 0;
  for (const RunRecord& run : runs) count += run.curves.size();
  const std::size_t most = std::clamp(kAllPoints / std::max<std::size_t>(1, count), kFew, kMany);
  ordered_json curves = ordered_json::array();
  for (std::size_t i = 0; i < runs.size(); ++i)
    for (const Curve& whole : runs[i].curves) {
      ordered_json steps = ordered_json::array(), seconds = ordered_json::array(), values = ordered_json::array();
      for (const CurvePoint& point : thin(whole, most).points) {
        steps.push_back(point.step);
        seconds.push_back(rounded(point.seconds));
        values.push_back(rounded(point.value));
      }
      curves.push_back({{"run", i}, {"name", whole.name}, {"step", steps}, {"seconds", seconds}, {"value", values}});
    }
  return curves;
}

/// Returns for each run what its newest evaluation says of classes; null of a run without any. Matrices of many classes
/// are left out.
ordered_json evaluations_of(const std::vector<RunRecord>& runs) {
  constexpr std::size_t kMostClasses = 1'000, kMostMatrixClasses = 24;
  ordered_json evaluations = ordered_json::array();
  for (const RunRecord& run : runs) {
    if (!run.evaluation || run.evaluation->classes.empty() || run.evaluation->classes.size() > kMostClasses) {
      evaluations.push_back(nullptr);
      continue;
    }
    ordered_json classes = ordered_json::array();
    for (const ClassFigures& one : run.evaluation->classes)
      classes.push_back({{"name", one.name}, {"count", or_null(one.count)}, {"f1", or_null(one.f1)}});
    const bool has_matrix = run.evaluation->confusion.size() <= kMostMatrixClasses;
    evaluations.push_back(
        {{"step", run.evaluation->step},
         {"classes", std::move(classes)},
         {"confusion", has_matrix ? ordered_json(run.evaluation->confusion) : ordered_json::array()}});
  }
  return evaluations;
}

}  // namespace

std::string format_table(const RunComparison& comparison) {
  std::string text = figures_text(comparison.runs) + differences_text(comparison);
  for (const RunRecord& run : comparison.runs)
    for (const std::string& remark : run.remarks) text += "\n" + run.name + ": " + remark;
  return text.ends_with("\n") ? text : text + "\n";
}

std::string format_json(const RunComparison& comparison) {
  return core::indented_json(document_of(comparison));
}

std::string format_html(const RunComparison& comparison) {
  ordered_json data = document_of(comparison);
  data["curves"] = curves_of(comparison.runs);
  data["evaluations"] = evaluations_of(comparison.runs);
  const std::size_t count = comparison.runs.size();
  const std::string title = count == 1 ? comparison.runs.front().name : std::to_string(count) + " runs compared";
  return html_report::format_page({.title = title,
                                   .data = data.dump(-1, ' ', false, ordered_json::error_handler_t::replace),
                                   .script = kCompareRunsJs});
}

}  // namespace trainctl::compare
