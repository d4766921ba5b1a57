#include "experiment/rules.h"

namespace trainctl::experiment {
namespace {

void check_warmup(Checked& c) {
  const optimizer::ScheduleConfig& schedule = c.experiment.optimizer.lr_scheduler;
  const train::TrainConfig& train = c.experiment.train;
  if (schedule.warmup == 0) return;
  if (config::traits_of(schedule.shape).has_own_warmup)
    return c.report({"optimizer.lr_scheduler.warmup", "optimizer.lr_scheduler.kind"},
                    std::string(schedule.shape.kind()) + " rises by itself for pct_start of the run; leave warmup out");
  const std::optional<std::int64_t> length =
      schedule.interval == optimizer::LrInterval::step ? train.steps : train.epochs;
  if (length && schedule.warmup > *length)
    c.report({"optimizer.lr_scheduler.warmup", "optimizer.lr_scheduler.interval", "train"},
             "longer than the run, which has " + std::to_string(*length) +
                 (schedule.interval == optimizer::LrInterval::step ? " steps" : " epochs"));
}

void check_watched_metric(Checked& c, const std::string& schedule, const optimizer::WatchedMetric& watched) {
  if (!c.experiment.dataset.has_evaluation_set())
    c.report({"optimizer.lr_scheduler.kind", "dataset"},
             schedule + " watches an evaluation metric, but the dataset has no evaluation set");
  else if (eval_interval(c.experiment.train) == 0)
    c.report({"optimizer.lr_scheduler.kind", "train.eval_every"},
             schedule + " watches an evaluation metric; set train.eval_every");
  const checkpoint::MetricOrder best =
      watched.better == optimizer::Better::higher ? checkpoint::MetricOrder::max : checkpoint::MetricOrder::min;
  if (std::string wrong = wrong_metric(watched.name, best, c.experiment); !wrong.empty())
    c.report({"optimizer.lr_scheduler.metric", "optimizer.lr_scheduler.better", "task.kind"}, std::move(wrong));
}

void check_parameter_groups(Checked& c) {
  const std::vector<optimizer::ParameterGroupConfig>& groups = c.experiment.optimizer.param_groups;
  for (std::size_t i = 0; i < groups.size(); ++i) {
    const std::string path = "optimizer.param_groups[" + std::to_string(i) + "]";
    if (groups[i].lr && groups[i].lr_scale)
      c.report({path + ".lr_scale", path + ".lr"}, "expected lr or lr_scale, got both");
    if (!groups[i].lr && !groups[i].lr_scale && !groups[i].weight_decay)
      c.report({path}, "changes nothing; expected lr, lr_scale or weight_decay");
  }
}

/// Reports what a rule that averages its weights can't be combined with.
void check_averages(Checked& c) {
  const optimizer::OptimizerConfig& optimizer = c.experiment.optimizer;
  if (!config::traits_of(optimizer.rule).averages_weights) return;
  const std::string rule(optimizer.rule.kind());
  const std::string shape(optimizer.lr_scheduler.shape.kind());
  if (config::traits_of(optimizer.lr_scheduler.shape).decays)
    c.report({"optimizer.lr_scheduler.kind", "optimizer.kind"},
             rule + " averages the weights in place of a falling learning rate, and " + shape +
                 " lets the rate fall too; take constant, with a warmup");
}

}  // namespace

void check_optimizer(Checked& checked) {
  check_warmup(checked);
  check_parameter_groups(checked);
  check_averages(checked);
  const optimizer::OptimizerConfig& optimizer = checked.experiment.optimizer;
  checked.report(config::facts_of(optimizer.rule).broken_rules);
  const optimizer::ScheduleFacts schedule = config::facts_of(optimizer.lr_scheduler.shape);
  checked.report(schedule.broken_rules);
  if (const auto& watched = *schedule.watched)
    check_watched_metric(checked, std::string(optimizer.lr_scheduler.shape.kind()), *watched);
}

}  // namespace trainctl::experiment
