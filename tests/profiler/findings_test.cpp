#include "profiler/findings/findings.h"

#include <catch2/catch.hpp>

namespace trainctl::profiler {
namespace {

void set(ProfileSummary& summary, Part part, double ms) {
  summary.steps.split[static_cast<std::size_t>(part)].mean_ms = ms;
}

void set(ProfileSummary& summary, MemoryCategory category, double mib) {
  summary.memory.peak.mib[static_cast<std::size_t>(category)] = mib;
}

OperatorSummary op(const std::string& name, const std::string& phase, double calls, double self_ms) {
  return {.name = name,
          .shapes = "",
          .dtype = "fp32",
          .phase = phase,
          .calls = calls,
          .self_ms = self_ms,
          .device_ms = {},
          .roofline_efficiency = {},
          .flags = {}};
}

/// A step of 100 ms that keeps its device busy, on a machine with 8 cores.
ProfileSummary healthy() {
  ProfileSummary summary;
  summary.run.batch_size = 64;
  summary.run.memory_format = "channels_last";
  summary.run.choices = {.log_every = 20, .num_workers = 4};
  summary.device.cores = 8;
  summary.device.host_memory_mib = 16'000;
  summary.peaks = {.flops_per_s = {{"fp32", 1e12}}, .bytes_per_s = 2e10};
  summary.steps.each.resize(3);
  summary.steps.time.mean_ms = 100;
  summary.steps.device_utilization = 0.97;
  set(summary, Part::data_wait, 0.5);
  set(summary, Part::forward, 30);
  set(summary, Part::backward, 63);
  set(summary, Part::optimizer, 6);
  summary.operators.rows = {op("aten::mm", "backward", 40, 60), op("aten::addmm", "forward", 20, 29),
                            op("aten::_fused_adamw_", "optimizer", 2, 6)};
  summary.memory.limit_mib = 16'000;
  summary.memory.peak.allocated = 2000;
  set(summary, MemoryCategory::parameters, 20);
  set(summary, MemoryCategory::activations, 1200);
  summary.host = {.reads = 2, .sync_ms = 0, .record_ms = 0.5, .recompute_ms = 0};
  return summary;
}

/// All findings, of which the first must be of this rule.
std::vector<Finding> led_by(const std::string& rule, const ProfileSummary& summary) {
  std::vector<Finding> findings = find_findings(summary);
  REQUIRE_FALSE(findings.empty());
  CHECK(findings[0].rule == rule);
  CHECK_FALSE(findings[0].evidence.empty());
  CHECK_FALSE(findings[0].gain.empty());
  return findings;
}

TEST_CASE("a healthy run has no finding", "[profiler]") {
  CHECK(find_findings(healthy()).empty());
  CHECK(find_findings(ProfileSummary{}).empty());
}

TEST_CASE("waiting for data: workers, or what the loader's cause asks for", "[profiler]") {
  ProfileSummary summary = healthy();
  summary.steps.time.mean_ms = 200;
  set(summary, Part::data_wait, 100);
  summary.data = {.wait_cause = "too few workers", .workers = 4};
  const std::vector<Finding> findings = led_by("slow_loader", summary);
  CHECK(findings[0].gain_ms == 100);
  CHECK(yaml_line(findings[0].changes[0]) == "dataset: {num_workers: auto}");
  summary.run.choices.num_workers = std::nullopt;
  summary.data.wait_cause = "decode";
  CHECK(find_findings(summary)[0].changes[0].key == "dataset.image_cache.size_mib");
  summary.data.wait_cause = "copy";
  CHECK(find_findings(summary)[0].changes[0].key == "dataset.pin_memory");
}

TEST_CASE("a batch whose calls and update are most of the step is too small", "[profiler]") {
  ProfileSummary summary = healthy();
  summary.run.batch_size = 1;
  summary.steps.time.mean_ms = 2;
  set(summary, Part::data_wait, 0);
  set(summary, Part::optimizer, 0.6);
  summary.operators.rows = {op("aten::mm", "backward", 100, 0.5), op("aten::addmm", "forward", 60, 0.3)};
  summary.host.record_ms = 0;
  const std::vector<Finding> findings = led_by("tiny_batch", summary);
  CHECK(yaml_line(findings[0].changes[0]) == "dataset: {batch_size: 4}");
  summary.run.micro_batches = 8;
  CHECK(yaml_line(find_findings(summary)[0].changes[1]) == "accumulation: {steps: 1}");
  summary.memory.peak.allocated = 15'000;  // no room
  set(summary, MemoryCategory::activations, 14'000);
  summary.run.choices.recomputes = true;
  CHECK(find_findings(summary).empty());
}

TEST_CASE("an update of many passes over memory should be fused", "[profiler]") {
  ProfileSummary summary = healthy();
  summary.run.choices.could_fuse_update = true;
  summary.steps.time.mean_ms = 160;
  set(summary, Part::optimizer, 66);
  summary.operators.rows.back() = op("aten::addcdiv_", "optimizer", 500, 66);
  summary.operators.rows.back().bytes = 5e8;
  const std::vector<Finding> findings = led_by("unfused_optimizer", summary);
  CHECK(yaml_line(findings[0].changes[0]) == "optimizer: {fused: true}");
  CHECK(findings[0].gain_ms == Approx(52.8));
  CHECK_THAT(findings[0].evidence, Catch::Contains("23 times"));
  // The same on a device that computes so fast that little is left but the update.
  summary.steps.time.mean_ms = 90;
  CHECK(led_by("unfused_optimizer", summary).size() == findings.size());
}

TEST_CASE("a GPU that idles while its host waits for it has a needless synchronisation; a CPU has none", "[profiler]") {
  ProfileSummary summary = healthy();
  summary.device.kind = "cuda";
  summary.steps.device_utilization = 0.7;
  summary.host.sync_ms = 20;
  summary.host.reads = 40;
  summary.run.choices.log_every = 1;
  summary.host.record_ms = 0.1;
  const std::vector<Finding> findings = led_by("needless_synchronisation", summary);
  CHECK(findings[0].changes[0].key == "train.log_every");
  CHECK(findings[0].gain_ms == 20);
  summary.device.kind = "cpu";
  CHECK(find_findings(summary).empty());
}

TEST_CASE("records that take a notable part of the step are written too often", "[profiler]") {
  ProfileSummary summary = healthy();
  summary.run.choices.log_every = 1;
  summary.host.record_ms = 30;
  const std::vector<Finding> findings = led_by("frequent_logging", summary);
  CHECK(yaml_line(findings[0].changes[0]) == "train: {log_every: 50}");
  CHECK(findings[0].gain_ms == Approx(29.4));
}

TEST_CASE("copies between memory formats are layout thrash", "[profiler]") {
  ProfileSummary summary = healthy();
  summary.run.memory_format = "contiguous";
  summary.operators.rows.push_back(op("aten::copy_", "forward", 12, 14));
  summary.operators.rows.back().flags = {"layout_conversion"};
  const std::vector<Finding> findings = led_by("layout_thrash", summary);
  CHECK(yaml_line(findings[0].changes[0]) == "model: {memory_format: channels_last}");
}

TEST_CASE("convolutions that were measured to be faster in the other format are layout thrash", "[profiler]") {
  ProfileSummary summary = healthy();
  summary.operators.rows.push_back(op("aten::mkldnn_convolution", "forward", 4, 30));
  summary.layout = LayoutProbe{.contiguous_ms = 10, .channels_last_ms = 6};
  CHECK(find_findings(summary).empty());  // they are channels_last
  summary.run.memory_format = "contiguous";
  CHECK(led_by("layout_thrash", summary)[0].gain_ms == Approx(12));
}

TEST_CASE("fp32 is advised against only where bf16 was measured to be faster", "[profiler]") {
  ProfileSummary summary = healthy();
  for (OperatorSummary& row : summary.operators.rows)
    if (row.phase != "optimizer") row.flags = {"fp32_matrix"};
  CHECK(find_findings(summary).empty());
  summary.peaks.flops_per_s["bf16"] = 4e12;
  const std::vector<Finding> findings = led_by("fp32_where_bf16_pays", summary);
  CHECK(findings[0].gain_ms == Approx(89 * 0.75));
  CHECK(yaml_line(findings[0].changes[0]) == "amp: {mode: bf16}");
  ProfileSummary of_few_rows = summary;
  for (OperatorSummary& row : of_few_rows.operators.rows) {
    row.flops = 2e9;
    row.bytes = 1e9;
  }
  CHECK(find_findings(of_few_rows).empty());
  summary.run.precision = "bf16";
  CHECK(find_findings(summary).empty());
}

TEST_CASE("free memory in small pieces is fragmentation, when the run is at its fullest", "[profiler]") {
  ProfileSummary summary = healthy();
  Fragmentation::Point point{
      .t_ms = 1, .free_mib = {0, 1500}, .reserved_mib = 3500, .allocated_mib = 2000, .largest_free_mib = 40};
  summary.memory.fragmentation.points = {point};
  const std::vector<Finding> findings = led_by("fragmentation", summary);
  CHECK(findings[0].gain_mib == 1460);
  CHECK(findings[0].changes[0].key == "device.caching_allocator");
  summary.memory.fragmentation.points[0].largest_free_mib = 1400;
  CHECK(find_findings(summary).empty());
  summary.memory.fragmentation.points = {point};
  summary.memory.fragmentation.points[0].allocated_mib = 300;  // between steps
  CHECK(find_findings(summary).empty());
}

TEST_CASE("activations that nearly fill the memory are to be computed again, and not where they fit", "[profiler]") {
  ProfileSummary summary = healthy();
  summary.memory.limit_mib = 2100;
  {
    const std::vector<Finding> findings = led_by("memory_pressure", summary);
    CHECK(yaml_line(findings[0].changes[0]) == "activation_checkpointing: full");
  }
  summary.memory.limit_mib = 16'000;
  summary.host.recompute_ms = 22;
  const std::vector<Finding> findings = led_by("needless_recomputation", summary);
  CHECK(findings[0].gain_ms == 22);
}

ProfileSummary of_ranks(std::vector<std::pair<double, double>> own_and_exposed) {
  ProfileSummary summary = healthy();
  summary.run.world_size = static_cast<std::int64_t>(own_and_exposed.size());
  summary.distributed.emplace();
  for (const auto& [own, exposed] : own_and_exposed) {
    const auto rank = static_cast<std::int64_t>(summary.distributed->ranks.size());
    summary.distributed->ranks.push_back({.rank = rank, .step_ms = 100, .own_ms = own, .exposed_ms = exposed});
    summary.distributed->exposed_ms += exposed / static_cast<double>(own_and_exposed.size());
  }
  return summary;
}

TEST_CASE("what every rank waits for is communication", "[profiler]") {
  const ProfileSummary summary = of_ranks({{70, 30}, {69, 31}});
  const std::vector<Finding> findings = led_by("exposed_communication", summary);
  CHECK(findings[0].changes[0].key == "accumulation.steps");
  CHECK(findings[0].gain_ms == 15);
}

TEST_CASE("exchanges of BatchNorm are needless where each rank has samples enough, and no communication of gradients",
          "[profiler]") {
  ProfileSummary summary = of_ranks({{70, 30}, {69, 31}});
  summary.run.choices.synchronizes_batch_norm = true;
  summary.host.batch_norm_ms = 25;
  const std::vector<Finding> findings = led_by("needless_synchronisation", summary);
  CHECK(findings.size() == 1);
  CHECK(findings[0].gain_ms == 25);
  CHECK(yaml_line(findings[0].changes[0]) == "distributed: {sync_batch_norm: false}");
  summary.run.batch_size = 4;
  CHECK(find_findings(summary).empty());
}

TEST_CASE("what the others wait for is a straggler", "[profiler]") {
  ProfileSummary summary = of_ranks({{60, 40}, {61, 39}, {99, 1}});
  summary.distributed->straggler = {2, "rank 2 is slow"};
  const std::vector<Finding> findings = led_by("straggler", summary);
  CHECK(findings.size() == 1);
  CHECK(findings[0].what == "Rank 2 holds the others up");
  CHECK(findings[0].gain_ms == 38.5);
}

ProfileSummary of_pipeline(double first_ms, double second_ms) {
  ProfileSummary summary = of_ranks({{60, 40}, {60, 40}});
  summary.distributed->ranks[0].stage_wait_ms = 40;
  summary.distributed->ranks[1].stage_wait_ms = 38;
  summary.distributed->ranks[1].stage = 1;
  summary.distributed->pipeline = {
      .schedule = "gpipe",
      .pass_ms = 80,
      .simulated_ms = 80,
      .ranks = {{.stages = {0}, .compute_ms = first_ms, .bubble_ms = 80 - first_ms, .actions = {}},
                {.stages = {1}, .compute_ms = second_ms, .bubble_ms = 80 - second_ms, .actions = {}}},
      .alternatives = {{.changes = {{"distributed.pipeline_schedule", "1f1b"}}, .pass_ms = 80},
                       {.changes = {{"distributed.pipeline_schedule", "zbv"}}, .pass_ms = 70}}};
  return summary;
}

TEST_CASE("ranks of a pipeline that wait for each other are told the schedule that waits least", "[profiler]") {
  const std::vector<Finding> findings = led_by("pipeline_bubble", of_pipeline(60, 60));
  CHECK(findings.size() == 1);  // what they wait isn't communication
  CHECK(findings[0].gain_ms == 10);
  CHECK(yaml_line(findings[0].changes[0]) == "distributed: {pipeline_schedule: zbv}");
  CHECK(find_findings(of_pipeline(75, 75)).empty());
}

TEST_CASE("a stage with more work than the others is named", "[profiler]") {
  ProfileSummary summary = of_pipeline(30, 78);
  summary.distributed->pipeline->alternatives.clear();
  const std::vector<Finding> findings = led_by("pipeline_bubble", summary);
  CHECK(findings[0].changes.empty());
  CHECK(findings[0].gain_ms == 24);
  CHECK_THAT(findings[0].evidence, Catch::Contains("place 1 of the pipeline computes for 78.0 ms"));
}

TEST_CASE("a rank is a straggler among those of its stage", "[profiler]") {
  ProfileSummary summary = of_ranks({{60, 40}, {61, 39}, {10, 90}, {98, 2}});
  for (const std::size_t rank : {2U, 3U}) summary.distributed->ranks[rank].stage = 1;
  summary.distributed->straggler = {1, "rank 1 is slow"};
  CHECK(led_by("straggler", summary)[0].gain_ms == 1);
}

TEST_CASE("at most five findings, the one that wins most first", "[profiler]") {
  ProfileSummary summary = of_ranks({{70, 30}, {69, 31}});
  summary.steps.time.mean_ms = 300;
  summary.distributed->ranks[0].exposed_ms = 50;
  summary.distributed->ranks[1].exposed_ms = 50;
  set(summary, Part::data_wait, 100);
  summary.run.choices.could_fuse_update = true;
  summary.operators.rows.back() = op("aten::addcdiv_", "optimizer", 500, 66);
  summary.run.choices.log_every = 1;
  summary.host.record_ms = 15;
  summary.host.recompute_ms = 30;
  summary.operators.rows.push_back(op("aten::copy_", "forward", 12, 14));
  summary.operators.rows.back().flags = {"layout_conversion"};
  const std::vector<Finding> findings = find_findings(summary);
  REQUIRE(findings.size() == 5);
  CHECK(findings[0].rule == "slow_loader");
  CHECK(findings[1].rule == "unfused_optimizer");
  CHECK(findings[2].rule == "needless_recomputation");
}

}  // namespace
}  // namespace trainctl::profiler
