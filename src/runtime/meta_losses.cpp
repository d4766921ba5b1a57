#include "runtime/meta_losses.h"

#include <ATen/core/Reduction.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <torch/library.h>

#include <cstdint>
#include <optional>
#include <tuple>

namespace trainctl::runtime {
namespace {

using at::Tensor;

std::tuple<Tensor, Tensor> nll_loss2d(const Tensor& logs, const Tensor& targets, const std::optional<Tensor>&,
                                      std::int64_t reduction, std::int64_t) {
  const Tensor scalar = at::empty({}, logs.options());
  return {reduction == at::Reduction::None ? at::empty(targets.sizes(), logs.options()) : scalar,
          at::empty({}, logs.options())};
}

Tensor nll_loss2d_backward(const Tensor&, const Tensor& logs, const Tensor&, const std::optional<Tensor>&, std::int64_t,
                           std::int64_t, const Tensor&) {
  return at::empty_like(logs);
}

/// Returns the values, and a buffer of as many that the backward pass reads.
std::tuple<Tensor, Tensor> log_sigmoid(const Tensor& values) {
  return {at::empty_like(values), at::empty_like(values)};
}

Tensor log_sigmoid_backward(const Tensor&, const Tensor& values, const Tensor&) {
  return at::empty_like(values);
}

}  // namespace

void add_meta_losses(torch::Library& aten) {
  aten.impl("nll_loss2d_forward", &nll_loss2d);
  aten.impl("nll_loss2d_backward", &nll_loss2d_backward);
  aten.impl("log_sigmoid_forward", &log_sigmoid);
  aten.impl("log_sigmoid_backward", &log_sigmoid_backward);
}

}  // namespace trainctl::runtime
