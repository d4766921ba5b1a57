// Models over tokens so small that a test can compute by hand what comes out.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/embedding.h>

#include "model/model.h"

namespace trainctl::testing {

/// Token id -> a row of a table, given as weights.
class TableLayer final : public model::SequenceLayer {
 public:
  explicit TableLayer(at::Tensor table) : table_(std::move(table)) {}
  at::Tensor compute(const at::Tensor& ids, const model::SequenceContext&) override {
    return at::embedding(table_, ids);
  }

 private:
  at::Tensor table_;
};

/// Each token's row of `table` [V, C] is its output: [B, T, C].
class TableModel final : public model::Model {
 public:
  explicit TableModel(at::Tensor table) { add_block("table", child<TableLayer>("table", std::move(table))); }
  double flops_per_sample() const override { return 0; }
};

/// Half of the hidden values, then a matrix and a bias.
class HalvingHead final : public model::VocabularyHead {
 public:
  HalvingHead(at::Tensor weight, at::Tensor bias) : weight_(std::move(weight)), bias_(std::move(bias)) {}
  at::Tensor transform(const at::Tensor& hidden) override {
    ++num_transforms;
    num_rows += hidden.numel() / hidden.size(-1);
    return hidden.mul(0.5);
  }
  at::Tensor weight() const override { return weight_; }
  at::Tensor bias() const override { return bias_; }

  int num_transforms = 0;
  std::int64_t num_rows = 0;  // that were transformed

 private:
  at::Tensor weight_;  // [V, D]
  at::Tensor bias_;    // [V]
};

/// logits = 0.5 table[id] weightᵀ + bias.
class TableLanguageModel final : public model::Model {
 public:
  TableLanguageModel(const at::Tensor& table, const at::Tensor& weight, const at::Tensor& bias)
      : head(child<HalvingHead>("head", weight, bias)) {
    add_block("table", child<TableLayer>("table", table));
    add_vocabulary_head("head", head);
  }
  double flops_per_sample() const override { return 0; }

  HalvingHead& head;
};

}  // namespace trainctl::testing
