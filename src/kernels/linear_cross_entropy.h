// Cross-entropy of a linear projection, without ever holding all logits: they are made, used and forgotten chunk by
// chunk, gradients included. At a vocabulary of 50k the logits are most of a step's memory traffic.
// As Liger Kernel's fused linear cross-entropy (https://arxiv.org/abs/2410.10989) and Cut Cross-Entropy do it.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>

namespace trainctl::kernels {

/// The rows of the weight that a rank has, of a vocabulary that is split over ranks, and how those add up.
struct VocabularyPart {
  std::int64_t first = 0;
  std::int64_t size = 0;                       // of the whole vocabulary
  std::function<void(at::Tensor& value)> sum;  // in place, over the ranks
  std::function<void(at::Tensor& value)> max;
};

/// A projection whose probabilities the rows are trained towards (kernels/distillation.h). Nothing of it gets a
/// gradient. The loss of a row becomes (1 - share) cross-entropy + share T² KL(teacher ‖ student).
struct LinearTeacher {
  at::Tensor hidden;  // [N, E]
  at::Tensor weight;  // [V, E]
  at::Tensor bias;    // [V], or undefined
  double softcap = 0;
  double temperature = 1;
  double share = 0;
};

struct LinearCrossEntropyOptions {
  double label_smoothing = 0;
  std::int64_t chunk_size = 0;             // rows of logits at once; 0: equal chunks of up to 128 MiB, or 128 rows
  const VocabularyPart* part = nullptr;    // null: the weight has all rows
  double softcap = 0;                      // logits become softcap · tanh(logit / softcap); 0: they stay
  const LinearTeacher* teacher = nullptr;  // null: targets are all. Not with a part of the vocabulary
};

/// The sum over all rows of -log softmax(hidden weightᵀ + bias)[target]: a scalar of float (double for doubles).
/// hidden [N, D], weight [V, D], bias [V] or undefined, targets int64 [N]; rows whose target is negative count nothing.
/// Follows autocast. Gradients are computed in the forward pass, when anything needs them.
/// With a part of the vocabulary, all ranks get the loss over the whole (https://arxiv.org/abs/1909.08053, section 3).
/// The gradient of `hidden` is then this rank's part of a sum.
at::Tensor linear_cross_entropy(const at::Tensor& hidden, const at::Tensor& weight, const at::Tensor& bias,
                                const at::Tensor& targets, const LinearCrossEntropyOptions& options = {});

/// The losses of the rows, [N], zero where there is no target; for losses that aren't their sum. The backward pass
/// makes the logits once more. Without a teacher.
at::Tensor linear_cross_entropy_rows(const at::Tensor& hidden, const at::Tensor& weight, const at::Tensor& bias,
                                     const at::Tensor& targets, const LinearCrossEntropyOptions& options = {});

}  // namespace trainctl::kernels
