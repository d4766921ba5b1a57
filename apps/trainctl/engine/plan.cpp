// What an experiment would take.
#include <cstdio>
#include <nlohmann/json.hpp>

#include "choices.h"
#include "core/error.h"
#include "core/text.h"
#include "engine.h"
#include "machine/cpu.h"
#include "machine/limits.h"
#include "notice_printer.h"
#include "plan/choose.h"
#include "plan/device_rates.h"
#include "plan/kernel_workspaces.h"
#include "plan/plan.h"
#include "plan/prediction.h"
#include "plan/report.h"
#include "plan/time_report.h"
#include "runtime/device.h"

namespace trainctl {
namespace {

constexpr double kGiB = 1 << 30;
// Between ranks of this machine: Gloo over loopback, and PCIe 4 as a GPU's copies reach it.
constexpr double kLocalLink = 1.0e9;
constexpr double kGpuLink = 20e9;

/// What the ranks compute on, and what each has.
struct Target {
  PlannedDevice device;
  std::string name;
  MemoryLimit limit;
};

std::vector<std::string> device_names() {
  std::vector<std::string> names;
  for (const NamedDevice& device : named_devices()) names.emplace_back(device.name);
  return names;
}

Target target_of(const PlanOptions& options, const Experiment& experiment) {
  const auto asked = static_cast<std::int64_t>(options.memory_gib * kGiB);
  if (!options.device.empty()) {
    const NamedDevice* device = find_device(options.device);
    if (device == nullptr)
      throw Error("no device is known as '" + options.device + "'").hint("there are " + list_words(device_names()));
    const auto memory = static_cast<std::int64_t>(device->memory_gib * kGiB);
    return {PlannedDevice::cuda, std::string(device->name), gpu_limit(asked > 0 ? asked : memory)};
  }
  if (experiment.device.kind == DeviceKind::cuda) {
    if (num_gpus() > 0) {
      const c10::Device device = open_device(experiment.device);
      return {PlannedDevice::cuda, describe(device), asked > 0 ? gpu_limit(asked) : memory_of(experiment, device, 1)};
    }
    if (asked == 0) throw Error("device.kind is cuda, but which GPU isn't said").hint("--device h100, or --memory GIB");
    return {PlannedDevice::cuda, "GPU", gpu_limit(asked)};
  }
  // Without other word all ranks are on this machine.
  const auto share = static_cast<std::int64_t>(machine::usable_memory()) / options.world;
  return {PlannedDevice::cpu, machine::cpu_name(), cpu_limit(asked > 0 ? asked : share)};
}

/// By the data sheet of the device that was asked for, else by what is measured here, once.
std::optional<TimePlan> time_of(const RecordedPlan& plan, const EngineCall& call) {
  const Experiment& experiment = call.loaded.experiment;
  const Price price{.per_device_hour = call.plan.cost_per_hour, .num_devices = call.plan.world};
  const auto plan_with = [&](const DeviceRates& rates, std::string basis) {
    TimePlan timed =
        plan_time(predict_step_time(plan.operations, rates, plan.traffic), plan.memory.step, experiment.train, price);
    timed.basis = std::move(basis);
    return timed;
  };
  if (!call.plan.device.empty()) {
    const FloatProducts products = experiment.amp.mode == Precision::fp32 ? FloatProducts::fp32 : FloatProducts::tf32;
    return plan_with(rates_of(*find_device(call.plan.device), products), "the data sheet of " + call.plan.device);
  }
  if (experiment.device.kind == DeviceKind::cuda && num_gpus() == 0) return std::nullopt;
  install_host_allocator(experiment.device.cache_memory ? HostMemory::cached : HostMemory::system);
  const c10::Device device = open_device(experiment.device);
  MeasuredRates measured(device, MeasuredRates::default_directory(),
                         call.plan.calibrate ? MeasuredRates::Kept::renew : MeasuredRates::Kept::read);
  if (const std::vector<RateKey> missing = measured.missing(plan.operations); !missing.empty())
    measured.measure(missing);
  DeviceRates rates = measured.rates();
  rates.link_bytes_per_s = device.is_cpu() ? kLocalLink : kGpuLink;
  std::string basis = "what was measured on " + rates.device;
  const double share = measured.disturbed_share(plan.operations);
  if (share > 0)
    basis += " while other programs took up to " + format_percent(share, 0) +
             " of its time: too long, so the next plan measures again";
  TimePlan timed = plan_with(rates, std::move(basis));
  timed.disturbed_share = share;
  return timed;
}

}  // namespace

int run_plan(const EngineCall& given) {
  EngineCall call = given;
  const Target target = target_of(call.plan, call.loaded.experiment);
  std::optional<KernelWorkspaces> workspaces;
  if (target.device == PlannedDevice::cpu) {
    install_host_allocator(call.loaded.experiment.device.cache_memory ? HostMemory::cached : HostMemory::system);
    open_device(call.loaded.experiment.device, {.rank = 0, .world_size = call.plan.world});  // threads choose kernels
    workspaces.emplace(MeasuredRates::default_directory(),
                       call.plan.calibrate ? KernelWorkspaces::Kept::renew : KernelWorkspaces::Kept::read);
  }
  const AbstractOptions options{
      .world = call.plan.world, .device = target.device, .workspaces = workspaces ? &*workspaces : nullptr};
  if (has_choices(call.loaded.experiment)) {
    const Choices choices = choose(call.loaded.experiment, options, target.limit);
    NoticePrinter().on(Notice{Level::info, choices.why});
    call.loaded = with_settings(call.loaded, assignments(choices.settings));
  }
  const RecordedPlan plan =
      plan_with_operations(call.loaded.experiment, options, target.limit, FitSearch::largest_batch);
  const std::optional<TimePlan> time = time_of(plan, call);
  const PlanTitle title{.experiment = call.loaded.experiment.name, .device = target.name, .world = call.plan.world};
  if (call.json) {
    nlohmann::ordered_json json = plan_json(title, plan.memory);
    if (time) json["time"] = time_json(*time);
    std::printf("%s\n", json.dump(2).c_str());
  } else {
    std::printf("%s\n%s", format_plan(title, plan.memory).c_str(),
                time ? ("\n" + format_time(*time) + "\n").c_str() : "");
  }
  return 0;
}

}  // namespace trainctl
