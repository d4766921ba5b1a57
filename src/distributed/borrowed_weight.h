// The weight that a head on the last stage shares with the embedding on another: each step its gradient goes to the
// rank that has the embedding, and its new values come back (https://arxiv.org/abs/2104.04473, section 4).
#pragma once

#include <memory>

#include "comm/device_mesh.h"
#include "distributed/pipeline_stages.h"
#include "model/model.h"

namespace trainctl::distributed {

class BorrowedWeight {
 public:
  /// `row`: the ranks along the pipeline axis. Called by the two ranks of the loan, once the model has its parameters.
  BorrowedWeight(const WeightLoan& loan, comm::Group& row, model::Model& model);
  BorrowedWeight(const BorrowedWeight&) = delete;
  BorrowedWeight& operator=(const BorrowedWeight&) = delete;
  ~BorrowedWeight();

  bool is_owner() const { return is_owner_; }
  const at::Tensor& weight() const { return weight_; }
  /// The owner's next backward pass adds what the borrower sends.
  void expect_gradient() { expects_ = true; }
  /// The borrower's gradient of the step, which is complete.
  void send_gradient();
  /// The owner's values to the borrower. The owner's weight is whole.
  void share_values();

 private:
  at::Tensor with_borrowers(const at::Tensor& gradient);

  bool is_owner_;
  at::Tensor weight_;
  std::unique_ptr<comm::Group> pair_;  // rank 0: the owner
  unsigned hook_ = 0;
  bool expects_ = false;
  at::Tensor sent_;
  std::unique_ptr<comm::Work> sending_;
};

}  // namespace trainctl::distributed
