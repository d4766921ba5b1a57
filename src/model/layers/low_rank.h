// Low-rank adapters (https://arxiv.org/abs/2106.09685): W x + scale B A x, where W may be frozen.
#pragma once

#include <cstdint>

#include "model/layer.h"
#include "model/layers/dropout.h"

namespace trainctl::model {

struct LowRankSpec {
  std::int64_t rank;
  double scale;
  double dropout;  // of the adapter's input
};

class LowRankAdapter final : public UnaryLayer {
 public:
  /// B starts at zero: at first the adapter adds nothing.
  LowRankAdapter(std::int64_t in_features, std::int64_t out_features, const LowRankSpec& spec);
  at::Tensor compute(const at::Tensor& input) override;  // [..., in] -> [..., out]
  /// scale B A: [out, in].
  at::Tensor product() const;

 private:
  at::Tensor& a_;  // [rank, in]
  at::Tensor& b_;  // [out, rank]
  Dropout& dropout_;
  double scale_;
};

/// A layer that multiplies with a matrix, beside which an adapter may stand.
class MatrixLayer : public UnaryLayer {
 public:
  at::Tensor compute(const at::Tensor& input) final;
  /// Puts `lora_A.weight` and `lora_B.weight` beside its own parameters. Before it is materialised, once.
  void adapt(const LowRankSpec& spec);
  /// Adds the adapter, if there is one, to the matrix and removes it.
  void merge();

 protected:
  /// Without the adapter.
  virtual at::Tensor multiply(const at::Tensor& input) = 0;
  virtual at::Tensor matrix() const = 0;  // [out, in], sharing the parameter's memory

 private:
  LowRankAdapter* adapter_ = nullptr;
};

}  // namespace trainctl::model
