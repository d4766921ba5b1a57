// Embeddings and the projection back to the vocabulary, whose matrix may be one and the same, in eight bits.
#pragma once

#include <cstdint>
#include <memory>

#include "model/layers/embedding.h"
#include "model/model.h"
#include "quantization/layer/quantized_layer.h"

namespace trainctl::quantization {

/// Embeddings of fewer rows stay in float: there is nothing to gain.
inline constexpr std::int64_t kFewRows = 64;

/// Rows of eight bits, each with a scale.
struct QuantizedRows {
  at::Tensor* levels;  // int8 [rows, D]
  at::Tensor* scales;  // float [rows]
};

/// What stands in for an embedding: its rows may be another's too.
class QuantizedTable : public QuantizedLayer {
 public:
  virtual QuantizedRows rows() = 0;
};
std::unique_ptr<QuantizedTable> quantized_table(model::Embedding& layer);

/// How the head multiplies. dynamic: hidden values are rounded too. weight_only: they aren't.
enum class HeadProduct { dynamic, weight_only };
/// `tied`: whose rows the head shares; null: it has its own.
std::unique_ptr<QuantizedLayer> quantized_head(model::VocabularyHead& head, QuantizedTable* tied, HeadProduct product,
                                               QuantizationBackend backend);

/// input [..., in] · rowsᵀ: [..., out], activations as they are.
at::Tensor multiply_rows(const at::Tensor& input, const at::Tensor& levels, const at::Tensor& scales);

}  // namespace trainctl::quantization
