#include "plan/one_rank.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

#include <variant>

#include "cluster/gradient_reducer.h"

namespace trainctl {
namespace {

/// Replicas whose gradients are views of buckets, which are there from the start.
bool keeps_gradients(const DistributedConfig& config, std::int64_t world) {
  return world > 1 && config.how.get_if<ZeroConfig>() == nullptr &&
         config.how.get_if<NotDistributedConfig>() == nullptr;
}

/// The host's memory is as far from a GPU as a disk is from the CPU, which stands for the GPU here.
OffloadConfig beside(OffloadConfig offload, PlannedDevice device) {
  for (Offload* place : {&offload.optimizer, &offload.parameters})
    if (device == PlannedDevice::cuda && *place == Offload::host) *place = Offload::disk;
  return offload;
}

/// Where gradients are sent as thin matrices, what that hands to the next step: an error as large as each.
std::vector<at::Tensor> kept_by_compression(const DistributedConfig& config, const Run& run) {
  const auto* ddp = config.how.get_if<DdpConfig>();
  const auto* thin = ddp == nullptr ? nullptr : ddp->compression.get_if<PowerSgdConfig>();
  std::vector<at::Tensor> kept;
  if (thin == nullptr) return kept;
  for (const OptimizedParameter& one : run.parameters) {
    const std::int64_t columns =
        columns_sent(one.tensor.sizes(), {.rank = thin->rank, .min_compression = thin->min_compression});
    if (columns == 0) continue;
    kept.push_back(at::empty_like(one.tensor));
    kept.push_back(at::empty({one.tensor.numel() / one.tensor.size(0), columns}, one.tensor.options()));
  }
  return kept;
}

}  // namespace

Experiment as_one_rank(const Experiment& experiment, const AbstractOptions& options) {
  Experiment one = experiment;
  if (auto* eight_bits = std::get_if<QatConfig>(&one.quantization.training.value)) eight_bits->start_step = 0;
  const auto* zero = experiment.distributed.how.get_if<ZeroConfig>();
  const bool offloads =
      zero != nullptr && (zero->offload.optimizer != Offload::none || zero->offload.parameters != Offload::none);
  if (zero == nullptr || (options.world == 1 && !offloads)) {
    one.distributed.how = NotDistributedConfig{};
    return one;
  }
  ZeroConfig planned = *zero;
  planned.offload = beside(zero->offload, options.device);
  one.distributed.how = planned;
  return one;
}

CommunicationMemory communication_memory(const DistributedConfig& config, std::int64_t world, const Run& run) {
  CommunicationMemory memory;
  if (!keeps_gradients(config, world)) return memory;
  for (const OptimizedParameter& one : run.parameters) memory.gradients.push_back(at::empty_like(one.tensor));
  memory.compression = kept_by_compression(config, run);
  return memory;
}

void CommunicationMemory::attach(Run& run) const {
  for (std::size_t i = 0; i < gradients.size(); ++i) run.parameters[i].tensor.mutable_grad() = gradients[i];
}

}  // namespace trainctl
