#include "task/classification_evaluation.h"

#include <ATen/ops/argmax.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/topk.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>

#include "core/error.h"
#include "core/text.h"
#include "task/report.h"

namespace trainctl::task {
namespace {

constexpr std::int64_t kTop = 5;

}  // namespace

void ClassificationEvaluation::start(const at::Device& device) {
  const auto counts = at::TensorOptions().dtype(at::kLong).device(device);
  loss_ = at::zeros({}, counts.dtype(at::kDouble));
  top5_ = at::zeros({}, counts);
  labeled_ = at::zeros({num_classes_}, counts);
  predicted_ = at::zeros({num_classes_}, counts);
  hits_ = at::zeros({num_classes_}, counts);
  if (num_classes_ <= kMaxConfusionClasses) confusion_ = at::zeros({num_classes_ * num_classes_}, counts);
}

void ClassificationEvaluation::add(const dataset::Batch& batch, const model::ModelInput& input) {
  const c10::NoGradGuard no_grad;
  const at::Tensor logits = model_.forward(input).to(at::kFloat);  // [B, C]
  if (logits.dim() != 2 || logits.size(1) != num_classes_)
    throw core::Error("the model has " + core::format_count(logits.size(-1)) + " outputs, but the evaluation set has " +
                      core::format_count(num_classes_) + " classes");
  const at::Tensor& targets = batch.targets;  // [B]
  if (count_ == 0) start(logits.device());
  count_ += batch.size();
  if (on_answers) on_answers(batch, logits);

  loss_.add_(at::cross_entropy_loss(logits, targets, /*weight=*/{}, at::Reduction::Sum));
  const at::Tensor predicted = logits.argmax(1);
  const at::Tensor ones = at::ones_like(targets);
  labeled_.scatter_add_(0, targets, ones);
  predicted_.scatter_add_(0, predicted, ones);
  hits_.scatter_add_(0, targets, predicted.eq(targets).to(at::kLong));
  if (confusion_.defined()) confusion_.scatter_add_(0, predicted.add(targets, num_classes_), ones);
  if (num_classes_ > kTop) {
    const at::Tensor best =
        std::get<1>(at::topk(logits, kTop, /*dim=*/1, /*largest=*/true, /*sorted=*/false));  // [B, 5]
    top5_.add_(best.eq(targets.unsqueeze(1)).sum());
  }
}

void ClassificationEvaluation::pool(Pool& pool) {
  if (count_ == 0) start(pool.device());
  pool.sum(count_);
  for (at::Tensor* sum : {&loss_, &top5_, &labeled_, &predicted_, &hits_}) pool.sum(*sum);
  if (confusion_.defined()) pool.sum(confusion_);
}

ClassCounts ClassificationEvaluation::counts() const {
  return {.labeled = host_counts(labeled_), .predicted = host_counts(predicted_), .hits = host_counts(hits_)};
}

Metrics ClassificationEvaluation::metrics() {
  if (count_ == 0) return {};
  const auto mean = [&](const at::Tensor& sum) { return sum.item<double>() / static_cast<double>(count_); };
  const ClassCounts classes = counts();
  Metrics metrics{{"loss", mean(loss_)}, {"accuracy", mean(hits_.sum())}};
  if (num_classes_ > kTop) metrics.emplace_back("top5_accuracy", mean(top5_));
  if (num_classes_ == 2) metrics.emplace_back("f1", f1_of(classes, 1));
  metrics.emplace_back("f1_macro", macro_f1(classes));
  metrics.emplace_back("matthews", matthews(classes));
  return metrics;
}

std::string ClassificationEvaluation::details() {
  if (count_ == 0) return "";
  nlohmann::ordered_json document = {{"num_samples", count_}};
  add_per_class(document, counts(), class_names_);
  if (!confusion_.defined()) return document.dump();
  const std::vector<std::int64_t> cells = host_counts(confusion_);
  auto rows = nlohmann::ordered_json::array();
  for (auto row = cells.begin(); row != cells.end(); row += num_classes_)
    rows.push_back(std::vector<std::int64_t>(row, row + num_classes_));
  document["confusion"] = std::move(rows);
  return document.dump();
}

}  // namespace trainctl::task
