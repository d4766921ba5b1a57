// Dropout (https://jmlr.org/papers/v15/srivastava14a.html) whose mask is a function of the sample, not of the batch it
// is in: drawn by SampleRandomness, or outside its scopes by a key from the CPU's default generator. Keeps no mask; the
// backward pass draws it again.
#pragma once

#include <ATen/core/Tensor.h>

#include "runtime/element_runs.h"
#include "runtime/sample_randomness.h"

namespace trainctl::kernels {

/// Zeroes elements of [B, ...] with the given probability in [0, 1), and scales the others to keep the mean. Row b is
/// sample b of the micro-batch. The result is dense, in the input's memory format.
at::Tensor dropout(const at::Tensor& input, double probability);
/// Does the same if a rank has only `runs` of each sample's elements: it zeroes those that are zeroed in the whole.
at::Tensor dropout(const at::Tensor& input, double probability, const runtime::ElementRuns& runs);

/// The heads that a rank has, of all.
struct HeadRange {
  std::int64_t first = 0;
  std::int64_t of = 0;  // 0: it has all
};
/// Drops attention weights [B, H, T, S] as dropout() does. The choice within a sample depends on (h, t, s) alone, and
/// so not on the padding of rows.
at::Tensor dropout_attention(const at::Tensor& weights, double probability, const HeadRange& heads = {});

/// Where weights [B, H, T, S] lie within those of whole sequences.
struct WeightPlace {
  HeadRange heads{};
  std::int64_t first_query = 0;
  std::int64_t first_key = 0;
};
/// Drops those weights that dropout_attention() of the whole would drop with this draw. Not differentiable: the
/// gradient is the same of a gradient.
at::Tensor drop_weights(const at::Tensor& weights, double probability, const runtime::SampleRandomness::Draw& draw,
                        const WeightPlace& place);
/// What dropout draws next: by SampleRandomness, or outside its scopes by the CPU's default generator.
runtime::SampleRandomness::Draw next_draw();

/// dropout() by LibTorch's operators, which drops the same elements: for devices and types without a kernel.
at::Tensor dropout_composed(const at::Tensor& input, double probability, const runtime::SampleRandomness::Draw& draw,
                            const runtime::ElementRuns& runs = {});

}  // namespace trainctl::kernels
