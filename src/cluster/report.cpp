#include "cluster/report.h"

#include <nlohmann/json.hpp>

#include "cluster/explain.h"
#include "compare/text_table.h"
#include "core/json.h"
#include "core/text.h"

namespace trainctl::cluster {
namespace {

using nlohmann::ordered_json;

constexpr std::size_t kLabel = 22;
constexpr double kHour = 3600;

Setup setup_of(const ReportSubject& subject, const Layout& layout) {
  return {.model = subject.request.model, .layout = layout, .cluster = subject.request.cluster};
}

std::string schedule_text(const Layout& layout) {
  if (layout.pipeline == 1) return "-";
  switch (layout.schedule) {
    case ScheduleKind::one_forward_one_backward:
      return "1f1b";
    case ScheduleKind::interleaved:
      return "interleaved " + std::to_string(layout.stages_per_rank);
    case ScheduleKind::zero_bubble_v:
      return "zbv";
    case ScheduleKind::gpipe:
      return "gpipe";
  }
  return "";
}

std::string recomputation_text(const Layout& layout) {
  if (layout.recomputation == Recomputation::none) return "none";
  return layout.recomputation == Recomputation::full ? "full" : "selective_op";
}

double tokens_per_second(const ReportSubject& subject, const Candidate& candidate) {
  return candidate.tokens_per_second(subject.request.model);
}

/// The share of the device's peak that the network's own operations take; causal attention counts half.
double peak_share(const ReportSubject& subject, const Candidate& candidate) {
  const Transformer& model = subject.request.model;
  const double outside =
      static_cast<double>(model.num_parameters()) - static_cast<double>(model.tied ? 0 : model.embedding_parameters());
  const double attention = 12.0 * static_cast<double>(model.num_layers * model.query_size() * model.sequence_length) *
                           (model.causal ? 0.5 : 1.0);
  const double peak = subject.request.cluster.device.peak.at(candidate.layout.precision) * 1e12;
  return (6 * outside + attention) * tokens_per_second(subject, candidate) /
         (peak * static_cast<double>(subject.request.world));
}

/// What a million tokens cost, with the time that interruptions take.
double cost_of_million(const ReportSubject& subject, const Candidate& candidate) {
  return subject.cost_per_hour * static_cast<double>(subject.request.world) / kHour * 1e6 /
         (tokens_per_second(subject, candidate) * subject.goodput.training);
}

std::string share_text(double part, const Candidate& candidate) {
  return core::format_percent(part / candidate.step.total, 1);
}

double exposed_in_layers(const Candidate& candidate) {
  const LayerTimes& layer = candidate.step.layer;
  double most = 0;
  for (const std::int64_t layers : candidate.step.layers) most = std::max(most, static_cast<double>(layers));
  return (layer.tensor_communication.forward + layer.tensor_communication.backward +
          layer.context_communication.forward + layer.context_communication.backward) *
         most * static_cast<double>(candidate.layout.stages_per_rank * candidate.layout.num_micro_batches) *
         candidate.step.straggler;
}

compare::TextRow row_of(const ReportSubject& subject, const std::string& name, const Candidate& one) {
  const Layout& layout = one.layout;
  const auto number = [](std::int64_t value) { return std::to_string(value); };
  return {name,
          number(layout.data),
          number(layout.context),
          number(layout.tensor),
          number(layout.pipeline),
          schedule_text(layout),
          number(layout.micro_batch) + " × " + number(layout.num_micro_batches),
          number(layout.zero),
          recomputation_text(layout),
          core::format_count(static_cast<long long>(tokens_per_second(subject, one))),
          core::format_duration(one.step.total),
          core::format_percent(peak_share(subject, one), 1),
          share_text(one.step.bubble, one),
          core::format_bytes(one.memory.total())};
}

std::string table(const ReportSubject& subject) {
  std::vector<compare::TextRow> rows{{"", "data", "context", "tensor", "pipeline", "schedule", "batch × steps", "zero",
                                      "recomputed", "tokens/s", "step", "of peak", "bubble", "memory"}};
  for (std::size_t i = 0; i < subject.result.best.size(); ++i)
    rows.push_back(row_of(subject, std::to_string(i + 1), subject.result.best[i]));
  if (subject.own) rows.push_back(row_of(subject, "own", *subject.own));
  return compare::align(rows);
}

void add_line(std::string& text, std::string_view label, const std::string& value) {
  text +=
      "  " + std::string(label) + std::string(label.size() < kLabel ? kLabel - label.size() : 1, ' ') + value + "\n";
}

void add_goodput(std::string& text, const ReportSubject& subject) {
  const Goodput& goodput = subject.goodput;
  add_line(text, "interruptions",
           "one in " + core::format_duration(subject.interruptions.mean_time_between) + ", a checkpoint takes " +
               core::format_duration(subject.interruptions.checkpoint));
  add_line(text, "goodput",
           core::format_percent(goodput.training, 1) + " of the time trains, with a checkpoint each " +
               core::format_duration(goodput.interval) + "; " + core::format_percent(goodput.lost, 1) + " is lost, " +
               core::format_percent(goodput.checkpointing, 1) + " writes checkpoints");
  add_line(text, "spare nodes", std::to_string(goodput.num_spares));
}

void add_details(std::string& text, const ReportSubject& subject, const Candidate& one) {
  const Setup setup = setup_of(subject, one.layout);
  const double layers = exposed_in_layers(one);
  text += "\nthe first: " + axes_text(one.layout) + "\n";
  add_line(text, "computation", share_text(one.step.computed - layers, one) + " of a step");
  add_line(text, "tensor and context", share_text(layers, one) + ", exposed");
  add_line(text, "bubble", share_text(one.step.bubble, one) + ", with transfers between stages");
  add_line(text, "copies",
           share_text(one.step.exposed_copies + one.step.exposed_shards + one.step.exposed_tied, one) +
               ", exposed sums and gathers");
  add_line(text, "optimizer", share_text(one.step.optimizer, one));
  add_line(text, "scaling",
           core::format_percent(scaling_efficiency(setup, one.step), 1) +
               " of what one row of the pipeline attains for each device");
  const MemoryUse& memory = one.memory;
  add_line(text, "memory",
           core::format_bytes(memory.states) + " states, " + core::format_bytes(memory.activations) + " activations, " +
               core::format_bytes(memory.workspace) + " workspace, " + core::format_bytes(memory.overhead) +
               " overhead, of " + core::format_bytes(subject.request.memory_bytes));
  const std::vector<MemoryUse> ranks = memory_of_ranks(setup);
  if (ranks.size() > 1)
    add_line(text, "memory by stage",
             core::format_bytes(ranks.front().total()) + " on the first rank, " +
                 core::format_bytes(ranks.back().total()) + " on the last");
  add_goodput(text, subject);
  if (subject.cost_per_hour > 0)
    add_line(text, "price", core::format_fixed(cost_of_million(subject, one), 4) + " for a million tokens");
}

ordered_json json_of(const ReportSubject& subject, const Candidate& one) {
  const Layout& layout = one.layout;
  const StepTime& step = one.step;
  ordered_json document{{"data", layout.data},
                        {"context", layout.context},
                        {"tensor", layout.tensor},
                        {"pipeline", layout.pipeline},
                        {"schedule", schedule_text(layout)},
                        {"stages_per_rank", layout.stages_per_rank},
                        {"micro_batch", layout.micro_batch},
                        {"num_micro_batches", layout.num_micro_batches},
                        {"zero", layout.zero},
                        {"sequence_parallel", layout.sequence_parallel},
                        {"recomputation", recomputation_text(layout)},
                        {"tokens_per_second", tokens_per_second(subject, one)},
                        {"step_s", step.total},
                        {"peak_share", peak_share(subject, one)},
                        {"scaling_efficiency", scaling_efficiency(setup_of(subject, layout), step)},
                        {"computed_s", step.computed},
                        {"exposed_in_layers_s", exposed_in_layers(one)},
                        {"bubble_s", step.bubble},
                        {"exposed_copies_s", step.exposed_copies + step.exposed_shards + step.exposed_tied},
                        {"optimizer_s", step.optimizer},
                        {"memory_bytes",
                         {{"states", one.memory.states},
                          {"activations", one.memory.activations},
                          {"workspace", one.memory.workspace},
                          {"overhead", one.memory.overhead},
                          {"total", one.memory.total()}}}};
  if (subject.cost_per_hour > 0) document["cost_per_million_tokens"] = cost_of_million(subject, one);
  return document;
}

ordered_json json_of(const std::vector<Term>& terms) {
  ordered_json list = ordered_json::array();
  for (const Term& term : terms)
    list.push_back({{"section", term.section},
                    {"name", term.name},
                    {"value", term.value},
                    {"unit", term.unit},
                    {"formula", term.formula},
                    {"source", term.source}});
  return list;
}

std::string counts_text(const SearchResult& result) {
  return core::format_count(static_cast<long long>(result.num_layouts)) + " layouts divide the work, " +
         core::format_count(static_cast<long long>(result.num_fitting)) + " fit into memory";
}

}  // namespace

std::string axes_text(const Layout& layout) {
  std::vector<std::string> axes;
  for (const auto& [name, size] : {std::pair("data", layout.data), std::pair("context", layout.context),
                                   std::pair("tensor", layout.tensor), std::pair("pipeline", layout.pipeline)})
    if (size > 1) axes.push_back(std::string(name) + " " + std::to_string(size));
  return axes.empty() ? "one device" : core::list_words(axes);
}

std::string format_report(const ReportSubject& subject) {
  const SearchRequest& request = subject.request;
  std::string text = "plan                    " + subject.experiment + " on " + core::format_count(request.world) +
                     " × " + request.cluster.device.name + ", nodes of " +
                     core::format_count(request.cluster.network.domain) + ", network " + request.cluster.network.name +
                     "\n";
  text += "parameters              " + core::format_count(request.model.num_parameters()) + "\n";
  text += "step                    " + core::format_count(request.global_batch) + " sequences of " +
          core::format_count(request.model.sequence_length) + " tokens\n";
  text += "searched                " + counts_text(subject.result) + "\n\n" + table(subject);
  const Candidate& first = subject.result.best.front();
  add_details(text, subject, first);
  if (subject.explains) text += "\n" + format_terms(explain(setup_of(subject, first.layout), first));
  return text + "\n" + layout_yaml(first.layout);
}

std::string layout_yaml(const Layout& layout) {
  std::string text = "distributed:\n";
  if (layout.zero > 0)
    text += "  kind: zero\n  stage: " + std::to_string(layout.zero) + "\n";
  else
    text += layout.world() == 1 ? "  kind: none\n" : "  kind: ddp\n";
  for (const auto& [name, size] : {std::pair("context", layout.context), std::pair("tensor", layout.tensor),
                                   std::pair("pipeline", layout.pipeline)})
    if (size > 1) text += "  " + std::string(name) + ": " + std::to_string(size) + "\n";
  if (layout.sequence_parallel) text += "  sequence_parallel: true\n";
  if (layout.pipeline > 1 && layout.schedule == ScheduleKind::interleaved)
    text += "  pipeline_schedule: {kind: interleaved_1f1b, stages_per_rank: " + std::to_string(layout.stages_per_rank) +
            "}\n";
  else if (layout.pipeline > 1)
    text += "  pipeline_schedule: {kind: " + schedule_text(layout) + "}\n";
  text += "dataset:\n  batch_size: " + std::to_string(layout.micro_batch) + "\n";
  text += "accumulation:\n  steps: " + std::to_string(layout.num_micro_batches) + "\n";
  return text + "activation_checkpointing:\n  kind: " + recomputation_text(layout) + "\n";
}

std::string format_json(const ReportSubject& subject) {
  const SearchRequest& request = subject.request;
  ordered_json layouts = ordered_json::array();
  for (const Candidate& one : subject.result.best) layouts.push_back(json_of(subject, one));
  const Candidate& first = subject.result.best.front();
  ordered_json document{{"experiment", subject.experiment},
                        {"world", request.world},
                        {"device", request.cluster.device.name},
                        {"node_size", request.cluster.network.domain},
                        {"network", request.cluster.network.name},
                        {"num_parameters", request.model.num_parameters()},
                        {"global_batch", request.global_batch},
                        {"sequence_length", request.model.sequence_length},
                        {"num_layouts", subject.result.num_layouts},
                        {"num_fitting", subject.result.num_fitting},
                        {"layouts", layouts},
                        {"yaml", layout_yaml(first.layout)}};
  document["goodput"] = {{"mean_time_between_interruptions_s", subject.interruptions.mean_time_between},
                         {"checkpoint_s", subject.interruptions.checkpoint},
                         {"restart_s", subject.interruptions.restart},
                         {"interval_s", subject.goodput.interval},
                         {"training", subject.goodput.training},
                         {"checkpointing", subject.goodput.checkpointing},
                         {"lost", subject.goodput.lost},
                         {"num_spare_nodes", subject.goodput.num_spares}};
  if (subject.own) document["own"] = json_of(subject, *subject.own);
  if (subject.explains) document["terms"] = json_of(explain(setup_of(subject, first.layout), first));
  return core::indented_json(document);
}

}  // namespace trainctl::cluster
