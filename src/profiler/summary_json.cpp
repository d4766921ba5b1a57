#include <cmath>
#include <nlohmann/json.hpp>

#include "profiler/summary.h"

namespace trainctl::profiler {
namespace {

using Json = nlohmann::ordered_json;

template <class T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

Json or_null(const std::string& text) {
  return text.empty() ? Json(nullptr) : Json(text);
}

/// Rounds to as many digits as a reader needs, which keeps files small.
double rounded(double value) {
  const double scale = 1e6;
  return std::abs(value) < 1e9 ? std::round(value * scale) / scale : value;
}

Json list(const std::vector<double>& values) {
  Json numbers = Json::array();
  for (const double value : values) numbers.push_back(rounded(value));
  return numbers;
}

Json spread(const Spread& time) {
  return {{"mean_ms", rounded(time.mean_ms)},
          {"median_ms", rounded(time.median_ms)},
          {"min_ms", rounded(time.min_ms)},
          {"max_ms", rounded(time.max_ms)},
          {"std_ms", rounded(time.std_ms)}};
}

Json run_json(const RunFacts& run) {
  return {{"name", run.name},
          {"directory", run.directory},
          {"model", run.model},
          {"num_parameters", run.num_parameters},
          {"precision", run.precision},
          {"batch_size", run.batch_size},
          {"micro_batches", run.micro_batches},
          {"world_size", run.world_size},
          {"memory_format", or_null(run.memory_format)},
          {"settings", run.settings}};
}

Json steps_json(const StepSummary& steps) {
  Json json{{"num", steps.each.size()}};
  json.update(spread(steps.time));
  json["samples_per_s"] = rounded(steps.samples_per_s);
  json["tokens_per_s"] = rounded(steps.tokens_per_s);
  json["mfu"] = rounded(steps.mfu);
  json["device_utilization"] = rounded(steps.device_utilization);
  Json split = Json::array();
  for (std::size_t i = 0; i < kNumParts; ++i) {
    const Part part = static_cast<Part>(i);
    Json entry{{"name", name_of(part)}};
    entry.update(spread(steps.split[i]));
    entry["share"] = rounded(steps.share(part));
    split.push_back(std::move(entry));
  }
  json["split"] = std::move(split);
  Json each = Json::array();
  for (const StepTime& step : steps.each) {
    Json parts;
    for (std::size_t i = 0; i < kNumParts; ++i) parts[name_of(static_cast<Part>(i))] = rounded(step.split_ms[i]);
    each.push_back({{"number", step.number}, {"ms", rounded(step.ms)}, {"split_ms", std::move(parts)}});
  }
  json["each"] = std::move(each);
  Json spans = Json::array();
  for (const SpanTime& span : steps.spans)
    spans.push_back({{"name", span.name},
                     {"ms", rounded(span.ms)},
                     {"share", rounded(steps.time.mean_ms > 0 ? span.ms / steps.time.mean_ms : 0)},
                     {"peak_mib", or_null(span.peak_mib)}});
  json["spans"] = std::move(spans);
  return json;
}

Json operators_json(const ProfileSummary& summary) {
  Json rows = Json::array();
  for (const OperatorSummary& row : summary.operators.rows) {
    const double seconds = row.seconds();
    rows.push_back(
        {{"name", row.name},
         {"shapes", row.shapes},
         {"dtype", row.dtype},
         {"calls", rounded(row.calls)},
         {"self_ms", rounded(row.self_ms)},
         {"share", rounded(summary.steps.time.mean_ms > 0 ? row.self_ms / summary.steps.time.mean_ms : 0)},
         {"device_ms", or_null(row.device_ms)},
         {"flops", row.flops},
         {"bytes", row.bytes},
         {"flops_per_s", seconds > 0 ? std::round(row.flops / seconds) : 0},
         {"bytes_per_s", seconds > 0 ? std::round(row.bytes / seconds) : 0},
         {"intensity", row.flops > 0 && row.bytes > 0 ? Json(rounded(row.flops / row.bytes)) : Json(nullptr)},
         {"roofline_efficiency", or_null(row.roofline_efficiency)},
         {"phase", row.phase},
         {"flags", row.flags}});
  }
  return rows;
}

Json kernels_json(const ProfileSummary& summary) {
  Json rows = Json::array();
  for (const KernelSummary& row : summary.kernels.rows)
    rows.push_back({{"name", row.name},
                    {"calls", rounded(row.calls)},
                    {"ms", rounded(row.ms)},
                    {"share", rounded(summary.steps.time.mean_ms > 0 ? row.ms / summary.steps.time.mean_ms : 0)},
                    {"mean_us", rounded(row.calls > 0 ? 1e3 * row.ms / row.calls : 0)},
                    {"grid", row.grid},
                    {"block", row.block},
                    {"registers", row.registers},
                    {"shared_bytes", row.shared_bytes},
                    {"occupancy", rounded(row.occupancy)},
                    {"stream", row.stream},
                    {"operator", row.launched_by},
                    {"flags", row.flags}});
  return rows;
}

Json tree_json(const CallNode& node) {
  Json children = Json::array();
  for (const CallNode& child : node.children) children.push_back(tree_json(child));
  return {{"name", node.name},
          {"ms", rounded(node.ms)},
          {"self_ms", rounded(node.self_ms)},
          {"calls", rounded(node.calls)},
          {"children", std::move(children)}};
}

Json modules_json(const std::vector<ModuleSummary>& modules) {
  Json rows = Json::array();
  for (const ModuleSummary& module : modules)
    rows.push_back({{"name", module.name},
                    {"kind", module.is_block ? "block" : "layer"},
                    {"forward_ms", rounded(module.forward_ms)},
                    {"backward_ms", rounded(module.backward_ms)},
                    {"calls", rounded(module.calls)},
                    {"flops", module.flops},
                    {"parameters_mib", rounded(module.parameters_mib)},
                    {"activations_mib", rounded(module.activations_mib)},
                    {"peak_mib", or_null(module.peak_mib)}});
  return rows;
}

double to_tenths(double value) {
  return std::round(value * 10) / 10;
}

Json timeline_json(const Timeline& timeline) {
  Json steps = Json::array();
  for (const Timeline::Step& step : timeline.steps)
    steps.push_back({{"number", step.number},
                     {"start_us", to_tenths(step.start_us)},
                     {"duration_us", to_tenths(step.duration_us)}});
  Json tracks = Json::array();
  for (const TimelineTrack& track : timeline.tracks) {
    Json intervals = Json::array();
    for (const TimelineInterval& one : track.intervals)
      intervals.push_back(Json::array(
          {to_tenths(one.start_us), to_tenths(one.duration_us), one.depth, one.name, static_cast<int>(one.kind)}));
    tracks.push_back(
        {{"name", track.name}, {"kind", track.is_stream ? "stream" : "thread"}, {"intervals", std::move(intervals)}});
  }
  return {{"steps", std::move(steps)},
          {"names", timeline.names},
          {"tracks", std::move(tracks)},
          {"dropped", {{"intervals", timeline.num_dropped}, {"shorter_than_us", timeline.shorter_than_us}}}};
}

Json series_json(const std::vector<MemoryPoint>& series) {
  Json json;
  const auto column = [&](const std::string& name, auto value) {
    Json values = Json::array();
    for (const MemoryPoint& point : series) values.push_back(value(point));
    json[name] = std::move(values);
  };
  column("t_ms", [](const MemoryPoint& point) { return Json(rounded(point.t_ms)); });
  for (std::size_t i = 0; i < kNumCategories; ++i)
    column(name_of(static_cast<MemoryCategory>(i)),
           [i](const MemoryPoint& point) { return Json(rounded(point.mib[i])); });
  column("allocated", [](const MemoryPoint& point) { return Json(rounded(point.allocated)); });
  column("reserved", [](const MemoryPoint& point) { return Json(rounded(point.reserved)); });
  column("largest_free", [](const MemoryPoint& point) { return or_null(point.largest_free); });
  return json;
}

Json memory_json(const MemorySummary& memory) {
  Json by_category;
  for (std::size_t i = 0; i < kNumCategories; ++i)
    by_category[name_of(static_cast<MemoryCategory>(i))] = rounded(memory.peak.mib[i]);
  Json by_module = Json::array();
  for (const auto& [name, mib] : memory.peak_by_module) by_module.push_back({{"name", name}, {"mib", rounded(mib)}});
  Json map{{"t_ms", Json::array()},
           {"classes_mib", list(memory.fragmentation.classes_mib)},
           {"free_mib", Json::array()},
           {"reserved_mib", Json::array()},
           {"allocated_mib", Json::array()},
           {"largest_free_mib", Json::array()},
           {"share", rounded(memory.fragmentation.share)}};
  for (const Fragmentation::Point& point : memory.fragmentation.points) {
    map["t_ms"].push_back(rounded(point.t_ms));
    map["free_mib"].push_back(list(point.free_mib));
    map["reserved_mib"].push_back(rounded(point.reserved_mib));
    map["allocated_mib"].push_back(rounded(point.allocated_mib));
    map["largest_free_mib"].push_back(rounded(point.largest_free_mib));
  }
  return {{"limit_mib", rounded(memory.limit_mib)},
          {"series", series_json(memory.series)},
          {"peak",
           {{"mib", rounded(memory.peak.allocated)},
            {"t_ms", rounded(memory.peak.t_ms)},
            {"phase", memory.peak_phase},
            {"by_category", std::move(by_category)},
            {"by_module", std::move(by_module)}}},
          {"fragmentation", std::move(map)}};
}

Json pipeline_json(const std::optional<PipelineSummary>& pipeline) {
  if (!pipeline) return nullptr;
  Json ranks = Json::array();
  for (const PipelineRank& rank : pipeline->ranks) {
    Json actions = Json::array();
    for (const PipelineRank::Action& action : rank.actions)
      actions.push_back(Json::array({action.name, rounded(action.time.begin_ms), rounded(action.time.end_ms)}));
    ranks.push_back({{"stages", rank.stages},
                     {"compute_ms", rounded(rank.compute_ms)},
                     {"transfer_ms", rounded(rank.transfer_ms)},
                     {"bubble_ms", rounded(rank.bubble_ms)},
                     {"actions", std::move(actions)}});
  }
  Json alternatives = Json::array();
  for (const PipelineSummary::Alternative& one : pipeline->alternatives) {
    Json changes = Json::array();
    for (const Change& change : one.changes) changes.push_back(yaml_line(change));
    alternatives.push_back({{"change", std::move(changes)}, {"pass_ms", rounded(one.pass_ms)}});
  }
  return {{"schedule", pipeline->schedule},
          {"pass_ms", rounded(pipeline->pass_ms)},
          {"simulated_ms", rounded(pipeline->simulated_ms)},
          {"bubble", rounded(pipeline->bubble())},
          {"alternatives", std::move(alternatives)},
          {"ranks", std::move(ranks)}};
}

Json distributed_json(const std::optional<DistributedSummary>& distributed, std::int64_t world_size) {
  if (!distributed) return nullptr;
  Json ranks = Json::array();
  for (const RankSummary& rank : distributed->ranks)
    ranks.push_back({{"rank", rank.rank},
                     {"stage", rank.stage},
                     {"step_ms", rounded(rank.step_ms)},
                     {"own_ms", rounded(rank.own_ms)},
                     {"data_wait_ms", rounded(rank.data_wait_ms)},
                     {"communication_ms", rounded(rank.communication_ms)},
                     {"exposed_ms", rounded(rank.exposed_ms)},
                     {"stage_wait_ms", rounded(rank.stage_wait_ms)},
                     {"peak_mib", rounded(rank.peak_mib)}});
  Json straggler = nullptr;
  if (distributed->straggler)
    straggler = {{"rank", distributed->straggler->first}, {"text", distributed->straggler->second}};
  return {{"backend", distributed->backend},
          {"world_size", world_size},
          {"communication_ms", rounded(distributed->communication_ms)},
          {"exposed_ms", rounded(distributed->exposed_ms)},
          {"ranks", std::move(ranks)},
          {"straggler", std::move(straggler)},
          {"pipeline", pipeline_json(distributed->pipeline)}};
}

Json findings_json(const ProfileSummary& summary) {
  Json findings = Json::array();
  for (const Finding& finding : summary.findings) {
    Json changes = Json::array();
    for (const Change& change : finding.changes)
      changes.push_back({{"key", change.key}, {"value", change.value}, {"yaml", yaml_line(change)}});
    findings.push_back(
        {{"rule", finding.rule},
         {"what", finding.what},
         {"evidence", finding.evidence},
         {"change", std::move(changes)},
         {"gain_ms", rounded(finding.gain_ms)},
         {"gain_share", rounded(summary.steps.time.mean_ms > 0 ? finding.gain_ms / summary.steps.time.mean_ms : 0)},
         {"gain_mib", rounded(finding.gain_mib)},
         {"gain", finding.gain}});
  }
  return findings;
}

Json traces_json(const std::vector<TraceFile>& traces) {
  Json rows = Json::array();
  for (const TraceFile& trace : traces)
    rows.push_back({{"path", trace.path},
                    {"bytes", trace.bytes},
                    {"events", trace.events},
                    {"dropped_events", trace.dropped_events},
                    {"dropped", trace.dropped}});
  return rows;
}

/// Returns the share of a step's time that recording added.
Json overhead_json(const ProfileSummary& summary) {
  const std::optional<double>& unrecorded = summary.step_ms_unrecorded;
  Json share = nullptr;
  if (unrecorded && *unrecorded > 0) share = rounded(summary.steps.time.median_ms / *unrecorded - 1);
  return {{"step_ms_unrecorded", or_null(unrecorded)}, {"share", std::move(share)}};
}

}  // namespace

std::string yaml_line(const Change& change) {
  const std::size_t dot = change.key.find('.');
  if (dot == std::string::npos) return change.key + ": " + change.value;
  return change.key.substr(0, dot) + ": {" + yaml_line({change.key.substr(dot + 1), change.value}) + "}";
}

std::string format_json(const ProfileSummary& summary) {
  const DeviceFacts& device = summary.device;
  Json json{{"version", 1}, {"created", summary.created}, {"run", run_json(summary.run)}};
  json["device"] = {{"kind", device.kind},
                    {"name", device.name},
                    {"threads", device.threads},
                    {"memory_mib", rounded(device.memory_mib)}};
  json["machine"] = {{"cpu", device.cpu},
                     {"cores", device.cores},
                     {"memory_mib", rounded(device.host_memory_mib)},
                     {"libtorch", device.libtorch}};
  json["peaks"] = {{"flops_per_s", summary.peaks.flops_per_s}, {"bytes_per_s", summary.peaks.bytes_per_s}};
  json["steps"] = steps_json(summary.steps);
  json["operators"] = operators_json(summary);
  json["operators_dropped"] = {{"count", summary.operators.num_dropped}, {"self_ms", summary.operators.dropped_ms}};
  json["kernels"] = kernels_json(summary);
  json["kernels_dropped"] = {{"count", summary.kernels.num_dropped}, {"ms", summary.kernels.dropped_ms}};
  json["call_tree"] = tree_json(summary.call_tree);
  json["modules"] = modules_json(summary.modules);
  json["timeline"] = timeline_json(summary.timeline);
  json["memory"] = memory_json(summary.memory);
  json["distributed"] = distributed_json(summary.distributed, summary.run.world_size);
  json["host"] = {{"reads", summary.host.reads},
                  {"sync_ms", rounded(summary.host.sync_ms)},
                  {"record_ms", rounded(summary.host.record_ms)},
                  {"recompute_ms", rounded(summary.host.recompute_ms)},
                  {"batch_norm_ms", rounded(summary.host.batch_norm_ms)}};
  json["layout"] = nullptr;
  if (summary.layout)
    json["layout"] = {{"contiguous_ms", rounded(summary.layout->contiguous_ms)},
                      {"channels_last_ms", rounded(summary.layout->channels_last_ms)}};
  json["data"] = {{"wait_cause", summary.data.wait_cause}, {"workers", summary.data.workers}};
  json["findings"] = findings_json(summary);
  json["traces"] = traces_json(summary.traces);
  json["memory_snapshot"] = or_null(summary.memory_snapshot);
  json["overhead"] = overhead_json(summary);
  // A line for each part: readable where it is short, and no longer than need be where it is not.
  std::string text = "{\n";
  for (const auto& [key, value] : json.items())
    text += Json(key).dump() + ": " + value.dump(-1, ' ', false, Json::error_handler_t::replace) +
            (key == "overhead" ? "\n}" : ",\n");
  return text;
}

}  // namespace trainctl::profiler
