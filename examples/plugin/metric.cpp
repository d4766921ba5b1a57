// `metrics: [cohen_kappa]`: agreement with the labels beyond chance (https://doi.org/10.1177/001316446002000104).
#include <ATen/ops/bincount.h>
#include <ATen/ops/zeros.h>

#include <limits>

#include "example.h"
#include "task/metric.h"

namespace example {
namespace {

using namespace trainctl;

struct CohenKappaConfig {
  static constexpr std::string_view kind = "cohen_kappa";
  static constexpr task::MetricTraits traits{.best = task::MetricName::Best::highest, .needs_classes = true};
  static constexpr auto fields() { return config::Fields{}; }
};

class CohenKappa final : public task::ExtraMetric {
 public:
  void add(const dataset::Batch& batch, const at::Tensor& answers) override {
    const std::int64_t classes = answers.size(1);
    const at::Tensor counts =
        at::bincount(batch.targets.mul(classes).add(answers.argmax(1)), {}, classes * classes).view({classes, classes});
    confusion_ = confusion_.defined() ? confusion_.add(counts) : counts;
  }
  void pool(task::Pool& pool) override {
    // A rank without samples doesn't know the number of classes.
    std::int64_t classes = confusion_.defined() ? confusion_.size(0) : 0;
    for (const at::Tensor& rows : pool.gather(at::zeros({classes, 1}, at::TensorOptions(pool.device()))))
      classes = std::max(classes, rows.size(0));
    if (!confusion_.defined())
      confusion_ = at::zeros({classes, classes}, at::TensorOptions(at::kLong).device(pool.device()));
    pool.sum(confusion_);
  }
  double value() override {
    if (!confusion_.defined()) return std::numeric_limits<double>::quiet_NaN();
    const at::Tensor shares = confusion_.to(at::kDouble).div(confusion_.sum());
    const double agreed = shares.diagonal().sum().item<double>();
    const double by_chance = shares.sum(0).mul(shares.sum(1)).sum().item<double>();
    return by_chance == 1 ? std::numeric_limits<double>::quiet_NaN() : (agreed - by_chance) / (1 - by_chance);
  }

 private:
  at::Tensor confusion_;  // int64 [labels, answers]
};

std::unique_ptr<task::ExtraMetric> build(const CohenKappaConfig&) {
  return std::make_unique<CohenKappa>();
}

}  // namespace

void add_metric(plugin::Registry& registry) {
  registry.add_metric<CohenKappaConfig>();
}

}  // namespace example
