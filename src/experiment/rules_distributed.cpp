#include "experiment/rules.h"

namespace trainctl {
namespace {

void check_backend(Checked& c) {
  const CommunicationBackend backend = c.experiment.distributed.backend;
  if (backend == CommunicationBackend::nccl && c.experiment.device.kind == DeviceKind::cpu)
    c.report({"distributed.backend", "device.kind"}, "nccl joins GPUs, and device is cpu; gloo joins CPUs");
}

void check_ddp(Checked& c) {
  const DdpConfig* ddp = c.experiment.distributed.how.get_if<DdpConfig>();
  if (ddp == nullptr) return;
  if (ddp->static_graph && ddp->find_unused_parameters)
    c.report({"distributed.find_unused_parameters", "distributed.static_graph"},
             "a static graph's unused parameters are found in the first step; leave this out");
  if (ddp->sync_batch_norm && ddp->buffers == BufferPolicy::average)
    c.report({"distributed.buffers", "distributed.sync_batch_norm"},
             "synchronised statistics are the same on every rank: there is nothing to average");
}

void check_zero(Checked& c) {
  const ZeroConfig* zero = c.experiment.distributed.how.get_if<ZeroConfig>();
  if (zero == nullptr) return;
  if (zero->stage < 3 && !zero->reshard_after_forward)
    c.report({"distributed.reshard_after_forward", "distributed.stage"},
             "parameters are sharded in stage 3 alone, and stage is " + std::to_string(zero->stage));
  const std::string_view rule = c.experiment.optimizer.rule.kind();
  if (rule == LambConfig::kind || rule == AdafactorConfig::kind)
    c.report({"optimizer.kind", "distributed.kind"},
             std::string(rule) + " looks at whole parameters, and zero cuts them; take another optimizer, or ddp");
  if (c.experiment.optimizer.ema)
    c.report({"optimizer.ema", "distributed.kind"}, "weights are not averaged with zero; leave ema out, or take ddp");
}

}  // namespace

void check_distributed(Checked& checked) {
  check_backend(checked);
  check_ddp(checked);
  check_zero(checked);
}

}  // namespace trainctl
