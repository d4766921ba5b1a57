// Several ranks' evaluations made one.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <cstdint>
#include <vector>

namespace trainctl::task {

/// Every rank shows the same things in the same order.
class Pool {
 public:
  virtual ~Pool() = default;
  virtual c10::Device device() const = 0;
  /// Becomes the sum over ranks.
  virtual void sum(at::Tensor& value) = 0;
  virtual void sum(std::int64_t& value) = 0;
  /// The rows [n, ...] of every rank; n may differ, the rest and the type may not.
  virtual std::vector<at::Tensor> gather(const at::Tensor& rows) = 0;
};

}  // namespace trainctl::task
