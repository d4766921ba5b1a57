#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "profiler/profiler.h"

namespace trainctl {
namespace {

constexpr std::size_t kWidth = 100;

std::string fixed(double value, int decimals) {
  char text[64];
  std::snprintf(text, sizeof text, "%.*f", decimals, value);
  return text;
}

std::string left(std::string text, std::size_t width) {
  if (text.size() > width) text = text.substr(0, width - 3) + "...";
  text.resize(width, ' ');
  return text;
}

std::string right(const std::string& text, std::size_t width) {
  return text.size() >= width ? text : std::string(width - text.size(), ' ') + text;
}

std::string percent(double part, double whole) {
  return whole > 0 ? fixed(100 * part / whole, 1) + " %" : "-";
}

/// Without the blanks at its end.
std::string line(std::string text) {
  text.erase(text.find_last_not_of(' ') + 1);
  return text + "\n";
}

std::string split_table(const ProfileSummary& summary) {
  std::string table = line(left("span", 20) + right("ms", 10) + right("share", 10) + right("peak MiB", 12));
  for (const auto& [name, ms] : summary.split_ms) {
    const auto peak = summary.peak_mib_by_span.find(name);
    const std::string peak_text = peak == summary.peak_mib_by_span.end() ? "-" : fixed(peak->second, 1);
    table +=
        line(left(name, 20) + right(fixed(ms, 2), 10) + right(percent(ms, summary.step_ms), 10) + right(peak_text, 12));
  }
  return table + line(left("step", 20) + right(fixed(summary.step_ms, 2), 10) + right("", 10) +
                      right(fixed(summary.peak_memory_mib, 1), 12));
}

std::string operator_table(const ProfileSummary& summary) {
  std::size_t name_width = std::string_view("operator").size();
  for (const OperatorTime& op : summary.operators) name_width = std::max(name_width, op.name.size());
  name_width = std::min<std::size_t>(name_width, 45);
  constexpr std::size_t kNumbers = 8 + 10 + 9;
  const std::size_t shapes_width = kWidth - name_width - kNumbers - 2;
  std::string table =
      line(left("operator", name_width) + right("calls", 8) + right("self ms", 10) + right("share", 9) + "  shapes");
  for (const OperatorTime& op : summary.operators) {
    const double calls = static_cast<double>(op.calls) / static_cast<double>(summary.num_steps);
    table +=
        line(left(op.name, name_width) + right(fixed(calls, op.calls % summary.num_steps == 0 ? 0 : 1), 8) +
             right(fixed(op.self_ms, 2), 10) + right(percent(op.share, 1), 9) + "  " + left(op.shapes, shapes_width));
  }
  return table;
}

}  // namespace

std::string format_table(const ProfileSummary& summary) {
  if (summary.num_steps == 0) return "no step was recorded\n";
  std::string text = "A step takes " + fixed(summary.step_ms, 2) + " ms (mean of " + std::to_string(summary.num_steps) +
                     "); memory peaks at " + fixed(summary.peak_memory_mib, 1) + " MiB.\n\n";
  text += split_table(summary);
  text += "\nThe dearest operators, by their own time in a step:\n\n" + operator_table(summary);
  for (const auto& trace : summary.traces) text += "\ntrace: " + trace.string();
  if (!summary.traces.empty()) text += "\n";
  return text;
}

std::string format_json(const ProfileSummary& summary) {
  using nlohmann::ordered_json;
  ordered_json split = ordered_json::array();
  for (const auto& [name, ms] : summary.split_ms)
    split.push_back({{"span", name}, {"ms", ms}, {"share", summary.step_ms > 0 ? ms / summary.step_ms : 0}});
  ordered_json operators = ordered_json::array();
  for (const OperatorTime& op : summary.operators)
    operators.push_back({{"name", op.name},
                         {"shapes", op.shapes},
                         {"calls_per_step", static_cast<double>(op.calls) / static_cast<double>(summary.num_steps)},
                         {"self_ms", op.self_ms},
                         {"share", op.share}});
  ordered_json traces = ordered_json::array();
  for (const auto& trace : summary.traces) traces.push_back(trace.string());
  const ordered_json document{{"num_steps", summary.num_steps},
                              {"step_ms", summary.step_ms},
                              {"split", split},
                              {"operators", operators},
                              {"peak_memory_mib", summary.peak_memory_mib},
                              {"peak_mib_by_span", summary.peak_mib_by_span},
                              {"traces", traces}};
  return document.dump(2);
}

}  // namespace trainctl
