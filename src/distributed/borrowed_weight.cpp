#include "distributed/borrowed_weight.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros_like.h>

namespace trainctl::distributed {

BorrowedWeight::BorrowedWeight(const WeightLoan& loan, comm::Group& row, model::Model& model)
    : is_owner_(row.rank() == loan.owner),
      weight_(is_owner_ ? model.shared_head_weight()->value : model.borrowed_weight()->value),
      pair_(row.split("tied weight", {loan.owner, loan.borrower})) {
  if (is_owner_ && weight().requires_grad())
    hook_ = weight().register_hook([this](const at::Tensor& gradient) { return with_borrowers(gradient); });
}

BorrowedWeight::~BorrowedWeight() {
  if (is_owner_ && weight().requires_grad()) weight().remove_hook(hook_);
}

at::Tensor BorrowedWeight::with_borrowers(const at::Tensor& gradient) {
  if (!expects_) return gradient;
  expects_ = false;
  const at::Tensor other = at::empty_like(gradient, at::MemoryFormat::Contiguous);
  pair_->irecv(other, 1)->wait();
  return gradient.add(other);
}

void BorrowedWeight::send_gradient() {
  const at::Tensor& gradient = weight().grad();
  if (!weight().requires_grad()) return;
  sent_ = gradient.defined() ? gradient : at::zeros_like(weight());
  sending_ = pair_->isend(sent_, 0);
}

void BorrowedWeight::share_values() {
  const at::NoGradGuard no_grad;
  if (sending_) sending_->wait();
  sending_.reset();
  sent_.reset();
  at::Tensor values = weight().detach();
  if (is_owner_)
    pair_->isend(values, 1)->wait();
  else
    pair_->irecv(values, 0)->wait();
}

}  // namespace trainctl::distributed
