#include "comparison/report.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "core/html.h"

namespace trainctl {
namespace {

std::string print(const char* format, double value) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), format, value);
  return text.data();
}

std::string times(double ratio) {
  return print("%.2f", ratio) + "×";
}

std::string interval(const Estimate& estimate) {
  constexpr double kUnsure = 100;  // times
  if (!std::isfinite(estimate.high)) return "one round";
  if (estimate.high > kUnsure * estimate.low) return "anything";
  return print("%.2f", estimate.low) + "–" + print("%.2f", estimate.high);
}

std::string percent(double share) {
  return print("%+.2f", 100 * share) + " %";
}

/// What a terminal shows: "×" and "–" are one column.
std::size_t width_of(const std::string& text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

using Row = std::vector<std::string>;

std::vector<Row> rows_of(const AblationReport& report) {
  std::vector<Row> rows{{"variant", "step ms", "samples/s", "peak MiB", "speed", "95 %", "memory", "loss"}};
  for (std::size_t i = 0; i < report.results.size(); ++i) {
    const VariantFigures& its = report.figures[i];
    const bool is_baseline = i == 0;
    rows.push_back({report.results[i].variant.name, print("%.1f", its.step_ms), print("%.1f", its.samples_per_s),
                    print("%.0f", its.peak_mib), times(its.speedup.mean), is_baseline ? "" : interval(its.speedup),
                    times(its.memory), is_baseline ? "" : percent(its.loss_gap)});
  }
  return rows;
}

std::string aligned(const std::vector<Row>& rows) {
  std::vector<std::size_t> widths(rows.front().size());
  for (const Row& row : rows)
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], width_of(row[i]));
  std::string text;
  for (const Row& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      const std::string gap(widths[i] - width_of(row[i]), ' ');
      text += i == 0 ? row[i] + gap : "  " + gap + row[i];
    }
    text += "\n";
  }
  return text;
}

/// "amp.mode=bf16" as a line of a file.
std::string as_yaml(const std::string& assignment) {
  const std::size_t equals = assignment.find('=');
  return assignment.substr(0, equals) + ": " + assignment.substr(equals + 1);
}

std::vector<std::string> recommended_lines(const AblationReport& report) {
  std::vector<std::string> lines;
  for (const std::string& assignment : assignments(report.strategies, report.results[report.recommended].variant.on))
    lines.push_back(as_yaml(assignment));
  return lines;
}

std::string advice(const AblationReport& report) {
  const VariantFigures& best = report.figures[report.recommended];
  if (report.recommended == 0) return "the baseline; none is surely faster on this machine";
  return report.results[report.recommended].variant.name + ": " + times(best.speedup.mean) + " the baseline's speed, " +
         times(best.memory) + " its memory";
}

std::string conditions(const AblationReport& report) {
  return report.machine + ", " + std::to_string(report.num_rounds) + " interleaved rounds of " +
         std::to_string(report.num_steps) + " steps";
}

constexpr std::string_view kHead = R"(<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>Comparison</title><style>
:root { color-scheme: light dark; --bar: #3b82c4; --best: #2e9e6b; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
.scroll { overflow-x: auto; } table { border-collapse: collapse; width: 100%; }
td, th { padding: .25rem .9rem .25rem 0; text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums; }
td:first-child, th:first-child, td.bar, th.bar { text-align: left; } tr.best { font-weight: 600; }
td.bar { width: 30%; min-width: 8rem; } td.bar div { background: var(--bar); height: .75rem; border-radius: 2px; }
tr.best td.bar div { background: var(--best); } pre { padding: .8rem 1rem; border: 1px solid #8886; border-radius: 6px; overflow-x: auto; }
</style></head><body>
)";

}  // namespace

std::string format_table(const AblationReport& report) {
  std::string text = conditions(report) + "\n\n" + aligned(rows_of(report)) + "\nrecommended: " + advice(report) + "\n";
  for (const std::string& line : recommended_lines(report)) text += "  " + line + "\n";
  return text;
}

std::string format_json(const AblationReport& report) {
  auto variants = nlohmann::ordered_json::array();
  for (std::size_t i = 0; i < report.results.size(); ++i) {
    const VariantFigures& its = report.figures[i];
    nlohmann::ordered_json one{{"name", report.results[i].variant.name},
                               {"set", assignments(report.strategies, report.results[i].variant.on)},
                               {"step_ms", its.step_ms},
                               {"samples_per_s", its.samples_per_s},
                               {"peak_memory_mib", its.peak_mib},
                               {"speedup", its.speedup.mean},
                               {"memory", its.memory},
                               {"loss_gap", its.loss_gap}};
    if (std::isfinite(its.speedup.high)) one["speedup_95"] = {its.speedup.low, its.speedup.high};
    variants.push_back(std::move(one));
  }
  const nlohmann::ordered_json document{
      {"experiment", report.experiment},  {"machine", report.machine},
      {"steps", report.num_steps},        {"rounds", report.num_rounds},
      {"variants", std::move(variants)},  {"recommended", report.results[report.recommended].variant.name},
      {"yaml", recommended_lines(report)}};
  return document.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

std::string format_html(const AblationReport& report) {
  std::string page(kHead);
  page += "<h1>" + escape_html(report.experiment) + ": what each strategy is worth</h1>\n<p>" +
          escape_html(conditions(report)) +
          ". Speed is the baseline's step over the variant's, round by round; memory its peak over the baseline's; "
          "loss the "
          "mean over equal steps against the baseline's.</p>\n<div class=\"scroll\"><table>\n";
  const std::vector<Row> rows = rows_of(report);
  double fastest = 0;
  for (const VariantFigures& its : report.figures) fastest = std::max(fastest, its.speedup.mean);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const char* cell = i == 0 ? "th" : "td";
    page += i > 0 && i - 1 == report.recommended ? "<tr class=\"best\">" : "<tr>";
    for (const std::string& text : rows[i])
      page += "<" + std::string(cell) + ">" + escape_html(text) + "</" + cell + ">";
    page += i == 0 ? "<th class=\"bar\">speed</th>"
                   : "<td class=\"bar\"><div style=\"width:" +
                         print("%.1f", 100 * report.figures[i - 1].speedup.mean / fastest) + "%\"></div></td>";
    page += "</tr>\n";
  }
  page += "</table></div>\n<h2>Recommended</h2>\n<p>" + escape_html(advice(report)) + "</p>\n<pre>";
  for (const std::string& line : recommended_lines(report)) page += escape_html(line) + "\n";
  return page + "</pre>\n</body></html>\n";
}

}  // namespace trainctl
