// Replicas whose gradients are summed once, after the last backward pass of a step.
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/zeros_like.h>

#include <deque>

#include "distributed/kinds.h"
#include "distributed/replica.h"

namespace trainctl::distributed {
namespace {

class SummedReplica final : public Replica {
 public:
  SummedReplica(double bucket_mib, SyncBuffers policy, comm::Group& group, model::Model& model)
      : Replica(model),
        bucket_bytes_(static_cast<std::size_t>(bucket_mib * (1 << 20))),
        policy_(policy),
        group_(group),
        model_(model) {}

  void before_forward(Gradients gradients, std::int64_t) override { sums_ = gradients == Gradients::reduce; }
  void before_backward(const at::Tensor&) override {}
  void after_backward() override {
    if (sums_) sum_gradients();
  }
  void zero_grad() override { trainctl::optimizer::zero_grad(optimized()); }
  void share_buffers() override { trainctl::distributed::share_buffers(group_, policy_, model_); }

 private:
  struct Bucket {
    std::vector<at::Tensor> gradients;
    at::Tensor sum;  // flat
    std::unique_ptr<comm::Work> summing;
  };

  void sum_gradients() {
    const at::NoGradGuard no_grad;
    std::deque<Bucket> under_way;
    std::vector<at::Tensor> gradients;
    std::size_t bytes = 0;
    const auto start = [&] {
      if (gradients.empty()) return;
      std::vector<at::Tensor> flat;
      for (const at::Tensor& gradient : gradients) flat.push_back(gradient.reshape({-1}));
      Bucket bucket{.gradients = std::move(gradients), .sum = at::cat(flat)};
      bucket.summing = group_.all_reduce(bucket.sum, comm::Reduce::sum);
      under_way.push_back(std::move(bucket));
      gradients.clear();
      bytes = 0;
      if (under_way.size() > 2) finish(under_way);  // each takes as much memory again as its gradients
    };
    for (const optimizer::OptimizedParameter& parameter : optimized()) {
      at::Tensor& gradient = parameter.tensor.mutable_grad();
      if (!gradient.defined()) gradient = at::zeros_like(parameter.tensor);
      const bool joins = gradients.empty() || gradients.front().scalar_type() == gradient.scalar_type();
      if (!joins || bytes + gradient.nbytes() > bucket_bytes_) start();
      gradients.push_back(gradient);
      bytes += gradient.nbytes();
    }
    start();
    while (!under_way.empty()) finish(under_way);
  }

  static void finish(std::deque<Bucket>& under_way) {
    const Bucket bucket = std::move(under_way.front());
    under_way.pop_front();
    bucket.summing->wait();
    std::int64_t begin = 0;
    for (const at::Tensor& gradient : bucket.gradients) {
      gradient.copy_(bucket.sum.narrow(0, begin, gradient.numel()).view(gradient.sizes()));
      begin += gradient.numel();
    }
  }

  std::size_t bucket_bytes_;
  SyncBuffers policy_;
  comm::Group& group_;
  model::Model& model_;
  bool sums_ = false;
};

}  // namespace

std::unique_ptr<Parallel> build_summed(double bucket_mib, SyncBuffers policy, comm::DeviceMesh& mesh,
                                       model::Model& model) {
  return std::make_unique<SummedReplica>(bucket_mib, policy, mesh.gradients(), model);
}

}  // namespace trainctl::distributed
