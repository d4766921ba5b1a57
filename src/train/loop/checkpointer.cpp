#include "train/loop/checkpointer.h"

#include <ATen/ops/full.h>
#include <ATen/ops/isfinite.h>

#include <algorithm>

#include "core/error.h"
#include "core/text.h"
#include "dataset/description.h"

namespace trainctl::train {

Checkpointer::Checkpointer(Run& run, tracking::Sink& sink, StopSignal::Deferral& deferral,
                           std::filesystem::path run_directory, std::map<std::string, std::string> config)
    : run_(run),
      sink_(sink),
      directory_(run_directory / "checkpoints"),
      config_(std::move(config)),
      saver_(directory_, run.experiment.checkpoint, &run.mesh->world()) {
  take_up_lineage();
  if (const std::optional<checkpoint::SnapshotConfig>& snapshot = run.experiment.checkpoint.in_memory) {
    snapshots_.emplace(checkpoint::snapshot_directory(*snapshot, run_directory), run.step, run.mesh->world());
    snapshots_->on_failure = [this](const std::string& what) {
      sink_.on(tracking::Notice{tracking::Level::warning, what});
    };
  }
  saver_.on_failed = [this](const std::string& what) {
    sink_.on(tracking::Notice{tracking::Level::warning,
                              what + "; training goes on, and tries again at the next checkpoint"});
  };
  saver_.on_saved = [this, &deferral](std::int64_t step, const std::filesystem::path& path, double seconds) {
    if (run_.mesh->world().size() == 1) deferral.step_saved(step);  // else the others need this rank for theirs
    sink_.on(tracking::CheckpointSaved{step, path.string(), seconds});
  };
}

/// A run may go on from an older checkpoint of its directory, or from another run's. What was saved later, or by the
/// other run, is no part of it.
void Checkpointer::take_up_lineage() {
  const bool is_here = std::filesystem::weakly_canonical(run_.restored_from).parent_path() ==
                       std::filesystem::weakly_canonical(directory_);
  saved_step_ = is_here ? run_.step : -1;
  if (!is_here && !run_.restored_from.empty()) foreign_step_ = run_.step;
  if (run_.experiment.checkpoint.best && run_.best.step() > 0) forget_lost_best();
  const std::int64_t best = run_.experiment.checkpoint.best ? run_.best.step() : 0;
  if (is_here && run_.is_first()) checkpoint::go_on_from(directory_, run_.step, best);
}

/// Begins anew with the best evaluation if this run has no checkpoint of it: `best` would name a worse one.
void Checkpointer::forget_lost_best() {
  const std::int64_t best = run_.best.step();
  const bool is_of_this_run = foreign_step_ < best;
  const bool is_kept = is_of_this_run && std::ranges::any_of(checkpoint::find_complete(directory_),
                                                             [&](const auto& found) { return found.step == best; });
  const at::Tensor is_lost = at::full({1}, is_kept ? 0 : 1, at::kLong);
  run_.mesh->world().all_reduce(is_lost, comm::Reduce::max)->wait();
  if (is_lost.item<std::int64_t>() == 0) return;
  run_.best = BestEvaluation(run_.experiment.checkpoint.best);
  sink_.on(tracking::Notice{tracking::Level::warning, "the best evaluation so far, of step " +
                                                          core::format_count(best) + ", has no checkpoint in " +
                                                          directory_.string() + ": the next one is the best"});
}

/// Throws Error on all ranks if a weight of one isn't finite: a checkpoint of it would be `latest`, and of no use.
void Checkpointer::refuse_non_finite() const {
  std::string name;
  for (const optimizer::OptimizedParameter& parameter : run_.parameters)
    if (name.empty() && !parameter.tensor.isfinite().all().item<bool>()) name = "the parameter " + parameter.name;
  const at::Tensor any = at::full({1}, name.empty() ? 0 : 1, at::kLong);
  run_.mesh->world().all_reduce(any, comm::Reduce::max)->wait();
  if (any.item<std::int64_t>() == 0) return;
  throw core::Error((name.empty() ? "a parameter of another rank" : name) + " isn't finite after step " +
                    core::format_count(run_.step) + ", which is not saved")
      .hint("lower optimizer.lr, set optimizer.clip_norm, or choose train.on_non_finite: skip or rollback");
}

void Checkpointer::save(checkpoint::Writing writing) {
  if (saved_step_ == run_.step || run_.step == 0) return;
  refuse_non_finite();
  run_.parallel->share_buffers();
  checkpoint::ShownState state;
  const optimizer::AveragedWeights averaged(*run_.optimizer);
  run_.visit_state(state);
  const bool is_last = run_.step == run_.length.total_steps;
  saver_.save(state, info(), is_last ? checkpoint::Writing::at_once : writing);
  saved_step_ = run_.step;
}

void Checkpointer::save_again() {
  saved_step_ = 0;
  save();
}

bool Checkpointer::is_snapshot_due() const {
  return snapshots_ && run_.step % run_.experiment.checkpoint.in_memory->every == 0 && saved_step_ != run_.step;
}

void Checkpointer::take_snapshot() {
  if (!is_snapshot_due()) return;
  refuse_non_finite();
  run_.parallel->share_buffers();
  checkpoint::ShownState state;
  const optimizer::AveragedWeights averaged(*run_.optimizer);
  run_.visit_state(state);
  snapshots_->save(state, info());
}

checkpoint::CheckpointInfo Checkpointer::info() const {
  checkpoint::CheckpointInfo info{.step = run_.step,
                                  .config = config_,
                                  .metrics = {},
                                  .data_fingerprint = run_.data.fingerprint,
                                  .data_description = dataset::description_of(run_.data.train->spec()),
                                  .global_batch = run_.global_batch};
  if (run_.evaluated_step == run_.step) info.metrics.insert(run_.metrics.begin(), run_.metrics.end());
  return info;
}

void Checkpointer::close() {
  saver_.finish();
  if (snapshots_) snapshots_->remove();
}

/// Returns the run's own checkpoints, newest first, without those that it left behind.
std::vector<ResumePoint> Checkpointer::own_points() {
  saver_.settle();
  std::vector<ResumePoint> points;
  for (const checkpoint::Found& found : checkpoint::find_complete(directory_)) {
    if (!found.is_withdrawn && found.step <= run_.step && found.step > foreign_step_)
      points.push_back({.step_directory = found.path, .step = found.step});
  }
  return points;
}

bool Checkpointer::can_roll_back() {
  return !own_points().empty();
}

void Checkpointer::roll_back() {
  const std::vector<ResumePoint> points = own_points();
  if (points.empty())
    throw core::Error("no checkpoint to roll back to").hint("set checkpoint.every to a smaller number of steps");
  const dataset::Position after_the_bad_batch = run_.data.train->position();
  const std::int64_t rollbacks = run_.num_rollbacks + 1;
  restore_first(run_, points, config_, sink_);
  take_up_lineage();
  run_.num_rollbacks = rollbacks;
  run_.next_sample = after_the_bad_batch;
  run_.data.train->seek(after_the_bad_batch);
  sink_.on(tracking::RolledBack{run_.step});
  sink_.on(tracking::Notice{tracking::Level::warning, "rolled back to step " + core::format_count(run_.step) +
                                                          "; it goes on with the data after the bad batch"});
}

}  // namespace trainctl::train
