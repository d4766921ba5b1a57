#include "plan/one_rank.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

#include <algorithm>
#include <variant>

#include "comm/reduce/gradient_reducer.h"

namespace trainctl::plan {
namespace {

/// Returns whether gradients are views of buckets, which replicas allocate at the start.
bool keeps_gradients(const distributed::DistributedConfig& config, const train::Run& run) {
  return run.mesh->gradients().size() > 1 && config::traits_of(config.how).layout == distributed::Layout::replicated;
}

/// Returns the offload of a GPU's run as the CPU would do it: to a disk in place of the host's memory.
distributed::OffloadConfig beside(distributed::OffloadConfig offload, PlannedDevice device) {
  for (distributed::Offload* place : {&offload.optimizer, &offload.parameters})
    if (device == PlannedDevice::cuda && *place == distributed::Offload::cpu) *place = distributed::Offload::disk;
  return offload;
}

/// Returns the tensors that PowerSGD keeps for the next step: for each compressed gradient an error of its size, and a
/// thin matrix.
std::vector<at::Tensor> kept_by_compression(const distributed::DistributedConfig& config, const train::Run& run) {
  const auto* ddp = config.how.get_if<distributed::DdpConfig>();
  const auto* thin = ddp == nullptr ? nullptr : ddp->gradient_compression.get_if<distributed::PowerSgdConfig>();
  std::vector<at::Tensor> kept;
  if (thin == nullptr) return kept;
  for (const optimizer::OptimizedParameter& one : run.parameters) {
    const std::int64_t columns = comm::columns_sent(
        one.tensor.sizes(), {.rank = thin->rank, .min_compression_rate = thin->min_compression_rate});
    if (columns == 0) continue;
    kept.push_back(at::empty_like(one.tensor));
    kept.push_back(at::empty({one.tensor.numel() / one.tensor.size(0), columns}, one.tensor.options()));
  }
  return kept;
}

}  // namespace

experiment::Experiment with_fewest_micro_batches(experiment::Experiment experiment) {
  const distributed::DistributedConfig& config = experiment.distributed;
  const bool keeps_few = config.pipeline_schedule.get_if<distributed::GpipeConfig>() == nullptr &&
                         config.pipeline_schedule.get_if<distributed::ScheduleFileConfig>() == nullptr;
  if (keeps_few) experiment.accumulation.steps = std::min(experiment.accumulation.steps, 2 * config.pipeline);
  return experiment;
}

experiment::Experiment as_one_rank(const experiment::Experiment& experiment, const DryRunOptions& options) {
  experiment::Experiment one = experiment;
  if (auto* eight_bits = std::get_if<quantization::QatConfig>(&one.quantization.training.value))
    eight_bits->start_step = 0;
  const auto* zero = experiment.distributed.how.get_if<distributed::ZeroConfig>();
  const bool offloads = zero != nullptr && (zero->offload.optimizer != distributed::Offload::none ||
                                            zero->offload.parameters != distributed::Offload::none);
  if (zero == nullptr || (options.world == 1 && !offloads)) {
    one.distributed.how = distributed::NotDistributedConfig{};
    return one;
  }
  distributed::ZeroConfig planned = *zero;
  planned.offload = beside(zero->offload, options.device);
  one.distributed.how = planned;
  return one;
}

CommunicationMemory communication_memory(const distributed::DistributedConfig& config, const train::Run& run) {
  CommunicationMemory memory;
  if (!keeps_gradients(config, run)) return memory;
  for (const optimizer::OptimizedParameter& one : run.parameters)
    memory.gradients.push_back(at::empty_like(one.tensor));
  memory.compression = kept_by_compression(config, run);
  return memory;
}

void CommunicationMemory::attach(train::Run& run) const {
  for (std::size_t i = 0; i < gradients.size(); ++i) run.parameters[i].tensor.mutable_grad() = gradients[i];
}

}  // namespace trainctl::plan
