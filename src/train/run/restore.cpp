#include "train/run/restore.h"

#include <ATen/ops/full.h>

#include <algorithm>
#include <chrono>
#include <sstream>
#include <utility>

#include "checkpoint/gather_texts.h"
#include "checkpoint/node_snapshots.h"
#include "config/flatten.h"
#include "core/error.h"
#include "core/file.h"
#include "core/text.h"
#include "dataset/description.h"
#include "pretrained/tokenizer_files.h"

namespace trainctl::train {
namespace {

namespace fs = std::filesystem;

/// Returns the chosen checkpoint, and the older ones of its run, newest first.
std::vector<ResumePoint> checkpoints_of(const ResumeRequest& wish) {
  std::vector<ResumePoint> points;
  if (!wish.chosen) return points;
  const fs::path chosen = fs::absolute(*wish.chosen);
  for (const checkpoint::Found& found : checkpoint::find_complete(chosen))
    points.push_back({.step_directory = chosen, .step = found.step});
  if (!wish.takes_newest || points.empty()) return points;
  for (const checkpoint::Found& found : checkpoint::find_complete(chosen.parent_path()))
    if (found.step < points.front().step) points.push_back({.step_directory = found.path, .step = found.step});
  return points;
}

constexpr std::string_view kContent = " (content)";

std::string text_of(const ResumeRequest& wish) {
  std::ostringstream text;
  text << wish.takes_newest << "\n";
  for (const ResumePoint& point : checkpoints_of(wish))
    text << point.step << " " << point.step_directory.string() << "\n";
  return text.str();
}

/// Returns what begins anew on any rank. A rank knows of the parameters that it has a part of. All ranks call it.
std::vector<std::string> begun_anew(const checkpoint::StateReader& reader, comm::Group& group) {
  std::string mine;
  for (const std::string& name : reader.begun_anew()) mine += name + "\n";
  std::vector<std::string> all;
  for (const std::string& text : checkpoint::gather_texts(group, mine)) {
    std::istringstream lines(text);
    for (std::string name; std::getline(lines, name);)
      if (std::find(all.begin(), all.end(), name) == all.end()) all.push_back(name);
  }
  return all;
}

/// What a checkpoint is restored for: to go on with training, or to use the model.
enum class Purpose { training, use };

constexpr std::size_t kMostNamed = 5;

/// Returns those of a config's changes that are in these sections.
std::vector<std::string> changes_within(std::initializer_list<std::string_view> sections,
                                        std::vector<std::string> changes) {
  std::erase_if(changes, [&](const std::string& change) {
    return std::ranges::none_of(sections, [&](std::string_view section) { return change.starts_with(section); });
  });
  return changes;
}

core::Error refusal_of(const std::vector<std::string>& changes, const std::string& why) {
  return core::Error("a run can't go on with " + core::list_words(changes) + ": " + why)
      .hint("set them as they were, or begin another run from these weights: model.init_from");
}

/// Refuses a network that has no place for weights of the checkpoint: it would compute something else without them.
void refuse_lost_weights(const std::vector<std::string>& unused, const std::vector<std::string>& all_changes) {
  std::vector<std::string> lost;
  for (const std::string& name : unused)
    if (name.starts_with("model.")) lost.push_back(name.substr(name.find('.') + 1));
  const std::vector<std::string> changes = changes_within({"model."}, all_changes);
  if (!lost.empty() && !changes.empty())
    throw refusal_of(changes,
                     "the network has no place for the checkpoint's " + core::list_first_words(lost, kMostNamed));
}

tracking::Level level_for(Purpose purpose) {
  return purpose == Purpose::training ? tracking::Level::warning : tracking::Level::info;
}

void tell_changes(const std::vector<std::string>& changes, const checkpoint::CheckpointInfo& info,
                  const std::map<std::string, std::string>& config, tracking::Sink& sink, Purpose purpose) {
  for (const std::string& change : changes)
    if (change.find(kContent) == std::string::npos)
      sink.on(tracking::Notice{level_for(purpose), "changed since the checkpoint: " + change});
  for (const config::Difference& change : config::diff(info.config, config))
    if (change.path.ends_with(kContent) && !change.was.empty() && !change.now.empty())
      sink.on(tracking::Notice{tracking::Level::warning,
                               change.path.substr(0, change.path.size() - kContent.size()) +
                                   " names files that are no longer those of training: results may mean nothing"});
}

void tell_differences(const checkpoint::Checkpoint& checkpoint, const std::vector<std::string>& unused,
                      const std::vector<std::string>& anew, Run& run, tracking::Sink& sink, Purpose purpose) {
  if (!unused.empty())
    sink.on(tracking::Notice{tracking::Level::warning,
                             "the checkpoint's " + core::list_first_words(unused, kMostNamed) +
                                 (unused.size() == 1 ? " has no place in this run and is left out"
                                                     : " have no place in this run and are left out")});
  if (purpose == Purpose::training && !anew.empty())
    sink.on(tracking::Notice{level_for(purpose),
                             "new since the checkpoint, and begun here: " + core::list_first_words(anew, kMostNamed)});
  if (purpose == Purpose::training && checkpoint.info().data_fingerprint != run.data.fingerprint)
    sink.on(tracking::Notice{tracking::Level::warning, "the training data is not what the checkpoint was trained on"});
}

/// Returns the failure of the first rank that has one, so that all ranks act alike; "" if no rank failed.
std::string first_failure(comm::Group& group, const std::string& mine, const std::string& name) {
  const at::Tensor failed = at::full({1}, mine.empty() ? group.size() : group.rank(), at::kLong);
  group.all_reduce(failed, comm::Reduce::min)->wait();
  const std::int64_t rank = failed.item<std::int64_t>();
  if (rank == group.size()) return "";
  return mine.empty() ? "rank " + std::to_string(rank) + " can't read " + name : mine;
}

/// Returns the reason why no run can be at the checkpoint's step, sample and epoch: a file with changed values; else
/// "".
std::string impossible_place(const Run& run, const checkpoint::Checkpoint& checkpoint) {
  const auto is_count = [](std::int64_t count) { return count >= 0 && count <= checkpoint::kMaxStep; };
  if (run.step == checkpoint.info().step && is_count(run.num_rollbacks) && is_count(run.next_sample.epoch) &&
      is_count(run.next_sample.sample))
    return "";
  return "the checkpoint of step " + std::to_string(checkpoint.info().step) + " says that it stands at step " +
         std::to_string(run.step) + ", sample " + std::to_string(run.next_sample.sample) + " of epoch " +
         std::to_string(run.next_sample.epoch) + ", after " + std::to_string(run.num_rollbacks) + " rollbacks";
}

/// Refuses data with which the network's outputs or inputs would change their meaning.
void check_meaning(const dataset::SampleSpec& now, const checkpoint::CheckpointInfo& info) {
  if (info.data_description.empty()) return;
  const dataset::SampleSpec trained = dataset::described_datasets(info.data_description, "").train->spec();
  if (const std::string change = dataset::changed_meaning(trained, now); !change.empty())
    throw core::Error(change).hint(
        "the data must be as it was for a run to go on; another run may begin from its weights: model.init_from");
}

/// Returns the changes that can be the reason why a value of the checkpoint doesn't fit.
std::vector<std::string> changes_behind(const std::string& problem, const std::vector<std::string>& all) {
  const auto is_of = [&](const char* tensors) { return problem.find(tensors) != std::string::npos; };
  std::vector<std::string> changes;
  if (is_of("tensor model.")) changes = changes_within({"model.", "amp.", "quantization.", "dataset.", "task."}, all);
  if (is_of("tensor optimizer.")) changes = changes_within({"optimizer.", "amp.", "model."}, all);
  if (changes.empty())
    changes = changes_within({"model.", "optimizer.", "amp.", "quantization.", "train.loss_spikes"}, all);
  if (changes.empty()) changes = changes_within({"dataset.", "task."}, all);
  for (const std::string section : {"model.", "optimizer.", "quantization."}) {  // another kind has other keys
    const std::vector<std::string> kind = changes_within({section + "kind: "}, changes);
    if (!kind.empty())
      std::erase_if(changes, [&](const auto& one) { return one.starts_with(section) && one != kind.front(); });
  }
  return changes;
}

/// Reads the run's state. What the checkpoint lacks or has in another shape is an Error with the keys that changed
/// since. If no key changed, an earlier version of the program wrote the checkpoint.
void visit_saved(Run& run, checkpoint::StateReader& reader, const checkpoint::Checkpoint& checkpoint,
                 const std::vector<std::string>& all_changes) {
  try {
    run.visit_state(reader);
  } catch (const core::Error& error) {
    const std::vector<std::string> changes = changes_behind(error.what(), all_changes);
    if (changes.empty())
      throw core::Error(
          "a run can't go on from " + checkpoint.name() +
          ", since another version of trainctl, or with other files, keeps another state: " + error.what())
          .hint("begin another run from its weights, with the optimizer's state anew: --set model.init_from=" +
                checkpoint.name());
    throw refusal_of(changes, error.what());
  }
}

/// Restores the run. Returns the failure of any rank's files, or "".
std::string try_restore(Run& run, const ResumePoint& point, const std::map<std::string, std::string>& config,
                        tracking::Sink& sink, Purpose purpose) {
  const auto begin = std::chrono::steady_clock::now();
  comm::Group& group = run.mesh->world();
  std::string failure;
  std::uint64_t bytes = 0;
  std::optional<checkpoint::Checkpoint> checkpoint;
  try {
    checkpoint.emplace(point.open());
  } catch (const core::Error& error) {
    failure = error.text();
  }
  failure = first_failure(group, failure, point.name());
  if (!failure.empty()) return failure;
  if (purpose == Purpose::training) check_meaning(run.data.train->spec(), checkpoint->info());
  using Slots = checkpoint::StateReader::OptimizerSlots;
  checkpoint::StateReader reader(*checkpoint, purpose == Purpose::training ? Slots::read : Slots::ignored);
  const std::vector<std::string> changes = checkpoint::changed_keys(checkpoint->info(), config);
  run.optimizer->eval();  // as it was saved
  const std::int64_t offset_before = std::exchange(run.schedule_offset, 0);
  visit_saved(run, reader, *checkpoint, changes);
  const std::int64_t saved_offset = std::exchange(run.schedule_offset, offset_before);
  const double saved_lr = run.last_lr;
  const std::vector<std::string> unused = reader.unused(&group);
  if (purpose == Purpose::training) refuse_lost_weights(unused, changes);
  try {
    bytes = reader.finish();
  } catch (const core::Error& error) {
    failure = error.text();
  }
  if (failure.empty()) failure = impossible_place(run, *checkpoint);
  failure = first_failure(group, failure, point.name());
  if (!failure.empty()) return failure;
  if (purpose == Purpose::training) {
    run.optimizer->train();
    run.place_in_schedule(saved_offset, checkpoint->info().global_batch);
  }
  run.parallel->after_update();
  if (run.quantized_training) run.quantized_training->begin_step(run.step);
  const std::vector<std::string> anew = begun_anew(reader, group);
  run.has_new_state = !anew.empty();
  tell_changes(changes, checkpoint->info(), config, sink, purpose);
  tell_differences(*checkpoint, unused, anew, run, sink, purpose);
  if (purpose == Purpose::training && run.step < run.length.total_steps && !changes.empty())
    sink.on(tracking::Notice{tracking::Level::info, "goes on with step " + core::format_count(run.step + 1) + " of " +
                                                        core::format_count(run.length.total_steps) +
                                                        "; the learning rate was " + core::format_digits(saved_lr, 4) +
                                                        ", and is " +
                                                        core::format_digits(run.lr_of_step(run.step + 1), 4)});
  if (!reader.has("evaluation.step")) {  // an older checkpoint
    const std::map<std::string, double>& metrics = checkpoint->info().metrics;
    run.metrics.assign(metrics.begin(), metrics.end());
    run.evaluated_step = metrics.empty() ? -1 : run.step;
  }
  if (purpose == Purpose::use) return "";
  run.restored_from = point.step_directory;
  run.data.train->seek(run.next_sample);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  sink.on(tracking::Notice{tracking::Level::info, "restored " + point.name() + ": " +
                                                      core::format_bytes(static_cast<double>(bytes)) + " in " +
                                                      core::format_duration(seconds.count())});
  return "";
}

/// Returns whether a key names files that decide what a network computes, and aren't kept in its run.
bool names_contents(const std::string& key) {
  const std::string last = key.substr(key.rfind('.') + 1);
  return last == "tokenizer" || last == "chat_template" || key == "model.path";
}

}  // namespace

std::map<std::string, std::string> with_contents(const std::map<std::string, std::string>& config,
                                                 const std::map<std::string, std::string>& companions) {
  std::map<std::string, std::string> known = config;
  for (const auto& [key, sum] : companions) known[key + std::string(kContent)] = sum;
  for (const auto& [key, value] : config) {
    std::error_code none;
    if (!names_contents(key) || !fs::exists(value, none)) continue;
    std::string sum;
    if (key.ends_with("tokenizer"))
      sum = pretrained::checksum_of_tokenizer(value);
    else if (fs::is_regular_file(value, none))
      sum = core::checksum_file(value);
    if (!sum.empty()) known[key + std::string(kContent)] = sum;
  }
  return known;
}

std::vector<ResumePoint> agree_on_points(const ResumeRequest& wish, comm::Group& group,
                                         std::vector<tracking::Notice>& notices) {
  std::istringstream text(checkpoint::gather_texts(group, group.rank() == 0 ? text_of(wish) : "").front());
  bool takes_newest = false;
  text >> takes_newest;
  std::vector<ResumePoint> points;
  std::string path;
  for (std::int64_t step = 0; text >> step && std::getline(text >> std::ws, path);)
    points.push_back({.step_directory = path, .step = step});
  if (!takes_newest || !wish.snapshots) return points;
  checkpoint::SnapshotSearch search =
      checkpoint::find_snapshot(*wish.snapshots, points.empty() ? 0 : points.front().step, group);
  for (const std::string& lack : search.passed_over)
    notices.push_back(
        {tracking::Level::warning, lack + " (their nodes are gone, or failed to write): it is passed over"});
  if (search.found) {
    notices.push_back(
        {tracking::Level::info, "resuming the snapshot of step " + core::format_count(search.found->step)});
    points.insert(points.begin(), {.parts = std::move(search.found->parts), .step = search.found->step});
  }
  return points;
}

std::string ResumePoint::name() const {
  return parts.empty() ? step_directory.string() : "the snapshot of step " + core::format_count(step);
}

checkpoint::Checkpoint ResumePoint::open() const {
  return parts.empty() ? checkpoint::Checkpoint(step_directory) : checkpoint::Checkpoint(parts);
}

void restore(Run& run, const std::filesystem::path& step_directory, const std::map<std::string, std::string>& config,
             tracking::Sink& sink) {
  const std::string failure = try_restore(run, {.step_directory = step_directory}, config, sink, Purpose::training);
  if (!failure.empty()) throw core::Error(failure);
}

void restore_for_use(Run& run, const std::filesystem::path& step_directory,
                     const std::map<std::string, std::string>& config, tracking::Sink& sink) {
  const std::string failure = try_restore(run, {.step_directory = step_directory}, config, sink, Purpose::use);
  if (!failure.empty()) throw core::Error(failure);
}

void restore_first(Run& run, const std::vector<ResumePoint>& points, const std::map<std::string, std::string>& config,
                   tracking::Sink& sink) {
  std::string failures;
  for (const ResumePoint& point : points) {
    const std::string failure = try_restore(run, point, config, sink, Purpose::training);
    if (failure.empty()) {
      if (!failures.empty())
        sink.on(tracking::Notice{tracking::Level::warning, "going back to " + point.name() + ", because" + failures});
      return;
    }
    failures += "\n    " + failure;
  }
  throw core::Error("no checkpoint can be read:" + failures)
      .hint("--resume PATH takes another one, --resume never starts anew");
}

std::filesystem::path step_directory_of(const std::filesystem::path& path, std::vector<std::string>* passed_over) {
  std::vector<std::string> damaged;
  const std::optional<checkpoint::Found> found = checkpoint::find_newest(path, &damaged);
  if (passed_over != nullptr) *passed_over = damaged;
  if (found) return found->path;
  std::string reasons;
  for (const std::string& reason : damaged) reasons += "\n    " + reason;
  throw core::Error("no complete checkpoint in " + path.string() + reasons)
      .hint("give a run directory, its checkpoints directory, or one step_… directory");
}

}  // namespace trainctl::train
