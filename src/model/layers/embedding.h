// Rows of a table, by id.
#pragma once

#include <cstdint>
#include <optional>

#include "model/layer.h"

namespace trainctl::model {

class Embedding final : public UnaryLayer {
 public:
  /// `padding_idx`: its row starts at 0 and gets no gradient, as PyTorch's padding_idx.
  Embedding(std::int64_t num_rows, std::int64_t size, Init init, std::optional<std::int64_t> padding_idx = {});
  at::Tensor compute(const at::Tensor& ids) override;  // int64 [...] -> [..., size]
  /// [num_rows, size]; heads may share it.
  const at::Tensor& weight() const { return weight_; }
  /// Keeps this rank's range of the rows; all ranks get the whole output.
  void split_rows(const TensorRanksPtr& ranks);

 private:
  at::Tensor& weight_;
  std::int64_t padding_idx_;
  FeatureRange rows_{};  // of this rank
  TensorRanksPtr ranks_;
};

}  // namespace trainctl::model
