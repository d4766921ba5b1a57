#include "task/preference_pairs.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/zeros.h>

#include <set>

#include "kernels/linear_cross_entropy.h"
#include "task/target_rows.h"

namespace trainctl::task {
namespace {

/// Returns the number of its conversation for each row of target_rows(): int64 [N], below B × `most`.
at::Tensor conversations_of(const dataset::Batch& batch, std::int64_t most) {
  const at::Tensor& documents = batch.documents;
  const at::Tensor first = at::arange(documents.size(0), documents.options()).mul(most).unsqueeze(1);
  return target_rows(documents.add(first).unsqueeze(2), batch).hidden.squeeze(1);
}

}  // namespace

AnswerSums answer_sums(model::Model& model, const model::ModelInput& input, const dataset::Batch& batch,
                       std::int64_t chunk_size) {
  const std::int64_t num_rows = batch.documents.size(0);
  // Conversations have tokens; and padding is one more.
  const std::int64_t most = batch.documents.size(1) + batch.documents.size(1) % 2;
  const at::Tensor numbers = conversations_of(batch, most);
  AnswerSums sums;
  model.forward_into_head(input, [&](model::VocabularyHead& head, const at::Tensor& hidden) {
    const TargetRows rows = target_rows(hidden, batch);
    const at::Tensor losses = kernels::linear_cross_entropy_rows(
        head.features(rows.hidden), head.weight(), head.bias(), rows.targets,
        {.chunk_size = chunk_size, .part = head.part(), .softcap = head.logit_softcap()});
    const at::Tensor none = at::zeros({num_rows * most}, losses.options().requires_grad(false));
    sums.log_probs = none.index_add(0, numbers, losses.neg()).view({num_rows, most / 2, 2});
    sums.tokens = none.index_add(0, numbers, rows.targets.ge(0).to(none.scalar_type())).view({num_rows, most / 2, 2});
    return sums.log_probs;
  });
  return sums;
}

std::int64_t num_pairs(const dataset::Batch& batch) {
  const at::Tensor documents = batch.documents.contiguous();
  const at::Tensor targets = batch.targets.contiguous();
  const std::int64_t length = targets.size(1);
  std::set<std::pair<std::int64_t, std::int64_t>> preferred;
  for (std::int64_t i = 0; i < targets.numel(); ++i) {
    const std::int64_t document = documents.const_data_ptr<std::int64_t>()[i];
    if (document % 2 == 0 && targets.const_data_ptr<std::int64_t>()[i] >= 0) preferred.emplace(i / length, document);
  }
  return std::ssize(preferred);
}

at::Tensor have_pairs(const AnswerSums& sums) {
  return sums.tokens.gt(0).all(2);
}

}  // namespace trainctl::task
