#include <algorithm>
#include <concepts>

#include "core/text.h"
#include "experiment/rules.h"

namespace trainctl::experiment {
namespace {

void check_length(Checked& c) {
  const train::TrainConfig& train = c.experiment.train;
  if (!train.epochs && !train.steps) c.report({"train"}, "give train.epochs or train.steps");
  if (train.epochs && train.steps)
    c.report({"train.steps", "train.epochs"}, "train.epochs is given too; give one of them");
}

void check_evaluation(Checked& c) {
  if (c.experiment.dataset.has_evaluation_set()) return;
  const train::TrainConfig& train = c.experiment.train;
  if (eval_interval(train) > 0) c.report({"train.eval_every", "dataset"}, "the dataset has no evaluation set");
  if (train.eval_steps) c.report({"train.eval_steps", "dataset"}, "the dataset has no evaluation set");
  if (train.early_stopping) c.report({"train.early_stopping", "dataset"}, "the dataset has no evaluation set to watch");
  if (c.experiment.checkpoint.best)
    c.report({"checkpoint.best", "dataset"}, "the dataset has no evaluation set to choose the best by");
}

void check_best(Checked& c) {
  const std::optional<checkpoint::BestConfig>& best = c.experiment.checkpoint.best;
  if (!best) return;
  if (!evaluates_at_end(c.experiment.train))
    c.report({"checkpoint.best", "train.eval_every"},
             "train.eval_every is 0, so no evaluation chooses the best; set the steps between evaluations");
  if (std::string wrong = wrong_metric(best->metric, best->mode, c.experiment); !wrong.empty())
    c.report({"checkpoint.best.metric", "checkpoint.best.mode", "task.kind"}, std::move(wrong));
}

void check_early_stopping(Checked& c) {
  const std::optional<train::EarlyStoppingConfig>& stopping = c.experiment.train.early_stopping;
  if (!stopping) return;
  if (eval_interval(c.experiment.train) == 0)
    c.report({"train.early_stopping", "train.eval_every"},
             "early stopping watches evaluations; set train.eval_every to the steps between them");
  if (std::string wrong = wrong_metric(stopping->metric, stopping->mode, c.experiment); !wrong.empty())
    c.report({"train.early_stopping.metric", "train.early_stopping.mode", "task.kind"}, std::move(wrong));
}

/// Metrics are told once each, and mean something for the classes that the dataset's config lists.
void check_metrics(Checked& c) {
  const std::int64_t num_classes = known_classes(c.experiment.dataset.source);
  c.experiment.task.visit([&](const auto& config) {
    if constexpr (requires { config.metrics; })
      for (std::size_t i = 0; i < config.metrics.size(); ++i) {
        const std::string path = config::join_path("task.metrics", i);
        const auto before = config.metrics.begin() + static_cast<std::ptrdiff_t>(i);
        if (std::find(config.metrics.begin(), before, *before) != before)
          c.report({path}, std::string(config::name_of(*before)) + " is in the list already");
        if constexpr (std::same_as<decltype(*before), const task::ClassificationMetric&>)
          if (std::string why = num_classes == 0 ? "" : unfit_for_classes(*before, num_classes); !why.empty())
            c.report({path, "dataset"}, std::move(why));
      }
  });
}

/// A rank measures the weights that it updates: where ranks share these, it has no whole ones.
void check_histograms(Checked& c) {
  if (c.experiment.tracking.histogram_every == 0) return;
  const distributed::DistributedConfig& config = c.experiment.distributed;
  const bool shards = config::traits_of(config.how).layout == distributed::Layout::sharded;
  if (shards || config.tensor > 1 || config.pipeline > 1)
    c.report({"tracking.histogram_every", shards              ? "distributed.kind"
                                          : config.tensor > 1 ? "distributed.tensor"
                                                              : "distributed.pipeline"},
             "no rank has the whole weights and gradients to measure; train with ddp, or leave histograms out");
}

void check_trackers(Checked& c) {
  const tracking::TrackingConfig& tracking = c.experiment.tracking;
  if (!tracking.mlflow && !tracking.trackio && tracking.flush_timeout_s != tracking::TrackingConfig{}.flush_timeout_s)
    c.report({"tracking.flush_timeout_s", "tracking"}, "used for mlflow and trackio alone, and neither is set");
  if (!tracking.mlflow || tracking.mlflow->server.empty()) return;
  const std::string_view server = tracking.mlflow->server;
  const bool is_http = server.starts_with("http://") || server.starts_with("https://");
  if (!is_http)
    c.report({"tracking.mlflow.server"}, "expected http:// or https://, got " + std::string(server));
  else if (const std::string_view host = server.substr(server.find("//") + 2);
           host.substr(0, host.find('/')).find('@') != std::string_view::npos)
    c.report({"tracking.mlflow.server"},
             "expected an address without user and password; MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD are "
             "for these");
}

void check_rollback(Checked& c) {
  if (c.experiment.train.on_non_finite == train::NonFinite::rollback && c.experiment.checkpoint.every == 0)
    c.report({"train.on_non_finite", "checkpoint"}, "rollback goes back to a checkpoint; set checkpoint.every");
  const std::optional<train::LossSpikesConfig>& spikes = c.experiment.train.loss_spikes;
  if (spikes && spikes->action == train::SpikeAction::rollback && c.experiment.checkpoint.every == 0)
    c.report({"train.loss_spikes.action", "checkpoint"}, "rollback goes back to a checkpoint; set checkpoint.every");
}

void check_precision(Checked& c) {
  const amp::AmpConfig& amp = c.experiment.amp;
  if (amp.mode == amp::Precision::tf32 && c.experiment.device.kind == runtime::DeviceKind::cpu)
    c.report({"amp.mode", "device.kind"}, "tf32 is a mode of NVIDIA GPUs, and device is cpu");
  if (amp.mode == amp::Precision::fp16) return;
  // A resolved file says the default scaling too; that changes nothing and is no mistake.
  const auto* dynamic = amp.loss_scaling.get_if<amp::DynamicScalingConfig>();
  const amp::DynamicScalingConfig plain;
  const bool is_default =
      dynamic != nullptr && dynamic->init_scale == plain.init_scale && dynamic->growth_factor == plain.growth_factor &&
      dynamic->backoff_factor == plain.backoff_factor && dynamic->growth_interval == plain.growth_interval;
  if (!is_default)
    c.report({"amp.loss_scaling", "amp.mode"},
             "used by fp16 alone, and amp.mode is " + std::string(config::name_of(amp.mode)));
}

/// Metrics beside the task's have names of their own, and answers that they are for.
void check_extra_metrics(Checked& c) {
  const task::TaskTraits& task = config::traits_of(c.experiment.task);
  const dataset::Targets targets = config::facts_of(c.experiment.dataset.source).targets;
  const bool has_classes = targets == dataset::Targets::labels || targets == dataset::Targets::class_masks;
  const bool has_answers = *task.output == model::Output::per_sample || *task.output == model::Output::per_pixel;
  std::vector<task::MetricName> told =
      c.experiment.task.visit([](const auto& config) { return task::metric_names(config); });
  for (std::size_t i = 0; i < c.experiment.metrics.size(); ++i) {
    const task::MetricConfig& metric = c.experiment.metrics[i];
    const std::string path = config::join_path("metrics", i);
    const std::string name(metric.kind());
    if (std::ranges::find(told, name, &task::MetricName::name) != told.end())
      c.report({path}, name + " is told already");
    told.push_back({metric.kind(), config::traits_of(metric).best});
    if (!has_answers || (*config::traits_of(metric).needs_classes && !has_classes))
      c.report({path, "task.kind"}, name + " is of " + (has_answers ? "one class each" : "samples or pixels") +
                                        ", and task " + std::string(c.experiment.task.kind()) + " has none");
  }
}

void check_offload(Checked& c) {
  if (c.experiment.activation_checkpointing.offload == activation_checkpointing::ActivationOffload::cpu &&
      c.experiment.device.kind == runtime::DeviceKind::cpu)
    c.report({"activation_checkpointing.offload", "device.kind"},
             "device is cpu, so what the backward pass needs is in the host's memory already");
}

/// A recorded step repeats the host's numbers, and doesn't ask the host.
void check_graph(Checked& c) {
  const Experiment& experiment = c.experiment;
  if (experiment.train.graph == train::Graph::none) return;
  const auto refuse = [&](const std::string& key, const std::string& why) {
    c.report({"train.graph", key}, why + "; leave train.graph or " + key + " out");
  };
  if (experiment.device.kind == runtime::DeviceKind::cpu)
    c.report({"train.graph", "device.kind"},
             "records the work of a GPU, and device is cpu, where it could save a small network 5 % at most");
  const std::string rule(experiment.optimizer.rule.kind());
  if (config::traits_of(experiment.optimizer.rule).reads_overflow_flag ||
      config::facts_of(experiment.optimizer.rule).could_fuse)
    c.report({"train.graph", "optimizer.kind", "optimizer.fused"},
             rule + " waits for the device at each update; choose adamw, adam or sgd, with fused: true");
  const distributed::DistributedConfig& ranks = experiment.distributed;
  if (ranks.how.kind() != distributed::AutoDistributedConfig::kind &&
      config::traits_of(ranks.how).layout != distributed::Layout::alone)
    c.report({"train.graph", "distributed.kind"}, "is for one rank; leave distributed out");
  experiment.task.visit([&](const auto& task) {
    if constexpr (requires { task.mixup; })
      if (task.mixup > 0 || task.cutmix > 0)
        c.report({"train.graph", "task.mixup", "task.cutmix"},
                 "would blend all batches by the share of the first; leave mixup and cutmix out");
  });
  if (experiment.distillation) refuse("distillation", "would repeat the teacher's answers to the first batch");
  if (experiment.quantization.training.kind() != quantization::NoQuantizedTrainingConfig::kind)
    refuse("quantization.kind", "would round every step as the first, by ranges that the host counts steps for");
  if (experiment.tracking.histogram_every > 0)
    refuse("tracking.histogram_every", "gives gradients and update as one, with no time to read the gradients");
  if (experiment.profiler.start_step)
    refuse("profiler.start_step", "shows a profile no operators, whose starts it saves");
  if (const auto& blocks = config::traits_of(experiment.activation_checkpointing.blocks);
      blocks.recomputes || blocks.is_chosen_by_plan)
    refuse("activation_checkpointing.kind", "can't keep the generator's state, which each recomputation begins with");
  if (experiment.activation_checkpointing.offload != activation_checkpointing::ActivationOffload::none)
    refuse("activation_checkpointing.offload", "doesn't wait for activations that come back from the host");
}

}  // namespace

std::string wrong_metric(const std::string& metric, checkpoint::MetricOrder best, const Experiment& experiment) {
  std::vector<task::MetricName> told =
      experiment.task.visit([](const auto& config) { return task::metric_names(config); });
  for (const task::MetricConfig& extra : experiment.metrics)
    told.push_back({extra.kind(), config::traits_of(extra).best});
  std::vector<std::string> names;
  bool high_is_good = true;
  for (const task::MetricName& known : told) {
    names.emplace_back(known.name);
    if (known.name == metric) high_is_good = known.best == task::MetricName::Best::highest;
  }
  if (std::find(names.begin(), names.end(), metric) == names.end()) {
    const std::string nearest = core::nearest_word(metric, names);
    return "expected one of " + core::list_words(names, "or") + ", got '" + metric.substr(0, 60) + "'" +
           (nearest.empty() ? "" : "; did you mean '" + nearest + "'?");
  }
  if (high_is_good == (best == checkpoint::MetricOrder::max)) return "";
  return high_is_good ? metric + " is best when highest, but the lowest is asked for"
                      : metric + " is best when lowest, but the highest is asked for";
}

void check_training(Checked& checked) {
  check_length(checked);
  check_evaluation(checked);
  check_best(checked);
  check_early_stopping(checked);
  check_metrics(checked);
  check_extra_metrics(checked);
  check_histograms(checked);
  check_trackers(checked);
  check_rollback(checked);
  check_precision(checked);
  check_offload(checked);
  check_graph(checked);
}

}  // namespace trainctl::experiment
