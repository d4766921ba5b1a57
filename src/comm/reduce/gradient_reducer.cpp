#include "comm/reduce/gradient_reducer.h"

#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/distributed/c10d/comm.hpp>
#include <torch/csrc/distributed/c10d/reducer.hpp>

#include <algorithm>

#include "comm/backend/c10d_group.h"
#include "comm/reduce/power_sgd.h"

namespace trainctl::comm {
namespace {

constexpr std::int64_t kBroadcastBytes = 250 << 20;  // sent at once

/// Sums a bucket in its own type or in 16 bits. Without a hook, the Reducer divides by the number of ranks, which is
/// not a mean over samples or tokens.
class SumHook final : public c10d::CommHookInterface {
 public:
  SumHook(c10::intrusive_ptr<c10d::ProcessGroup> processes, std::optional<at::ScalarType> send_as)
      : processes_(std::move(processes)), send_as_(send_as) {}

  c10::intrusive_ptr<c10::ivalue::Future> runHook(c10d::GradBucket& bucket) override {
    const at::Tensor& buffer = bucket.getBuffer();
    if (!send_as_) return start_sum(buffer);
    const at::Tensor small = buffer.to(*send_as_);
    const c10::intrusive_ptr<c10::ivalue::Future> summed = start_sum(small);
    return summed->then(
        [buffer, small](c10::ivalue::Future& done) {
          if (done.hasError()) std::rethrow_exception(done.exception_ptr());
          const at::NoGradGuard no_grad;
          buffer.copy_(small);
          return c10::IValue(std::vector<at::Tensor>{buffer});
        },
        summed->elementType());
  }
  at::Tensor parseHookResult(const c10::IValue& result) override {
    return c10d::detail::parseCppCommHookResult(result);
  }

 private:
  c10::intrusive_ptr<c10::ivalue::Future> start_sum(const at::Tensor& tensor) {
    std::vector<at::Tensor> tensors{tensor};
    return processes_->allreduce(tensors)->getFuture();
  }

  c10::intrusive_ptr<c10d::ProcessGroup> processes_;
  std::optional<at::ScalarType> send_as_;
};

std::vector<at::Tensor> detached(const std::vector<at::Tensor>& tensors) {
  std::vector<at::Tensor> plain;
  plain.reserve(tensors.size());
  for (const at::Tensor& tensor : tensors) plain.push_back(tensor.detach());
  return plain;
}

class C10dReducer final : public GradientReducer {
 public:
  C10dReducer(Group& group, const std::vector<NamedParameter>& parameters, const std::vector<at::Tensor>& buffers,
              const GradientReducerOptions& options)
      : journal_(journal_of(group)), is_static_(options.graph == GraphShape::is_static) {
    std::vector<at::Tensor> tensors;
    std::unordered_map<std::size_t, std::string> names;
    for (const NamedParameter& parameter : parameters) {
      names.emplace(tensors.size(), parameter.name);
      tensors.push_back(parameter.tensor);
    }
    const c10::intrusive_ptr<c10d::ProcessGroup> processes = process_group(group);
    c10d::verify_params_across_processes(processes, tensors, std::nullopt);
    c10d::broadcast_coalesced(processes, detached(tensors), kBroadcastBytes, /*rank=*/0);
    if (!buffers.empty()) c10d::broadcast_coalesced(processes, detached(buffers), kBroadcastBytes, /*rank=*/0);

    const std::vector<bool> sparse(tensors.size(), false);
    reducer_ = std::make_shared<c10d::Reducer>(tensors, reduction_buckets(tensors, options), processes, sparse,
                                               options.bucket_bytes, options.unused == UnusedParameters::find,
                                               /*gradient_as_bucket_view=*/true, std::move(names),
                                               options.first_bucket_bytes, /*skip_all_reduce_unused_params=*/false,
                                               /*use_python_reducer=*/false, std::vector<std::int64_t>{});
    if (options.low_rank) {
      auto hook = std::make_unique<PowerSgd>(processes, parameters, *options.low_rank);
      power_sgd_ = hook.get();
      reducer_->register_comm_hook(std::move(hook));
    } else {
      reducer_->register_comm_hook(std::make_unique<SumHook>(processes, options.send_as));
    }
    if (is_static_) reducer_->set_static_graph();
  }

  void backward_done() override {
    if (journal_) journal_->waited_since_last_begin();
  }

  void prepare_forward() override { reducer_->prepare_for_forward(); }

  void prepare_backward(const at::Tensor& loss) override {
    reducer_->prepare_for_backward({loss});
    // With a static graph, c10d observes the first backward pass and starts its sums when the whole pass is done.
    if (!is_static_ || watched_) return;
    watched_ = true;
    loss.register_hook([reducer = reducer_](const at::Tensor& gradient) {
      torch::autograd::Engine::get_default_engine().queue_callback([reducer] { reducer->delay_all_reduce(); });
      return gradient;
    });
  }

  void share_state() override {
    if (power_sgd_ != nullptr) power_sgd_->share_unsent();
  }
  void visit_state(runtime::State& state) override {
    if (power_sgd_ != nullptr) power_sgd_->visit_state(state);
  }

 private:
  std::shared_ptr<c10d::Reducer> reducer_;
  PowerSgd* power_sgd_ = nullptr;  // owned by reducer_
  std::shared_ptr<FlightRecorder> journal_;
  bool is_static_;
  bool watched_ = false;
};

}  // namespace

std::vector<std::vector<std::size_t>> reduction_buckets(const std::vector<at::Tensor>& parameters,
                                                        const GradientReducerOptions& options) {
  // c10d would rebuild the buckets after the first step in the observed order. A resumed run would then add in another
  // order in its first step than the original run.
  auto [buckets, limits] = c10d::compute_bucket_assignment_by_size(
      parameters,
      {static_cast<std::size_t>(options.first_bucket_bytes), static_cast<std::size_t>(options.bucket_bytes)},
      std::vector<bool>(parameters.size(), false));
  std::reverse(buckets.begin(), buckets.end());
  return std::move(buckets);
}

std::unique_ptr<GradientReducer> make_gradient_reducer(Group& group, const std::vector<NamedParameter>& parameters,
                                                       const std::vector<at::Tensor>& buffers,
                                                       const GradientReducerOptions& options) {
  return std::make_unique<C10dReducer>(group, parameters, buffers, options);
}

}  // namespace trainctl::comm
