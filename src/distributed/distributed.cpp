#include "distributed/distributed.h"

#include <algorithm>
#include <map>
#include <string>

#include "core/error.h"
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

std::unique_ptr<Parallel> build(const AutoDistributedConfig&, comm::DeviceMesh& mesh, model::Model& model) {
  return build(DdpConfig{}, mesh, model);
}

std::unique_ptr<Parallel> build(const NotDistributedConfig&, comm::DeviceMesh&, model::Model& model) {
  return std::make_unique<Alone>(model);
}

/// Builds replicas as ddp does: that the members are threads changes nothing here.
std::unique_ptr<Parallel> build(const LocalReplicasConfig& config, comm::DeviceMesh& mesh, model::Model& model) {
  return build(DdpConfig{.bucket_mib = config.bucket_mib,
                         .sync_batch_norm = config.sync_batch_norm,
                         .sync_buffers = config.sync_buffers},
               mesh, model);
}

/// Returns whether one process alone uses this kind too, for the state that it keeps out of memory.
bool is_for_one(const DistributedKindConfig& how) {
  const auto* zero = how.get_if<ZeroConfig>();
  return zero != nullptr && (zero->offload.optimizer != Offload::none || zero->offload.parameters != Offload::none);
}

/// Returns the number of ranks per node; throws if nodes differ.
std::int64_t ranks_of_a_node(const comm::Group& world) {
  std::map<std::int64_t, std::int64_t> counts;
  for (const std::int64_t node : world.nodes()) ++counts[node];
  const auto [least, most] = std::minmax_element(counts.begin(), counts.end(),
                                                 [](const auto& a, const auto& b) { return a.second < b.second; });
  if (least->second != most->second)
    throw core::Error("hybrid sharding wants as many ranks on each node; one has " + std::to_string(least->second) +
                      " and another " + std::to_string(most->second))
        .hint("set distributed.shard_group_size to a number that divides " + std::to_string(world.size()));
  return least->second;
}

/// Returns the number of ranks among which hybrid sharding (torch's HYBRID_SHARD, MiCS:
/// https://arxiv.org/abs/2205.00119) deals each parameter; throws if the ranks can't be dealt evenly.
std::int64_t shard_group_size(const ZeroConfig& config, const comm::Group& world) {
  if (config.sharding == Sharding::full) return world.size();
  const std::int64_t size = config.shard_group_size > 0 ? config.shard_group_size : ranks_of_a_node(world);
  if (world.size() % size != 0)
    throw core::Error("distributed.shard_group_size is " + std::to_string(size) + ", which doesn't divide the " +
                      std::to_string(world.size()) + " ranks")
        .hint("every group has the same number of ranks");
  return size;
}

}  // namespace

comm::MeshShape mesh_shape(const DistributedConfig& config, const comm::Group& world) {
  const auto* zero = config.how.get_if<ZeroConfig>();
  if (zero == nullptr) return {.data = world.size()};
  const std::int64_t shard = shard_group_size(*zero, world);
  return {.data = world.size() / shard, .shard = shard};
}

bool shards_parameters(const DistributedConfig& config, const comm::Group& world) {
  const auto* zero = config.how.get_if<ZeroConfig>();
  return zero != nullptr && zero->stage == 3 && (world.size() > 1 || is_for_one(config.how));
}

std::unique_ptr<Parallel> build(const DistributedConfig& config, comm::DeviceMesh& mesh, model::Model& model,
                                const model::FirstValues& first_values) {
  if (mesh.world().size() == 1 && !is_for_one(config.how)) return std::make_unique<Alone>(model);
  return config.how.visit([&](const auto& how) {
    if constexpr (std::is_same_v<std::remove_cvref_t<decltype(how)>, ZeroConfig>)
      return build(how, mesh, model, first_values);
    else
      return build(how, mesh, model);
  });
}

}  // namespace trainctl::distributed
