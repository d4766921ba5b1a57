// Low-rank adapters (https://arxiv.org/abs/2106.09685): W x + scale B A x, where W may be frozen.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "model/layer.h"
#include "model/layers/dropout.h"

namespace trainctl::model {

struct LowRankSpec {
  std::int64_t rank;
  double scale;
  double dropout;  // of the adapter's input
};

/// The features of a matrix of which a rank has a part. outputs: a column-parallel layer. inputs: a row-parallel one,
/// whose outputs are summed over ranks.
enum class MatrixSplit { none, outputs, inputs };

class LowRankAdapter final : public UnaryLayer {
 public:
  /// B starts at zero: at first the adapter adds nothing.
  LowRankAdapter(std::int64_t in_features, std::int64_t out_features, const LowRankSpec& spec);
  /// Splits the adapter as the matrix beside it. Each rank uses in part what all ranks have.
  void split_as(MatrixSplit how, const TensorRanksPtr& ranks, std::int64_t sections);
  at::Tensor compute(const at::Tensor& input) override;  // [..., in] -> [..., out]
  /// scale B A: [out, in].
  at::Tensor product() const;

 private:
  at::Tensor& a_;  // [rank, in]
  at::Tensor& b_;  // [out, rank]
  Dropout& dropout_;
  double scale_;
  std::int64_t in_features_;  // of all ranks
  MatrixSplit split_ = MatrixSplit::none;
  TensorRanksPtr ranks_;
};

/// A layer that multiplies with a matrix and may add a bias, [..., in] -> [..., out]. An adapter may stand beside it.
class MatrixLayer : public UnaryLayer {
 public:
  at::Tensor compute(const at::Tensor& input) final;
  /// What forward() gives, and a bias that is left for the next operator to add; undefined: there is none, or it has
  /// been added.
  struct BeforeBias {
    at::Tensor output;
    at::Tensor bias;
  };
  BeforeBias forward_before_bias(const at::Tensor& input);
  /// Whether forward() is one product and a bias: neither replaced, nor adapted, nor summed over ranks.
  bool is_plain_product() const;
  /// forward() of each of some plain products.
  static std::vector<at::Tensor> forward_together(const std::vector<const MatrixLayer*>& layers,
                                                  const at::Tensor& input);
  /// Puts `lora_A.weight` and `lora_B.weight` beside its own parameters. Before it is materialised, once.
  void adapt(const LowRankSpec& spec);
  /// Adds the adapter, if there is one, to the matrix and removes it.
  void merge();

  /// Keeps this rank's range of each section of the outputs. The gradient of the input is a part: see
  /// enter_split_layer().
  void split_outputs(const TensorRanksPtr& ranks, std::int64_t sections = 1);
  /// Keeps this rank's range of the inputs. All ranks get the sum of what their parts give: see leave_split_layer().
  void split_inputs(const TensorRanksPtr& ranks);

 protected:
  virtual const at::Tensor& weight() const = 0;
  virtual std::int64_t dim_of_outputs() const = 0;  // of the weight: 0 of [out, in], 1 of [in, out]
  virtual const at::Tensor* bias() const = 0;       // [out], or null

 private:
  at::Tensor multiply(const at::Tensor& input, const std::optional<at::Tensor>& offset) const;
  at::Tensor matrix() const;  // [out, in], sharing the parameter's memory

  LowRankAdapter* adapter_ = nullptr;
  MatrixSplit split_ = MatrixSplit::none;
  TensorRanksPtr ranks_;
};

}  // namespace trainctl::model
