// Sums of gradients by products of thin matrices: PowerSGD (https://arxiv.org/abs/1905.13727), as torch's powerSGD_hook
// with error feedback and warm start, but for sums.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/comm.hpp>
#include <unordered_map>
#include <vector>

#include "comm/reduce/gradient_reducer.h"

namespace trainctl::comm {

/// The communication hook that sums gradient matrices M [n, m] as products of thin matrices. The members sum P = M Q
/// [n, r], and make its columns orthonormal. They then sum Q = Mᵀ P [m, r]; the sum of gradients is P Qᵀ. Each member
/// adds the difference between its M and the mean, P Qᵀ / members, to its next gradient. The next step begins with this
/// Q.
class PowerSgd final : public c10d::CommHookInterface {
 public:
  PowerSgd(c10::intrusive_ptr<c10d::ProcessGroup> processes, const std::vector<NamedParameter>& parameters,
           const LowRankOptions& options);

  c10::intrusive_ptr<c10::ivalue::Future> runHook(c10d::GradBucket& bucket) override;
  at::Tensor parseHookResult(const c10::IValue& result) override;

  /// Gives all members the mean of `unsent`, which is the whole of what the next sums add.
  void share_unsent();
  void visit_state(runtime::State& state);

 private:
  struct Matrix {
    std::string name;
    std::int64_t rank = 0;
    at::Tensor unsent;  // as the parameter: members times the error, so that the mean suits any number of members
    at::Tensor q;       // [m, r]
  };
  struct Compressed {
    Matrix* matrix = nullptr;
    at::Tensor gradient;  // in the bucket
    at::Tensor input;     // [n, m]: the gradient and the member's error
    at::Tensor p;         // [n, r], of the bucket's
    at::Tensor q;         // [m, r], of the bucket's
  };
  /// A bucket between the start of its sum and its end.
  struct UnderWay {
    at::Tensor buffer;
    std::vector<Compressed> compressed;
    std::vector<at::Tensor> rest;  // gradients that are sent as they are
    at::Tensor ps;
    at::Tensor qs;
    at::Tensor rests;
    c10::intrusive_ptr<c10d::Work> summing_ps;
    c10::intrusive_ptr<c10d::Work> summing_qs;  // null: not begun
    c10::intrusive_ptr<c10d::Work> summing_rests;
    c10::intrusive_ptr<c10::ivalue::Future> done;
  };

  c10::intrusive_ptr<c10d::Work> start_sum(const at::Tensor& tensor);
  UnderWay begin(c10d::GradBucket& bucket);
  void send_qs(UnderWay& bucket);
  void finish(UnderWay& bucket);

  c10::intrusive_ptr<c10d::ProcessGroup> processes_;
  LowRankOptions options_;
  std::vector<std::unique_ptr<Matrix>> matrices_;
  std::unordered_map<const c10::TensorImpl*, Matrix*> of_parameter_;
  std::deque<UnderWay> under_way_;
  std::int64_t num_reductions_ = 0;
};

}  // namespace trainctl::comm
