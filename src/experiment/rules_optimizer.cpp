#include "experiment/rules.h"

namespace trainctl::experiment {
namespace {

void check_nesterov(Checked& c) {
  const auto* sgd = c.experiment.optimizer.rule.get_if<optimizer::SgdConfig>();
  if (sgd == nullptr || !sgd->nesterov) return;
  if (sgd->momentum == 0)
    c.report({"optimizer.nesterov", "optimizer.momentum", "optimizer.kind"}, "needs a momentum above 0");
  if (sgd->dampening != 0)
    c.report({"optimizer.nesterov", "optimizer.dampening", "optimizer.kind"}, "needs a dampening of 0");
}

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

void check_milestones(Checked& c) {
  const auto* multistep = c.experiment.optimizer.lr_scheduler.shape.get_if<optimizer::MultistepScheduleConfig>();
  if (multistep == nullptr) return;
  for (std::size_t i = 1; i < multistep->milestones.size(); ++i)
    if (multistep->milestones[i] <= multistep->milestones[i - 1])
      return c.report({config::join_path("optimizer.lr_scheduler.milestones", i), "optimizer.lr_scheduler.milestones",
                       "optimizer.lr_scheduler.kind"},
                      "expected more than the milestone before it, " + std::to_string(multistep->milestones[i - 1]));
}

void check_plateau(Checked& c) {
  const auto* plateau = c.experiment.optimizer.lr_scheduler.shape.get_if<optimizer::PlateauScheduleConfig>();
  if (plateau == nullptr) return;
  if (!config::facts_of(c.experiment.dataset.source).has_evaluation_set())
    c.report({"optimizer.lr_scheduler.kind", "dataset"},
             "reduce_on_plateau watches an evaluation metric, but the dataset has no evaluation set");
  else if (c.experiment.train.eval_every == 0)
    c.report({"optimizer.lr_scheduler.kind", "train.eval_every"},
             "reduce_on_plateau watches an evaluation metric; set train.eval_every");
  const checkpoint::MetricOrder best =
      plateau->better == optimizer::Better::higher ? checkpoint::MetricOrder::max : checkpoint::MetricOrder::min;
  if (std::string wrong = wrong_metric(plateau->metric, best, c.experiment.task); !wrong.empty())
    c.report({"optimizer.lr_scheduler.metric", "optimizer.lr_scheduler.better", "task.kind"}, std::move(wrong));
}

}  // namespace

void check_optimizer(Checked& checked) {
  check_nesterov(checked);
  check_warmup(checked);
  check_milestones(checked);
  check_plateau(checked);
}

}  // namespace trainctl::experiment
