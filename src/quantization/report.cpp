#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>

#include "core/json.h"
#include "core/text.h"
#include "html_report/page.h"
#include "quantization/measure.h"
#include "quantization/report.js.h"

namespace trainctl::quantization {
namespace {

using Json = nlohmann::ordered_json;

constexpr auto kReplace = Json::error_handler_t::replace;

template <class... Values>
std::string line(const char* format, Values... values) {
  const int size = std::snprintf(nullptr, 0, format, values...);
  std::string text(static_cast<std::size_t>(size), '\0');
  std::snprintf(text.data(), text.size() + 1, format, values...);
  return text + "\n";
}

Json metrics_of(const NamedMetrics& metrics) {
  Json document = Json::object();
  for (const auto& [name, value] : metrics) document[name] = value;
  return document;
}

Json cost_of(const ModelCost& cost) {
  return {{"bytes", cost.bytes},
          {"latency",
           {{"batch_1_ms", cost.latency.batch_1_ms},
            {"best_batch", cost.latency.best_batch},
            {"best_ms_per_sample", cost.latency.best_ms_per_sample}}},
          {"metrics", metrics_of(cost.metrics)}};
}

double ratio(double after, double before) {
  return before > 0 ? after / before : 0;
}

Json document_of(const QuantizationReport& report, const Quantization& quantization) {
  const QuantizationRecipe& recipe = quantization.recipe();
  Json document = {
      {"method", config::name_of(recipe.method)},
      {"backend", config::name_of(recipe.backend)},
      {"activation_bits", recipe.activation_bits},
      {"weight_bits", recipe.weight_bits},
      {"group_size", recipe.group_size},
      {"before", cost_of(report.before)},
      {"after", cost_of(report.after)},
      {"size_ratio", ratio(static_cast<double>(report.after.bytes), static_cast<double>(report.before.bytes))}};
  document["blocks"] = Json::array();
  for (const BlockError& block : report.blocks)
    document["blocks"].push_back({{"name", block.block}, {"relative_error", block.relative_error}});
  document["layers"] = Json::array();
  for (const LayerChoice& layer : quantization.layers()) {
    Json entry = {{"name", layer.name}, {"num_weights", layer.num_weights}, {"quantized", layer.kept_because.empty()}};
    if (!layer.kept_because.empty()) entry["kept_because"] = layer.kept_because;
    for (const LayerError& error : report.layers)
      if (error.layer == layer.name) {
        entry["relative_error"] = error.relative_error;
        entry["metrics"] = metrics_of(error.metrics);
      }
    document["layers"].push_back(entry);
  }
  if (!report.layers.empty())
    document["sweep"] = {{"samples", report.sweep_samples}, {"float_metrics", metrics_of(report.sweep_before)}};
  return document;
}

/// Returns "  accuracy 0.9  loss 0.3".
std::string in_words(const NamedMetrics& metrics) {
  std::string text;
  for (const auto& [name, value] : metrics) text += "  " + name + " " + core::format_digits(value, 5);
  return text;
}

/// Returns "1.36× slower", "2.10× faster", or "the same speed" within one percent.
std::string speed_change(double before_ms, double after_ms) {
  constexpr double kNoChange = 0.01;
  const double slower = ratio(after_ms, before_ms);
  if (std::abs(slower - 1) < kNoChange) return "the same speed";
  return slower > 1 ? core::format_fixed(slower, 2) + "× slower" : core::format_fixed(1 / slower, 2) + "× faster";
}

}  // namespace

std::string as_table(const QuantizationReport& report, const Quantization& quantization) {
  const auto& [before, after, blocks, layers, sweep_samples, sweep_before] = report;
  std::string text = line("%-22s %14s %14s  %s", "", "before", "after", "change");
  text += line("%-22s %14s %14s   %.3f times", "size", core::format_bytes(static_cast<double>(before.bytes)).c_str(),
               core::format_bytes(static_cast<double>(after.bytes)).c_str(),
               ratio(static_cast<double>(after.bytes), static_cast<double>(before.bytes)));
  text += line("%-22s %11.3f ms %11.3f ms   %s", "one sample", before.latency.batch_1_ms, after.latency.batch_1_ms,
               speed_change(before.latency.batch_1_ms, after.latency.batch_1_ms).c_str());
  text += line("%-22s %11.3f ms %11.3f ms   %s", "per sample, best batch", before.latency.best_ms_per_sample,
               after.latency.best_ms_per_sample,
               speed_change(before.latency.best_ms_per_sample, after.latency.best_ms_per_sample).c_str());
  text += line("%-22s %14lld %14lld", "  batch", static_cast<long long>(before.latency.best_batch),
               static_cast<long long>(after.latency.best_batch));
  for (std::size_t i = 0; i < after.metrics.size() && i < before.metrics.size(); ++i)
    text += line("%-22s %14.6g %14.6g %+9.4g", after.metrics[i].first.c_str(), before.metrics[i].second,
                 after.metrics[i].second, after.metrics[i].second - before.metrics[i].second);
  text += "\nrelative error after each block\n";
  for (const BlockError& block : blocks) text += line("  %-38s %9.4f", block.block.c_str(), block.relative_error);
  if (!layers.empty()) {
    text += "\neach layer quantized alone: relative error at the output, metrics on " +
            core::format_count(sweep_samples) + " samples\n";
    text += line("  %-38s %9s%s", "before, on the same samples", "", in_words(sweep_before).c_str());
  }
  for (const LayerError& layer : layers) {
    text += line("  %-38s %9.4f%s", layer.layer.c_str(), layer.relative_error, in_words(layer.metrics).c_str());
  }
  std::map<std::string, std::vector<std::string>> kept;  // by why
  for (const LayerChoice& layer : quantization.layers())
    if (!layer.kept_because.empty()) kept[layer.kept_because].push_back(layer.name);
  for (const auto& [why, names] : kept) text += "stays in float: " + core::list_words(names) + " (" + why + ")\n";
  return text;
}

std::string as_json(const QuantizationReport& report, const Quantization& quantization) {
  return core::indented_json(document_of(report, quantization));
}

std::string as_page(const QuantizationReport& report, const Quantization& quantization, const std::string& experiment) {
  return html_report::format_page({.title = experiment + ": what fewer bits give and cost",
                                   .data = document_of(report, quantization).dump(-1, ' ', false, kReplace),
                                   .script = kQuantizationReportJs});
}

}  // namespace trainctl::quantization
