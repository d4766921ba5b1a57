// Every rank holds the whole model and has a share of the samples (https://arxiv.org/abs/2006.15704).
#include <ATen/ops/_foreach_zero.h>

#include "cluster/gradient_reducer.h"
#include "distributed/kinds.h"
#include "distributed/replica.h"

namespace trainctl {
namespace {

GradientCompression compression_of(Compression compression) {
  switch (compression) {
    case Compression::none:
      return GradientCompression::none;
    case Compression::bf16:
      return GradientCompression::bf16;
    case Compression::fp16:
      return GradientCompression::fp16;
  }
  throw std::logic_error("unknown compression");
}

std::vector<NamedParameter> named(const std::vector<OptimizedParameter>& parameters) {
  std::vector<NamedParameter> same;
  for (const OptimizedParameter& parameter : parameters) same.push_back({parameter.name, parameter.tensor});
  return same;
}

std::vector<at::Tensor> buffers_of(Model& model) {
  std::vector<at::Tensor> buffers;
  for (NamedTensor& buffer : named_buffers(model)) buffers.push_back(std::move(buffer.tensor));
  return buffers;
}

class Ddp final : public Replica {
 public:
  Ddp(const DdpConfig& config, Group& group, Model& model)
      : Replica(group, model),
        model_(model),
        policy_(config.buffers),
        reducer_(make_gradient_reducer(
            group, named(optimized()), buffers_of(model),
            {.bucket_bytes = static_cast<std::int64_t>(config.bucket_mib * (1 << 20)),
             .compression = compression_of(config.compression),
             .unused = config.find_unused_parameters ? UnusedParameters::find : UnusedParameters::forbid,
             .graph = config.static_graph ? GraphShape::is_static : GraphShape::varies})) {
    if (config.sync_batch_norm) synchronize_batch_norm(model, batch_ranks(group, has_samples_));
  }

  void before_forward(Gradients gradients, std::int64_t samples) override {
    has_samples_ = samples > 0;
    reduces_ = gradients == Gradients::reduce;
    if (reduces_) reducer_->prepare_forward();
  }
  void before_backward(const at::Tensor& loss) override {
    if (reduces_) reducer_->prepare_backward(loss);
  }
  void after_backward() override {}

  void zero_grad() override {
    // In place: they are views of the Reducer's buckets.
    const std::vector<at::Tensor> gradients = gradients_of(optimized());
    if (!gradients.empty()) at::_foreach_zero_(gradients);
  }
  void share_buffers() override { trainctl::share_buffers(group(), policy_, model_); }

 private:
  Model& model_;
  BufferPolicy policy_;
  std::unique_ptr<GradientReducer> reducer_;
  bool reduces_ = false;
  bool has_samples_ = true;
};

}  // namespace

std::unique_ptr<Parallel> build(const DdpConfig& config, Group& group, Model& model) {
  return std::make_unique<Ddp>(config, group, model);
}

}  // namespace trainctl
