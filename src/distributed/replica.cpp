#include "distributed/replica.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

namespace trainctl::distributed {
namespace {

/// Takes the mean over ranks, summed in their order: a backend's sum may have another order. In double precision,
/// ranks that agree keep their bits.
void average(comm::Group& group, const at::Tensor& buffer) {
  const std::int64_t count = buffer.numel();
  const at::Tensor all = at::empty({group.size() * count}, buffer.options());
  group.all_gather(all, buffer.contiguous().view({-1}))->wait();
  at::Tensor sum = at::zeros({count}, buffer.options().dtype(at::kDouble));
  for (std::int64_t rank = 0; rank < group.size(); ++rank) sum.add_(all.narrow(0, rank * count, count));
  buffer.copy_(sum.div_(static_cast<double>(group.size())).view(buffer.sizes()));
}

}  // namespace

Replica::Replica(model::Model& model) : model_(model), parameters_(trained_parameters(model)) {
  const std::vector<model::NamedTensor> all = model::named_parameters(model);
  if (!parameters_.empty())
    device_ = parameters_.front().tensor.device();
  else if (!all.empty())
    device_ = all.front().tensor.device();
}

void Replica::visit_state(runtime::State& state, optimizer::Optimizer& optimizer) {
  runtime::visit_as(state, "model", model_);
  runtime::visit_as(state, "optimizer", optimizer);
}

std::vector<optimizer::OptimizedParameter> trained_parameters(model::Model& model) {
  std::vector<optimizer::OptimizedParameter> parameters;
  const std::map<std::string, model::ParameterFacts> facts = model::parameter_facts(model);
  for (const model::NamedTensor& named : model::named_parameters(model)) {
    if (!named.tensor.requires_grad()) continue;
    const model::ParameterFacts& own = facts.at(named.name);
    parameters.push_back({.name = named.name,
                          .tensor = named.tensor,
                          .is_copy = named.is_copy,
                          .blocks_after = own.blocks_after,
                          .lr_scale = own.lr_scale,
                          .is_hidden_matrix = own.role == model::ParameterRole::hidden});
  }
  return parameters;
}

void share_buffers(comm::Group& group, SyncBuffers policy, model::Model& model) {
  const at::NoGradGuard no_grad;
  for (const model::NamedTensor& named : model::named_buffers(model)) {
    const at::Tensor& buffer = named.tensor;
    if (policy == SyncBuffers::average && buffer.is_floating_point()) {
      average(group, buffer);
    } else {
      group.broadcast(buffer, /*root=*/0)->wait();
    }
  }
}

model::BatchRanks batch_ranks(comm::Group& group, const bool& has_samples) {
  return {.gather =
              [&group](const at::Tensor& mine) {
                const at::Tensor all = at::empty({group.size() * mine.numel()}, mine.options());
                group.all_gather(all, mine)->wait();
                return all.view({group.size(), mine.numel()});
              },
          .sum = [&group](at::Tensor& sum) { group.all_reduce(sum, comm::Reduce::sum)->wait(); },
          .has_samples = [&has_samples] { return has_samples; }};
}

}  // namespace trainctl::distributed
