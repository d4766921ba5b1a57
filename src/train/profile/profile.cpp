#include "train/profile/profile.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <torch/headeronly/version.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "core/file.h"
#include "core/units.h"
#include "machine/cpu.h"
#include "machine/limits.h"
#include "profiler/findings/findings.h"
#include "profiler/page.h"
#include "roofline/device_peaks.h"
#include "runtime/device.h"
#include "train/monitor/mfu.h"
#include "train/monitor/straggler_monitor.h"
#include "train/profile/layout_probe.h"
#include "train/profile/pipeline_profile.h"

namespace trainctl::train {
namespace {

/// A visitor that adds up memory, each part once.
class StateSize final : public runtime::State {
 public:
  void tensor(const std::string&, at::Tensor& value) override { add(value); }
  void part(const std::string&, at::Tensor& stretch, const runtime::PartOf&) override { add(stretch); }
  void integer(const std::string&, std::int64_t&) override {}
  void number(const std::string&, double&) override {}
  void text(const std::string&, std::string&) override {}
  std::int64_t bytes() const { return bytes_; }

 private:
  void add(const at::Tensor& value) {
    if (!value.defined() || !value.has_storage() || value.is_meta()) return;
    const c10::StorageImpl* storage = value.storage().unsafeGetStorageImpl();
    if (seen_.insert(storage).second) bytes_ += static_cast<std::int64_t>(storage->nbytes());
  }

