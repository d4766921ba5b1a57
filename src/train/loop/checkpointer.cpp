#include "train/loop/checkpointer.h"

#include "core/error.h"
#include "core/text.h"
#include "dataset/description.h"
#include "train/run/restore.h"

namespace trainctl::train {

Checkpointer::Checkpointer(Run& run, tracking::Sink& sink, StopSignal::Deferral& deferral,
                           std::filesystem::path run_directory, std::map<std::string, std::string> config)
    : run_(run),
      sink_(sink),
      directory_(run_directory / "checkpoints"),
      config_(std::move(config)),
      saver_(directory_, run.experiment.checkpoint, &run.mesh->world()),
      saved_step_(run.step) {
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

void Checkpointer::save(checkpoint::Writing writing) {
  if (saved_step_ == run_.step || run_.step == 0) return;
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

bool Checkpointer::can_roll_back() {
  saver_.finish();
  return !checkpoint::find_complete(directory_).empty();
}

void Checkpointer::roll_back() {
  saver_.finish();
  std::vector<ResumePoint> points;
  for (const checkpoint::Found& found : checkpoint::find_complete(directory_))
    points.push_back({.step_directory = found.path, .step = found.step});
  if (points.empty())
    throw core::Error("no checkpoint to roll back to").hint("set checkpoint.every to a smaller number of steps");
  const dataset::Position after_the_bad_batch = run_.data.train->position();
  const std::int64_t rollbacks = run_.num_rollbacks + 1;
  restore_first(run_, points, config_, sink_);
  saved_step_ = run_.step;
  run_.num_rollbacks = rollbacks;
  run_.next_sample = after_the_bad_batch;
  run_.data.train->seek(after_the_bad_batch);
  sink_.on(tracking::Notice{tracking::Level::warning, "rolled back to step " + core::format_count(run_.step) +
                                                          "; it goes on with the data after the bad batch"});
}

}  // namespace trainctl::train
