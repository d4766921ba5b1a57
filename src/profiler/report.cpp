#include <algorithm>

#include "core/text.h"
#include "profiler/summary.h"

namespace trainctl::profiler {
namespace {

constexpr std::size_t kWidth = 100;
constexpr std::size_t kNumOperators = 10;

std::string left(std::string text, std::size_t width) {
  if (text.size() > width) text = text.substr(0, width - 3) + "...";
  text.resize(width, ' ');
  return text;
}

std::string right(const std::string& text, std::size_t width) {
  return text.size() >= width ? text : std::string(width - text.size(), ' ') + text;
}

std::string percent_of(double part, double whole) {
  return whole > 0 ? core::format_percent(part / whole, 1) : "-";
}

/// Returns the text without blanks at its end, as a line.
std::string line(std::string text) {
  text.erase(text.find_last_not_of(' ') + 1);
  return text + "\n";
}

std::string split_table(const StepSummary& steps) {
  std::string table = line(left("", 20) + right("ms", 10) + right("share", 10) + right("min", 10) + right("max", 10));
  for (std::size_t i = 0; i < kNumParts; ++i) {
    const Part part = static_cast<Part>(i);
    const Spread& time = steps.split[i];
    table += line(left(name_of(part), 20) + right(core::format_fixed(time.mean_ms, 2), 10) +
                  right(percent_of(time.mean_ms, steps.time.mean_ms), 10) +
                  right(core::format_fixed(time.min_ms, 2), 10) + right(core::format_fixed(time.max_ms, 2), 10));
  }
  return table + line(left("step", 20) + right(core::format_fixed(steps.time.mean_ms, 2), 10) + right("", 10) +
                      right(core::format_fixed(steps.time.min_ms, 2), 10) +
                      right(core::format_fixed(steps.time.max_ms, 2), 10));
}

std::string operator_table(const ProfileSummary& summary) {
  const auto& rows = summary.operators.rows;
  const std::size_t count = std::min(rows.size(), kNumOperators);
  std::size_t name_width = std::string_view("operator").size();
  for (std::size_t i = 0; i < count; ++i) name_width = std::max(name_width, rows[i].name.size());
  name_width = std::min<std::size_t>(name_width, 45);
  constexpr std::size_t kNumbers = 8 + 10 + 9;
  const std::size_t shapes_width = kWidth - name_width - kNumbers - 2;
  std::string table =
      line(left("operator", name_width) + right("calls", 8) + right("self ms", 10) + right("share", 9) + "  shapes");
  for (std::size_t i = 0; i < count; ++i) {
    const OperatorSummary& row = rows[i];
    table +=
        line(left(row.name, name_width) + right(core::format_fixed(row.calls, 1), 8) +
             right(core::format_fixed(row.self_ms, 2), 10) +
             right(percent_of(row.self_ms, summary.steps.time.mean_ms), 9) + "  " + left(row.shapes, shapes_width));
  }
  return table;
}

std::string findings_text(const std::vector<Finding>& findings) {
  if (findings.empty()) return "\nNothing to change was found.\n";
  std::string text = "\n";
  for (std::size_t i = 0; i < findings.size(); ++i) {
    const Finding& finding = findings[i];
    text += std::to_string(i + 1) + ". " + finding.what + "\n   evidence: " + finding.evidence + "\n";
    for (const Change& change : finding.changes) text += "   change:   " + yaml_line(change) + "\n";
    text += "   gain:     " + finding.gain + "\n";
  }
  return text;
}

}  // namespace

std::string format_text(const ProfileSummary& summary) {
  if (summary.num_steps() == 0) return "no step was recorded\n";
  std::string text = "A step takes " + core::format_fixed(summary.steps.time.mean_ms, 2) + " ms (mean of " +
                     std::to_string(summary.num_steps()) + "); memory peaks at " +
                     core::format_fixed(summary.memory.peak.allocated, 1) + " MiB.\n\n";
  text += split_table(summary.steps);
  text += "\nThe slowest operators, by their own time in a step:\n\n" + operator_table(summary);
  text += findings_text(summary.findings);
  text += "\nreport: " + summary.run.directory + "/profile/report.html\n";
  for (const TraceFile& trace : summary.traces) {
    text += "trace:  " + trace.path + "\n";
    if (!trace.dropped.empty()) text += "        left out to stay below its limit: " + trace.dropped + "\n";
  }
  if (summary.memory_snapshot) text += "memory: " + *summary.memory_snapshot + " (for pytorch.org/memory_viz)\n";
  return text;
}

}  // namespace trainctl::profiler
