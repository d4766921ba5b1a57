#include "compare/report.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "compare/ablation.js.h"
#include "compare/text_table.h"
#include "core/json.h"
#include "core/text.h"
#include "html_report/page.h"

namespace trainctl::compare {
namespace {

constexpr auto kReplace = nlohmann::ordered_json::error_handler_t::replace;

std::string times(double ratio) {
  return core::format_fixed(ratio, 2) + "×";
}

std::string interval(const Estimate& estimate) {
  constexpr double kMaxIntervalRatio =
      100;  // intervals whose ends differ by a larger factor are printed as "too noisy"
  if (!std::isfinite(estimate.high)) return "one round";
  if (estimate.high > kMaxIntervalRatio * estimate.low) return "too noisy";
  return core::format_fixed(estimate.low, 2) + "–" + core::format_fixed(estimate.high, 2);
}

std::string signed_percent(double share) {
  return (std::signbit(share) ? "" : "+") + core::format_percent(share, 2);
}

std::vector<TextRow> rows_of(const AblationReport& report) {
  std::vector<TextRow> rows{{"variant", "step ms", "samples/s", "peak MiB", "speed", "95 %", "memory", "loss"}};
  for (std::size_t i = 0; i < report.results.size(); ++i) {
    const VariantFigures& its = report.figures[i];
    const bool is_baseline = i == 0;
    rows.push_back({report.results[i].variant.name, core::format_fixed(its.step_ms, 1),
                    core::format_fixed(its.samples_per_s, 1), core::format_fixed(its.peak_mib, 0),
                    times(its.speedup.mean), is_baseline ? "" : interval(its.speedup), times(its.memory),
                    is_baseline ? "" : signed_percent(its.loss_gap)});
  }
  return rows;
}

/// Keys of a section with their values, such as "mode: bf16, loss_scaling: none", or the section's own value.
struct Section {
  std::string name;
  std::string value;
  std::vector<std::string> keys;
};

/// Turns assignments such as "amp.mode=bf16" into YAML lines such as "amp: {mode: bf16}".
std::vector<std::string> as_yaml(const std::vector<std::string>& assignments) {
  std::vector<Section> sections;
  for (const std::string& assignment : assignments) {
    const std::size_t equals = assignment.find('=');
    const std::size_t dot = std::min(assignment.find('.'), equals);
    const std::string name = assignment.substr(0, dot);
    const std::string value = assignment.substr(equals + 1);
    auto section = std::ranges::find(sections, name, &Section::name);
    if (section == sections.end()) section = sections.insert(sections.end(), Section{.name = name});
    if (dot == equals)
      section->value = value;
    else
      section->keys.push_back(assignment.substr(dot + 1, equals - dot - 1) + ": " + value);
  }
  std::vector<std::string> lines;
  for (const Section& section : sections) {
    std::string keys;
    for (const std::string& key : section.keys) keys += (keys.empty() ? "" : ", ") + key;
    lines.push_back(section.name + ": " + (section.keys.empty() ? section.value : "{" + keys + "}"));
  }
  return lines;
}

std::vector<std::string> recommended_lines(const AblationReport& report) {
  return as_yaml(recommended_changes(report.strategies, report.results, report.figures, report.recommended));
}

std::string advice(const AblationReport& report) {
  const VariantFigures& best = report.figures[report.recommended];
  if (report.num_rounds < 2) return "nothing: one round can't tell a gain from chance; --rounds 3 or more can";
  if (recommended_lines(report).empty())
    return "nothing to change: " + (report.recommended == 0
                                        ? std::string("no strategy is surely faster than the baseline here")
                                        : "the experiment has what is fastest here");
  return report.results[report.recommended].variant.name + ": " + times(best.speedup.mean) + " the baseline's speed, " +
         times(best.memory) + " its memory";
}

std::string conditions(const AblationReport& report) {
  return report.machine + ", " + std::to_string(report.num_rounds) + " interleaved rounds of " +
         std::to_string(report.num_steps) + " steps";
}

nlohmann::ordered_json document_of(const AblationReport& report) {
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
  return {{"experiment", report.experiment},  {"machine", report.machine},
          {"steps", report.num_steps},        {"rounds", report.num_rounds},
          {"variants", std::move(variants)},  {"recommended", report.results[report.recommended].variant.name},
          {"yaml", recommended_lines(report)}};
}

}  // namespace

std::string format_table(const AblationReport& report) {
  std::string text = conditions(report) + "\n\n" + align(rows_of(report)) + "\nrecommended: " + advice(report) + "\n";
  const std::vector<std::string> lines = recommended_lines(report);
  for (const std::string& line : lines) text += "  " + line + "\n";
  if (!lines.empty())
    text +=
        "in the experiment file (a section that is there takes the key), or in a new one that begins with 'base: ' and "
        "its name\n";
  return text;
}

std::string format_json(const AblationReport& report) {
  return core::indented_json(document_of(report));
}

std::string format_html(const AblationReport& report) {
  nlohmann::ordered_json data = document_of(report);
  data["conditions"] = conditions(report);
  data["advice"] = advice(report);
  return html_report::format_page({.title = report.experiment + ": what each strategy is worth",
                                   .data = data.dump(-1, ' ', false, kReplace),
                                   .script = kCompareAblationJs});
}

}  // namespace trainctl::compare
