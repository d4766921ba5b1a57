#include "task/classification_evaluation.h"

#include <ATen/ops/argmax.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/topk.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>

#include "core/error.h"
#include "core/text.h"

namespace trainctl {
namespace {

constexpr std::int64_t kTop = 5;

std::string json_list(std::int64_t size, const std::function<std::string(std::int64_t)>& item) {
  std::string text = "[";
  for (std::int64_t i = 0; i < size; ++i) text += (i == 0 ? "" : ", ") + item(i);
  return text + "]";
}

}  // namespace

void ClassificationEvaluation::start(const at::Device& device) {
  const auto counts = at::TensorOptions().dtype(at::kLong).device(device);
  loss_ = at::zeros({}, counts.dtype(at::kDouble));
  top5_ = at::zeros({}, counts);
  totals_ = at::zeros({num_classes_}, counts);
  hits_ = at::zeros({num_classes_}, counts);
  if (num_classes_ <= kMaxConfusionClasses) confusion_ = at::zeros({num_classes_ * num_classes_}, counts);
}

void ClassificationEvaluation::add(const Batch& batch) {
  const c10::NoGradGuard no_grad;
  const at::Tensor logits = model_.forward(batch.inputs).to(at::kFloat);  // [B, C]
  if (logits.dim() != 2 || logits.size(1) != num_classes_)
    throw Error("the model has " + format_count(logits.size(-1)) + " outputs, but the evaluation set has " +
                format_count(num_classes_) + " classes");
  const at::Tensor& targets = batch.targets;  // [B]
  if (count_ == 0) start(logits.device());
  count_ += batch.size();

  loss_.add_(at::cross_entropy_loss(logits, targets, /*weight=*/{}, at::Reduction::Sum));
  const at::Tensor predicted = logits.argmax(1);
  totals_.scatter_add_(0, targets, at::ones_like(targets));
  hits_.scatter_add_(0, targets, predicted.eq(targets).to(at::kLong));
  if (confusion_.defined()) confusion_.scatter_add_(0, predicted.add(targets, num_classes_), at::ones_like(targets));
  if (num_classes_ > kTop) {
    const at::Tensor best =
        std::get<1>(at::topk(logits, kTop, /*dim=*/1, /*largest=*/true, /*sorted=*/false));  // [B, 5]
    top5_.add_(best.eq(targets.unsqueeze(1)).sum());
  }
}

Metrics ClassificationEvaluation::metrics() {
  if (count_ == 0) return {};
  const auto mean = [&](const at::Tensor& sum) { return sum.item<double>() / static_cast<double>(count_); };
  Metrics metrics{{"loss", mean(loss_)}, {"accuracy", mean(hits_.sum())}};
  if (num_classes_ > kTop) metrics.emplace_back("top5_accuracy", mean(top5_));
  return metrics;
}

std::string ClassificationEvaluation::details() {
  if (count_ == 0) return "";
  const at::Tensor totals = totals_.cpu();
  const at::Tensor hits = hits_.cpu();
  const auto* total = totals.const_data_ptr<std::int64_t>();
  const auto* hit = hits.const_data_ptr<std::int64_t>();
  std::string text = "{\"num_samples\": " + std::to_string(count_) + ", \"per_class_accuracy\": ";
  text += json_list(num_classes_, [&](std::int64_t c) {
    return total[c] == 0 ? std::string("null")
                         : format_number(static_cast<double>(hit[c]) / static_cast<double>(total[c]));
  });
  if (confusion_.defined()) {
    const at::Tensor confusion = confusion_.cpu();
    const auto* cells = confusion.const_data_ptr<std::int64_t>();
    text += ", \"confusion\": " + json_list(num_classes_, [&](std::int64_t row) {
              return json_list(num_classes_,
                               [&](std::int64_t column) { return std::to_string(cells[row * num_classes_ + column]); });
            });
  }
  return text + "}";
}

}  // namespace trainctl
