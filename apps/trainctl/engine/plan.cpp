// What an experiment would take.
#include <cstdio>
#include <nlohmann/json.hpp>

#include "choices.h"
#include "core/error.h"
#include "core/json.h"
#include "core/terminal.h"
#include "core/text.h"
#include "engine.h"
#include "machine/cpu.h"
#include "notice_printer.h"
#include "plan/choose.h"
#include "plan/memory/kernel_workspaces.h"
#include "plan/plan.h"
#include "plan/prediction.h"
#include "plan/report.h"
#include "plan/time/device_rates.h"
#include "runtime/device.h"

namespace trainctl::engine {
namespace {

constexpr double kGiB = 1 << 30;
// Between ranks of this machine: Gloo over loopback, and PCIe 4 as a GPU's copies reach it.
constexpr double kLocalLink = 1.0e9;
constexpr double kGpuLink = 20e9;

/// The device and memory of each rank.
struct Target {
  plan::PlannedDevice device;
  std::string name;
  plan::MemoryLimit limit;
};

std::vector<std::string> device_names() {
  std::vector<std::string> names;
  for (const plan::NamedDevice& device : plan::named_devices()) names.emplace_back(device.name);
  return names;
}

Target target_of(const cli::PlanOptions& options, const experiment::Experiment& experiment) {
  const auto asked = static_cast<std::int64_t>(options.memory_gib.value_or(0) * kGiB);
  if (!options.device.empty()) {
    const plan::NamedDevice* device = plan::find_device(options.device);
    if (device == nullptr)
      throw core::Error("no device is known as '" + options.device + "'")
          .hint("there are " + core::list_words(device_names()));
    const auto memory = static_cast<std::int64_t>(device->memory_gib * kGiB);
    return {plan::PlannedDevice::cuda, std::string(device->name), plan::gpu_limit(asked > 0 ? asked : memory)};
  }
  const runtime::DeviceKind kind = experiment.device.kind;
  if (kind != runtime::DeviceKind::cpu && runtime::num_gpus() > 0) {
    const c10::Device device = runtime::open_device(experiment.device);
    return {plan::PlannedDevice::cuda, runtime::describe(device),
            asked > 0 ? plan::gpu_limit(asked) : plan::memory_of(experiment, device, 1)};
  }
  if (kind == runtime::DeviceKind::cuda) {
    if (asked == 0)
      throw core::Error("device.kind is cuda, but which GPU isn't said").hint("--device h100, or --memory GIB");
    return {plan::PlannedDevice::cuda, "GPU", plan::gpu_limit(asked)};
  }
  // Without other word all ranks are on this machine.
  return {plan::PlannedDevice::cpu, machine::cpu_name(),
          asked > 0 ? plan::cpu_limit(asked) : plan::memory_of(experiment, c10::kCPU, options.world)};
}

/// Predicts times by the data sheet of the requested device; without one, by rates measured here, once.
std::optional<plan::TimePlan> time_of(const plan::RecordedPlan& plan, const cli::EngineCall& call) {
  if (!plan.memory.step.stages.empty()) return std::nullopt;  // a pipeline's time isn't predicted
  const cli::PlanOptions& asked = call.options<cli::PlanOptions>();
  const experiment::Experiment& experiment = call.loaded.experiment;
  const plan::Price price{.per_device_hour = asked.cost_per_hour.value_or(0), .num_devices = asked.world};
  const auto plan_with = [&](const plan::DeviceRates& rates, std::string basis) {
    plan::TimePlan timed = plan::plan_time(plan::predict_step_time(plan.operations, rates, plan.traffic),
                                           plan.memory.step, experiment.train, price);
    timed.basis = std::move(basis);
    return timed;
  };
  if (!asked.device.empty()) {
    const plan::FloatProducts products =
        experiment.amp.mode == amp::Precision::fp32 ? plan::FloatProducts::fp32 : plan::FloatProducts::tf32;
    return plan_with(plan::rates_of(*plan::find_device(asked.device), products), "the data sheet of " + asked.device);
  }
  if (experiment.device.kind == runtime::DeviceKind::cuda && runtime::num_gpus() == 0) return std::nullopt;
  runtime::install_host_allocator(experiment.device);
  const c10::Device device = runtime::open_device(experiment.device);
  plan::MeasuredRates measured(device, plan::MeasuredRates::default_directory(),
                               asked.calibrate ? plan::MeasuredRates::Kept::renew : plan::MeasuredRates::Kept::read);
  if (const std::vector<plan::RateKey> missing = measured.missing(plan.operations); !missing.empty())
    measured.measure(missing);
  plan::DeviceRates rates = measured.rates();
  rates.link_bytes_per_s = device.is_cpu() ? kLocalLink : kGpuLink;
  std::string basis = "what was measured on " + rates.device;
  const double share = measured.disturbed_share(plan.operations);
  if (share > 0)
    basis += " while other programs took up to " + core::format_percent(share, 0) +
             " of its time: too long, so the next plan measures again";
  plan::TimePlan timed = plan_with(rates, std::move(basis));
  timed.disturbed_share = share;
  return timed;
}

}  // namespace

int run_plan(const cli::EngineCall& given) {
  const cli::PlanOptions& asked = given.options<cli::PlanOptions>();
  cli::EngineCall call = given;
  const std::string warning = asked.device.empty() ? runtime::device_warning(call.loaded.experiment.device) : "";
  if (!warning.empty()) NoticePrinter().on(tracking::Notice{tracking::Level::warning, warning});
  const Target target = target_of(asked, call.loaded.experiment);
  std::optional<plan::KernelWorkspaces> workspaces;
  if (target.device == plan::PlannedDevice::cpu) {
    runtime::install_host_allocator(call.loaded.experiment.device);
    runtime::open_device(call.loaded.experiment.device,
                         {.rank = 0, .world_size = asked.world});  // threads choose kernels
    workspaces.emplace(plan::MeasuredRates::default_directory(),
                       asked.calibrate ? plan::KernelWorkspaces::Kept::renew : plan::KernelWorkspaces::Kept::read);
  }
  const plan::DryRunOptions options{
      .world = asked.world, .device = target.device, .workspaces = workspaces ? &*workspaces : nullptr};
  if (plan::has_choices(call.loaded.experiment)) {
    const plan::Choices choices = plan::choose(call.loaded.experiment, options, target.limit);
    NoticePrinter().on(tracking::Notice{tracking::Level::info, choices.why});
    call.loaded = experiment::with_values(call.loaded, choices.values);
  }
  const plan::RecordedPlan plan =
      plan::plan_with_operations(call.loaded.experiment, options, target.limit, plan::FitSearch::largest_batch);
  const std::optional<plan::TimePlan> time = time_of(plan, call);
  const plan::PlanTitle title{.experiment = call.loaded.experiment.name, .device = target.name, .world = asked.world};
  if (call.json) {
    nlohmann::ordered_json json = plan::plan_json(title, plan.memory);
    if (time) json["time"] = plan::time_json(*time);
    std::printf("%s\n", core::indented_json(json).c_str());
  } else {
    core::print(stdout, "%s\n%s", plan::format_plan(title, plan.memory).c_str(),
                time ? ("\n" + plan::format_time(*time) + "\n").c_str() : "");
  }
  return 0;
}

}  // namespace trainctl::engine
