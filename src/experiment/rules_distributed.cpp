#include "experiment/rules.h"

namespace trainctl::experiment {
namespace {

void check_backend(Checked& c) {
  const comm::Backend backend = c.experiment.distributed.backend;
  if (backend == comm::Backend::nccl && c.experiment.device.kind == runtime::DeviceKind::cpu)
    c.report({"distributed.backend", "device.kind"}, "nccl joins GPUs, and device is cpu; gloo joins CPUs");
}

void check_ddp(Checked& c) {
  const distributed::DdpConfig* ddp = c.experiment.distributed.how.get_if<distributed::DdpConfig>();
  if (ddp == nullptr) return;
  if (ddp->static_graph && ddp->find_unused_parameters)
    c.report({"distributed.find_unused_parameters", "distributed.static_graph"},
             "a static graph's unused parameters are found in the first step; leave this out");
  if (ddp->sync_batch_norm && ddp->sync_buffers == distributed::SyncBuffers::average)
    c.report({"distributed.sync_buffers", "distributed.sync_batch_norm"},
             "synchronised statistics are the same on every rank: there is nothing to average");
  if (config::traits_of(ddp->gradient_compression).carries_error && c.experiment.amp.mode == amp::Precision::fp16)
    c.report({"distributed.gradient_compression", "amp.mode"},
             std::string(ddp->gradient_compression.kind()) +
                 " hands the error of one step to the next, and fp16's loss scale changes between them; take bf16");
}

void check_offload(Checked& c, const distributed::ZeroConfig& zero) {
  const distributed::OffloadConfig& offload = zero.offload;
  if (offload.parameters != distributed::Offload::none && zero.stage < 3)
    c.report(
        {"distributed.offload.parameters", "distributed.stage"},
        "a rank keeps only its part of the parameters in stage 3 alone, and stage is " + std::to_string(zero.stage));
  if (offload.parameters != distributed::Offload::none && offload.optimizer == distributed::Offload::none)
    c.report({"distributed.offload.parameters", "distributed.offload.optimizer"},
             "they are updated where they lie, so the optimizer's state must lie there too: set "
             "distributed.offload.optimizer to host or disk");
  if (c.experiment.device.kind == runtime::DeviceKind::cpu)
    for (const auto& [path, place] : {std::pair("distributed.offload.optimizer", offload.optimizer),
                                      std::pair("distributed.offload.parameters", offload.parameters)})
      if (place == distributed::Offload::cpu)
        c.report({path, "device.kind"}, "device is cpu, so that is in the host's memory already; take disk");
  const bool uses_disk =
      offload.parameters == distributed::Offload::disk || offload.optimizer == distributed::Offload::disk;
  if (uses_disk && offload.path.empty())
    c.report({"distributed.offload.path", "distributed.offload"},
             "disk needs a directory for the file: one on a disk of each node");
  if (!uses_disk && !offload.path.empty())
    c.report({"distributed.offload.path", "distributed.offload"}, "nothing of this run is offloaded to disk");
}

void check_zero(Checked& c) {
  const distributed::ZeroConfig* zero = c.experiment.distributed.how.get_if<distributed::ZeroConfig>();
  if (zero == nullptr) return;
  if (zero->stage < 3 && !zero->reshard_after_forward)
    c.report({"distributed.reshard_after_forward", "distributed.stage"},
             "parameters are sharded in stage 3 alone, and stage is " + std::to_string(zero->stage));
  if (zero->sharding == distributed::Sharding::full && zero->shard_group_size > 0)
    c.report({"distributed.shard_group_size", "distributed.sharding"},
             "all ranks share with sharding: full; groups are made with sharding: hybrid");
  check_offload(c, *zero);
}

/// A shard can be updated by itself if no element needs another.
void check_shards(Checked& c) {
  const optimizer::UpdateRuleConfig& rule = c.experiment.optimizer.rule;
  const distributed::DistributedKindConfig& how = c.experiment.distributed.how;
  if (config::traits_of(how).layout == distributed::Layout::sharded && !config::traits_of(rule).is_elementwise)
    c.report({"optimizer.kind", "distributed.kind"}, std::string(rule.kind()) + " looks at whole parameters, and " +
                                                         std::string(how.kind()) +
                                                         " cuts them; take another optimizer, or ddp");
}

}  // namespace

void check_distributed(Checked& checked) {
  check_backend(checked);
  check_ddp(checked);
  check_zero(checked);
  check_shards(checked);
}

}  // namespace trainctl::experiment
