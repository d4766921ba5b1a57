#include "train/profile/profile.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/file.h"
#include "core/units.h"
#include "profiler/page.h"
#include "profiler/verdicts/verdicts.h"
#include "runtime/device.h"
#include "train/monitor/mfu.h"
#include "train/monitor/straggler_monitor.h"
#include "train/profile/layout_probe.h"
#include "train/profile/profiled_run.h"

namespace trainctl::train {
namespace {

constexpr std::int64_t kNumbers = 6;

void write_files(const profiler::ProfileSummary& summary, const std::filesystem::path& directory) {
  const std::string text = profiler::format_json(summary);
  core::write_file_atomically(directory / "summary.json", text);
  core::write_file_atomically(directory / "report.html", profiler::format_page(nlohmann::json::parse(text)));
}

/// Of the figures that are a rank's own.
void add_throughput(const Run& run, profiler::ProfileSummary& summary) {
  profiler::StepSummary& steps = summary.steps;
  if (steps.time.mean_ms <= 0) return;
  const dataset::SampleSpec& spec = run.data.train->spec();
  steps.samples_per_s = static_cast<double>(run.global_batch) / (steps.time.mean_ms / 1e3);
  if (spec.vocab_size > 0) steps.tokens_per_s = steps.samples_per_s * static_cast<double>(spec.input_shape.at(0));
  const auto peak = summary.peaks.flops_per_s.find(summary.run.precision);
  const auto fp32 = summary.peaks.flops_per_s.find("fp32");
  const double peak_flops = peak != summary.peaks.flops_per_s.end()   ? peak->second
                            : fp32 != summary.peaks.flops_per_s.end() ? fp32->second
                                                                      : 0;
  if (peak_flops > 0)
    steps.mfu =
        Utilization(run, peak_flops).mfu({.samples_per_s = steps.samples_per_s, .tokens_per_s = steps.tokens_per_s});
}

}  // namespace

RunProfile::RunProfile(Run& run, const std::filesystem::path& run_directory,
                       const std::map<std::string, std::string>& settings)
    : run_(run),
      directory_(run_directory / "profile"),
      peaks_(measure_peaks(run)),
      profiler_(profiler::build(run.experiment.profiler, describe_for_profiler(run, peaks_, run_directory, settings),
                                directory_)) {
  runtime::reset_device_peak(run.device);
}

void RunProfile::step_begins() {
  profiler_->step_begins();
  if (profiler_->is_recording()) run_.parallel->group().take_communication_time();
}

void RunProfile::step_ends() {
  if (profiler_->is_recording()) {
    const comm::CommunicationTime time = run_.parallel->group().take_communication_time();
    communication_.busy_ms += time.busy_ms;
    communication_.exposed_ms += time.exposed_ms;
  }
  profiler_->step_ends();
}

profiler::DistributedSummary RunProfile::compare_ranks(const profiler::ProfileSummary& mine) {
  comm::Group& group = run_.parallel->group();
  const double steps = static_cast<double>(std::max<std::int64_t>(1, mine.num_steps()));
  const double exposed = std::min(communication_.exposed_ms / steps, mine.steps.time.mean_ms);
  const at::Tensor own = at::empty({kNumbers}, at::kDouble);
  auto* number = own.mutable_data_ptr<double>();
  number[0] = mine.steps.time.mean_ms;
  number[1] = mine.steps.time.mean_ms - exposed;
  number[2] = mine.steps.ms(profiler::Part::data_wait);
  number[3] = communication_.busy_ms / steps;
  number[4] = exposed;
  number[5] = static_cast<double>(runtime::device_memory(run_.device).peak) / core::kMiB;
  const at::Tensor all = at::empty({group.size() * kNumbers}, at::kDouble);
  group.all_gather(all, own)->wait();

  profiler::DistributedSummary summary{.backend = run_.device.is_cpu() ? "gloo" : "nccl", .ranks = {}, .straggler = {}};
  std::vector<RankTime> times;
  for (std::int64_t rank = 0; rank < group.size(); ++rank) {
    const auto* its = all.const_data_ptr<double>() + rank * kNumbers;
    summary.ranks.push_back({.rank = rank,
                             .step_ms = its[0],
                             .own_ms = its[1],
                             .data_wait_ms = its[2],
                             .communication_ms = its[3],
                             .exposed_ms = its[4],
                             .peak_mib = its[5]});
    times.push_back({.own_ms = its[1], .data_wait_ms = its[2]});
    summary.communication_ms += its[3] / static_cast<double>(group.size());
    summary.exposed_ms += its[4] / static_cast<double>(group.size());
  }
  if (const std::optional<Straggler> slow = find_straggler(times)) summary.straggler = {slow->rank, slow->text};
  return summary;
}

profiler::ProfileSummary RunProfile::finish(const profiler::DataSummary& data) {
  profiler::ProfileSummary summary = profiler_->summary();
  add_throughput(run_, summary);
  summary.data = data;
  if (!summary.run.memory_format.empty()) summary.layout = probe_layout(summary.convolutions, run_.device);
  if (run_.parallel->group().size() > 1) summary.distributed = compare_ranks(summary);
  summary.verdicts = profiler::find_verdicts(summary);
  if (run_.is_first()) write_files(summary, directory_);
  return summary;
}

}  // namespace trainctl::train
