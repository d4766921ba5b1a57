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

/// Returns the number of ranks on each node.
std::map<std::int64_t, std::int64_t> ranks_by_node(const comm::Group& world) {
  std::map<std::int64_t, std::int64_t> counts;
  for (const std::int64_t node : world.nodes()) ++counts[node];
  return counts;
}

/// Throws if `key` ranks don't divide `num_ranks`, with the numbers next to it that do.
void check_divides(const std::string& key, std::int64_t wanted, std::int64_t num_ranks, const std::string& of_what) {
  if (num_ranks % wanted == 0) return;
  std::int64_t below = std::min(wanted, num_ranks);
  while (num_ranks % below != 0) --below;
  std::int64_t above = wanted;
  while (above < num_ranks && num_ranks % above != 0) ++above;
  std::string layouts = key + ": " + std::to_string(below);
  if (above <= num_ranks && above != below && num_ranks % above == 0) layouts += " or " + std::to_string(above);
  throw core::Error(key + " is " + std::to_string(wanted) + ", which doesn't divide the " + std::to_string(num_ranks) +
                    (num_ranks == 1 ? " rank" : " ranks") + of_what)
      .hint(layouts + ", or start a multiple of " + std::to_string(wanted) + " ranks");
}

/// Throws if ranks that share layers are on several nodes: they exchange values in every layer.
void check_within_nodes(std::int64_t tensor, const comm::Group& world) {
  for (const auto& [node, count] : ranks_by_node(world))
    if (count % tensor != 0)
      throw core::Error("distributed.tensor is " + std::to_string(tensor) + ", and node " + std::to_string(node) +
                        " has " + std::to_string(count) + (count == 1 ? " rank" : " ranks") +
                        ": ranks that share layers must be on one node")
          .hint("set distributed.tensor to a number that divides " + std::to_string(count) +
                ", and distributed.pipeline for what is between nodes");
}

/// The sizes of the axes data and shard, whose product is `num_ranks`. With both, this is torch's HYBRID_SHARD, MiCS
/// (https://arxiv.org/abs/2205.00119).
std::pair<std::int64_t, std::int64_t> data_and_shard(const DistributedConfig& config, std::int64_t num_ranks) {
  const auto* zero = config.how.get_if<ZeroConfig>();
  const std::int64_t parts = config.pipeline * config.tensor * config.context;
  const std::string of_parts = parts == 1 ? "" : " that the other axes leave";
  if (zero != nullptr && zero->shard.is_auto()) {
    const std::int64_t data = config.data.value.value_or(1);
    check_divides("distributed.data", data, num_ranks, of_parts);
    return {data, num_ranks / data};
  }
  const std::int64_t shard = zero == nullptr ? 1 : *zero->shard.value;
  check_divides("distributed.shard", shard, num_ranks, of_parts);
  const std::int64_t data = num_ranks / shard;
  if (const std::int64_t wanted = config.data.value.value_or(data); wanted != data)
    throw core::Error("distributed.data is " + std::to_string(wanted) + ", and the other axes leave " +
                      std::to_string(data) + (data == 1 ? " rank" : " ranks") + " for it")
        .hint("distributed.data: auto, or start " + std::to_string(wanted * shard * parts) + " ranks");
  return {data, shard};
}

}  // namespace

comm::MeshShape mesh_shape(const DistributedConfig& config, const comm::Group& world) {
  check_divides("distributed.pipeline", config.pipeline, world.size(), "");
  const std::int64_t of_stage = world.size() / config.pipeline;
  check_divides("distributed.tensor", config.tensor, of_stage, config.pipeline == 1 ? "" : " of a stage");
  check_within_nodes(config.tensor, world);
  const std::int64_t with_all_layers = of_stage / config.tensor;
  check_divides("distributed.context", config.context, with_all_layers,
                config.pipeline * config.tensor == 1 ? "" : " that have the same part of the model");
  const auto [data, shard] = data_and_shard(config, with_all_layers / config.context);
  return {
      .pipeline = config.pipeline, .data = data, .shard = shard, .context = config.context, .tensor = config.tensor};
}

model::TensorRanksPtr tensor_ranks(const DistributedConfig& config, comm::DeviceMesh& mesh) {
  if (mesh.size(comm::Axis::tensor) == 1) return nullptr;
  comm::Group& group = mesh.over({comm::Axis::tensor});
  return std::make_shared<const model::TensorRanks>(model::TensorRanks{
      .rank = group.rank(),
      .size = group.size(),
      .sum = [&group](at::Tensor& value) { group.all_reduce(value, comm::Reduce::sum)->wait(); },
      .max = [&group](at::Tensor& value) { group.all_reduce(value, comm::Reduce::max)->wait(); },
      .shares_tokens = config.sequence_parallel,
      .gather = [&group](at::Tensor& all, const at::Tensor& mine) { group.all_gather(all, mine)->wait(); },
      .sum_and_scatter = [&group](at::Tensor& mine,
                                  const at::Tensor& all) { group.reduce_scatter(mine, all)->wait(); }});
}

model::ContextRanksPtr context_ranks(comm::DeviceMesh& mesh) {
  if (mesh.size(comm::Axis::context) == 1) return nullptr;
  comm::Group& group = mesh.over({comm::Axis::context});
  // Sends and receives of NCCL are done in order: in a ring where all sent first, all would wait.
  const auto pass_on = [&group](const at::Tensor& mine, at::Tensor& theirs) -> std::function<void()> {
    const std::int64_t next = (group.rank() + 1) % group.size();
    const std::int64_t previous = (group.rank() + group.size() - 1) % group.size();
    std::shared_ptr<comm::Work> receipt;
    if (group.rank() % 2 == 1) receipt = group.irecv(theirs, previous);
    const std::shared_ptr<comm::Work> sending = group.isend(mine, next);
    if (!receipt) receipt = group.irecv(theirs, previous);
    return [sending, receipt] {
      receipt->wait();
      sending->wait();
    };
  };
  return std::make_shared<const model::ContextRanks>(
      model::ContextRanks{.rank = group.rank(), .size = group.size(), .pass_on = pass_on});
}

bool shards_parameters(const DistributedConfig& config, const comm::Group& gradients) {
  const auto* zero = config.how.get_if<ZeroConfig>();
  return zero != nullptr && zero->stage == 3 && (gradients.size() > 1 || is_for_one(config.how));
}

std::unique_ptr<Parallel> build(const DistributedConfig& config, comm::DeviceMesh& mesh, model::Model& model,
                                const model::FirstValues& first_values, const PipelineStages* stages) {
  std::unique_ptr<Parallel> parallel;
  if (mesh.gradients().size() == 1 && !is_for_one(config.how))
    parallel = std::make_unique<Alone>(model);
  else
    parallel = config.how.visit([&](const auto& how) {
      if constexpr (std::is_same_v<std::remove_cvref_t<decltype(how)>, ZeroConfig>)
        return build(how, mesh, model, first_values);
      else
        return build(how, mesh, model);
    });
  const bool has_part = stages != nullptr || mesh.size(comm::Axis::tensor) > 1;
  return has_part ? build_model_part(std::move(parallel), stages, mesh, model) : std::move(parallel);
}

}  // namespace trainctl::distributed
