#include "distributed/distributed.h"

#include "distributed/kinds.h"
#include "distributed/replica.h"

namespace trainctl::distributed {
namespace {

class Alone final : public Replica {
 public:
  using Replica::Replica;
  void before_forward(Gradients, std::int64_t) override {}
  void before_backward(const at::Tensor&) override {}
  void after_backward() override {}
  void zero_grad() override { trainctl::optimizer::zero_grad(optimized()); }
  void share_buffers() override {}
};

std::unique_ptr<Parallel> build(const AutoDistributedConfig&, comm::Group& group, model::Model& model) {
  return build(DdpConfig{}, group, model);
}

std::unique_ptr<Parallel> build(const NotDistributedConfig&, comm::Group& group, model::Model& model) {
  return std::make_unique<Alone>(group, model);
}

/// Builds replicas as ddp does: that the members are threads changes nothing here.
std::unique_ptr<Parallel> build(const LocalReplicasConfig& config, comm::Group& group, model::Model& model) {
  return build(DdpConfig{.bucket_mib = config.bucket_mib,
                         .sync_batch_norm = config.sync_batch_norm,
                         .sync_buffers = config.sync_buffers},
               group, model);
}

/// Returns whether one process alone uses this kind too, for the state that it keeps out of memory.
bool is_for_one(const DistributedKindConfig& how) {
  const auto* zero = how.get_if<ZeroConfig>();
  return zero != nullptr && (zero->offload.optimizer != Offload::none || zero->offload.parameters != Offload::none);
}

}  // namespace

bool shards_parameters(const DistributedConfig& config, const comm::Group& group) {
  const auto* zero = config.how.get_if<ZeroConfig>();
  return zero != nullptr && zero->stage == 3 && (group.size() > 1 || is_for_one(config.how));
}

std::unique_ptr<Parallel> build(const DistributedConfig& config, comm::Group& group, model::Model& model,
                                const model::FirstValues& first_values) {
  if (group.size() == 1 && !is_for_one(config.how)) return std::make_unique<Alone>(group, model);
  return config.how.visit([&](const auto& how) {
    if constexpr (std::is_same_v<std::remove_cvref_t<decltype(how)>, ZeroConfig>)
      return build(how, group, model, first_values);
    else
      return build(how, group, model);
  });
}

}  // namespace trainctl::distributed