  std::set<const c10::StorageImpl*> seen_;
  std::int64_t bytes_ = 0;
};

std::vector<profiler::ModuleFacts> modules_of(model::Model& model) {
  std::set<const model::Layer*> blocks;
  for (const model::Block& block : model.blocks()) blocks.insert(block.layer);
  std::vector<profiler::ModuleFacts> modules;
  model.visit_layers([&](const std::string&, model::Layer& layer) {
    if (layer.span_name().empty()) return;
    profiler::ModuleFacts facts{.name = layer.span_name(), .is_block = blocks.contains(&layer)};
    layer.visit_parameters([&](const std::string&, model::TensorDecl& decl) {
      facts.parameter_bytes += static_cast<std::int64_t>(decl.value.nbytes());
    });
    modules.push_back(std::move(facts));
  });
  return modules;
}

profiler::StaticMemory memory_of(Run& run) {
  StateSize model;
  run.model->visit_state(model);
  StateSize optimizer;
  run.optimizer->visit_state(optimizer);
  if (run.ema) run.ema->visit_state(optimizer);
  const auto device = static_cast<std::int64_t>(runtime::device_memory_limit(run.device));
  const std::optional<std::int64_t>& asked = run.experiment.device.memory_limit_mib;
  return {.parameters = model.bytes(),
          .optimizer = optimizer.bytes(),
          .limit = asked ? std::min(device, *asked << 20) : device};
}

std::string precision_name(amp::Precision precision) {
  switch (precision) {
    case amp::Precision::fp32:
      return "fp32";
    case amp::Precision::tf32:
      return "tf32";
    case amp::Precision::bf16:
      return "bf16";
    case amp::Precision::fp16:
      return "fp16";
    case amp::Precision::fp8:
      return "fp8";
  }
  throw std::logic_error("unknown precision");
}

profiler::RunChoices choices_of(const experiment::Experiment& experiment) {
  const optimizer::UpdateRuleConfig& rule = experiment.optimizer.rule;
  const distributed::DistributedFacts layout = config::facts_of(experiment.distributed.how);
  return {.log_every = experiment.train.log_every,
          .num_workers = experiment.dataset.num_workers.value,
          .cache_mib = experiment.dataset.image_cache.size_mib,
          .could_fuse_update = config::facts_of(rule).could_fuse,
          .reads_overflow_flag = config::traits_of(rule).reads_overflow_flag,
          .synchronizes_batch_norm = layout.synchronizes_batch_norm,
          .finds_unused_parameters = layout.gradients.value.finds_unused_parameters,
          .could_compress_gradients = layout.gradients.value.could_compress,
          .recomputes = config::traits_of(experiment.activation_checkpointing.blocks).recomputes,
          .caching_allocator = experiment.device.caching_allocator,
          .expandable_segments = experiment.device.expandable_segments};
}

profiler::RunFacts model_info_of(const Run& run, const std::map<std::string, std::string>& settings) {
  profiler::RunFacts facts{.name = run.experiment.name,
                           .directory = "",
                           .model = std::string(run.experiment.model.network.kind()),
                           .num_parameters = run.num_parameters,
                           .precision = precision_name(run.experiment.amp.mode),
                           .batch_size = run.experiment.dataset.samples_per_batch(),
                           .micro_batches = run.micro_batches,
                           .world_size = run.mesh->world().size(),
                           .memory_format = "",
                           .choices = choices_of(run.experiment),
                           .settings = settings};
  if (run.data.train->spec().is_image()) facts.memory_format = run.channels_last ? "channels_last" : "contiguous";
  return facts;
}

std::vector<std::uintptr_t> gradient_addresses(const Run& run) {
  std::vector<std::uintptr_t> addresses;
  for (const at::Tensor& gradient : optimizer::gradients_of(run.parameters))
    addresses.push_back(reinterpret_cast<std::uintptr_t>(gradient.storage().data()));
  std::ranges::sort(addresses);
  return addresses;
}

constexpr std::int64_t kNumbers = 6;

void write_files(const profiler::ProfileSummary& summary, const std::filesystem::path& directory) {
  const std::string text = profiler::format_json(summary);
  core::write_file_atomically(directory / "summary.json", text);
  core::write_file_atomically(directory / "report.html", profiler::format_page(nlohmann::json::parse(text)));
}

/// Adds throughput and MFU to the figures of a rank.
void add_throughput(const Run& run, profiler::ProfileSummary& summary) {
  profiler::StepSummary& steps = summary.steps;
  if (steps.time.mean_ms <= 0) return;
  const dataset::SampleSpec& spec = run.data.train->spec();
  steps.samples_per_s = static_cast<double>(run.global_batch) / (steps.time.mean_ms / 1e3);
  if (spec.vocab_size > 0) steps.tokens_per_s = steps.samples_per_s * static_cast<double>(spec.tokens_per_sample());
  const auto peak = summary.peaks.flops_per_s.find(summary.run.precision);
  const auto fp32 = summary.peaks.flops_per_s.find("fp32");
  const double peak_flops = peak != summary.peaks.flops_per_s.end()   ? peak->second
                            : fp32 != summary.peaks.flops_per_s.end() ? fp32->second
                                                                      : 0;
  if (peak_flops > 0)
    steps.mfu =
        Utilization(run, peak_flops).mfu({.samples_per_s = steps.samples_per_s, .tokens_per_s = steps.tokens_per_s});
}

/// Measures the device's peaks in the types that a run could compute in.
profiler::Peaks measure_peaks(const Run& run) {
  profiler::Peaks peaks;
  const auto measure = [&](const std::string& name, at::ScalarType dtype) {
    if (const double flops = roofline::measured_peak_flops(run.device, dtype); flops > 0)
      peaks.flops_per_s[name] = flops;
  };
  measure("fp32", at::kFloat);
  measure("bf16", at::kBFloat16);
  if (run.experiment.amp.mode == amp::Precision::fp16) measure("fp16", at::kHalf);
  peaks.bytes_per_s = roofline::measured_peak_bandwidth(run.device);
  return peaks;
}

/// Describes the run; the result keeps a reference to it.
profiler::ProfiledRun describe_for_profiler(Run& run, const profiler::Peaks& peaks,
                                            const std::filesystem::path& run_directory,
                                            const std::map<std::string, std::string>& settings) {
  profiler::ProfiledRun facts{
      .device = run.device,
      .rank = run.mesh->world().rank(),
      .run = model_info_of(run, settings),
      .machine = {.kind = run.device.is_cpu() ? "cpu" : "cuda",
                  .name = runtime::describe(run.device),
                  .threads = at::get_num_threads(),
                  .memory_mib = static_cast<double>(runtime::device_memory_limit(run.device)) / core::kMiB,
                  .cpu = machine::cpu_name(),
                  .cores = machine::usable_cores(),
                  .host_memory_mib = static_cast<double>(machine::usable_memory()) / core::kMiB,
                  .libtorch = TORCH_VERSION},
      .peaks = peaks,
      .modules = modules_of(*run.model),
      .memory = memory_of(run),
      .gradients = [&run] { return gradient_addresses(run); }};
  facts.run.directory = run_directory.string();
  return facts;
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
  if (profiler_->is_recording()) run_.mesh->world().take_communication_time();
}

void RunProfile::step_ends() {
  if (profiler_->is_recording()) {
    const comm::CommunicationTime time = run_.mesh->world().take_communication_time();
    communication_.busy_ms += time.busy_ms;
    communication_.exposed_ms += time.exposed_ms;
  }
  profiler_->step_ends();
}

profiler::DistributedSummary RunProfile::compare_ranks(const profiler::ProfileSummary& mine) {
  comm::Group& group = run_.mesh->world();
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

  profiler::DistributedSummary summary{
      .backend = run_.device.is_cpu() ? "gloo" : "nccl", .ranks = {}, .straggler = {}, .pipeline = {}};
  for (std::int64_t rank = 0; rank < group.size(); ++rank) {
    const auto* its = all.const_data_ptr<double>() + rank * kNumbers;
    summary.ranks.push_back({.rank = rank,
                             .step_ms = its[0],
                             .own_ms = its[1],
                             .data_wait_ms = its[2],
                             .communication_ms = its[3],
                             .exposed_ms = its[4],
                             .peak_mib = its[5]});
    summary.communication_ms += its[3] / static_cast<double>(group.size());
    summary.exposed_ms += its[4] / static_cast<double>(group.size());
  }
  compare_stages(run_, mine.pipeline_steps, summary);
  std::vector<RankTime> times;
  for (const profiler::RankSummary& rank : summary.ranks)
    times.push_back({.own_ms = rank.own_ms, .data_wait_ms = rank.data_wait_ms, .stage = rank.stage});
  if (const std::optional<Straggler> slow = find_straggler(times)) summary.straggler = {slow->rank, slow->text};
  return summary;
}

profiler::ProfileSummary RunProfile::finish(const profiler::DataSummary& data) {
  profiler::ProfileSummary summary = profiler_->summary();
  add_throughput(run_, summary);
  summary.data = data;
  if (!summary.run.memory_format.empty()) {
    const bool only_direct = run_.experiment.model.convolution_algorithm == model::ConvolutionAlgorithm::direct;
    summary.layout = probe_layout(summary.convolutions, run_.device,
                                  only_direct ? kernels::Winograd::never : kernels::Winograd::where_it_suits);
  }
  if (run_.mesh->world().size() > 1) summary.distributed = compare_ranks(summary);
  summary.findings = profiler::find_findings(summary);
  if (run_.is_first()) write_files(summary, directory_);
  return summary;
}

}  // namespace trainctl::train
