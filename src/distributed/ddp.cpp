// Every rank holds the whole model and has a share of the samples (https://arxiv.org/abs/2006.15704).
#include <ATen/ops/_foreach_zero.h>

#include "comm/reduce/gradient_reducer.h"
#include "distributed/kinds.h"
#include "distributed/replica.h"

namespace trainctl::distributed {
namespace {

std::optional<at::ScalarType> type_sent(const CompressionConfig& config) {
  if (config.get_if<Bf16CompressionConfig>() != nullptr) return at::kBFloat16;
  if (config.get_if<Fp16CompressionConfig>() != nullptr) return at::kHalf;
  return std::nullopt;
}

std::optional<comm::LowRankOptions> low_rank(const CompressionConfig& config) {
  const auto* power_sgd = config.get_if<PowerSgdConfig>();
  if (power_sgd == nullptr) return std::nullopt;
  return comm::LowRankOptions{.rank = power_sgd->rank,
                              .start_step = power_sgd->start_step,
                              .min_compression_rate = power_sgd->min_compression_rate};
}

std::vector<comm::NamedParameter> named(const std::vector<optimizer::OptimizedParameter>& parameters) {
  std::vector<comm::NamedParameter> same;
  for (const optimizer::OptimizedParameter& parameter : parameters) same.push_back({parameter.name, parameter.tensor});
  return same;
}

std::vector<at::Tensor> buffers_of(model::Model& model) {
  std::vector<at::Tensor> buffers;
  for (model::NamedTensor& buffer : model::named_buffers(model)) buffers.push_back(std::move(buffer.tensor));
  return buffers;
}

class Ddp final : public Replica {
 public:
  Ddp(const DdpConfig& config, comm::Group& group, model::Model& model)
      : Replica(model),
        group_(group),
        model_(model),
        policy_(config.sync_buffers),
        reducer_(comm::make_gradient_reducer(
            group, named(optimized()), buffers_of(model),
            {.bucket_bytes = static_cast<std::int64_t>(config.bucket_mib * (1 << 20)),
             .send_as = type_sent(config.gradient_compression),
             .low_rank = low_rank(config.gradient_compression),
             .unused = config.find_unused_parameters ? comm::UnusedParameters::find : comm::UnusedParameters::forbid,
             .graph = config.static_graph ? comm::GraphShape::is_static : comm::GraphShape::varies})) {
    if (config.sync_batch_norm) model::synchronize_batch_norm(model, batch_ranks(group, has_samples_));
  }

  void before_forward(Gradients gradients, std::int64_t samples) override {
    has_samples_ = samples > 0;
    reduces_ = gradients == Gradients::reduce;
    if (reduces_) reducer_->prepare_forward();
  }
  void before_backward(const at::Tensor& loss) override {
    if (reduces_) reducer_->prepare_backward(loss);
  }
  void after_backward() override {
    if (reduces_) reducer_->backward_done();
  }

  void zero_grad() override {
    // In place: they are views of the Reducer's buckets.
    const std::vector<at::Tensor> gradients = optimizer::gradients_of(optimized());
    if (!gradients.empty()) at::_foreach_zero_(gradients);
  }
  void share_buffers() override {
    trainctl::distributed::share_buffers(group_, policy_, model_);
    reducer_->share_state();
  }
  void visit_state(runtime::State& state, optimizer::Optimizer& optimizer) override {
    Replica::visit_state(state, optimizer);
    runtime::visit_as(state, "compression", *reducer_);
  }

 private:
  comm::Group& group_;  // whose gradients are summed
  model::Model& model_;
  SyncBuffers policy_;
  std::unique_ptr<comm::GradientReducer> reducer_;
  bool reduces_ = false;
  bool has_samples_ = true;
};

}  // namespace

std::unique_ptr<Parallel> build(const DdpConfig& config, comm::DeviceMesh& mesh, model::Model& model) {
  if (mesh.size(comm::Axis::pipeline) > 1) return build_summed(config.bucket_mib, config.sync_buffers, mesh, model);
  return std::make_unique<Ddp>(config, mesh.gradients(), model);
}

}  // namespace trainctl::distributed
