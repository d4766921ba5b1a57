#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <future>

#include "checkpoint/attempt.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/manifest.h"
#include "checkpoint/parts.h"
#include "checkpoint/snapshot.h"
#include "checkpoint/step_directory.h"
#include "core/error.h"
#include "core/file.h"

namespace trainctl::checkpoint {
namespace {

namespace fs = std::filesystem;

core::Error save_error(const std::exception& error, std::int64_t step) {
  core::Error told = core::as_error(error);
  told.during("saving the checkpoint of step " + std::to_string(step));
  return told.hint("make room or choose another --run-dir; the checkpoints before this one are whole");
}

template <class Action>
std::optional<core::Error> catch_error(Action action) {
  try {
    action();
    return std::nullopt;
  } catch (const std::exception& error) {
    return core::as_error(error);
  }
}

void create_empty_directory(const fs::path& directory) {
  fs::create_directories(directory.parent_path());
  fs::remove_all(directory);
  fs::create_directory(directory);
}

/// Whether the metrics are better than those of the best checkpoint so far, which outlives this process on the disk.
bool is_best(const CheckpointInfo& info, const BestConfig& config, const fs::path& best) {
  const auto now = info.metrics.find(config.metric);
  if (now == info.metrics.end() || std::isnan(now->second)) return false;
  try {
    const std::map<std::string, double> metrics = read_values(best / kValuesFile).info.metrics;
    const auto before = metrics.find(config.metric);
    if (before == metrics.end() || std::isnan(before->second)) return true;
    return config.mode == MetricOrder::max ? now->second > before->second : now->second < before->second;
  } catch (const core::Error&) {  // it can't be read
    return true;
  }
}

}  // namespace

struct Saver::Work {
  fs::path temporary;
  Snapshot snapshot;
  CheckpointInfo info;
  std::int64_t elements = 0;  // of all members
  std::chrono::steady_clock::time_point begin = std::chrono::steady_clock::now();
};

struct Saver::Pending {
  std::promise<void> written;  // this member's share
  std::future<void> own = written.get_future();
  std::future<void> all;
  std::atomic<bool> is_abandoned = false;
  fs::path temporary;
  std::int64_t step = 0;
};

Saver::Saver(fs::path directory, CheckpointConfig config, comm::Group* group)
    : directory_(std::move(directory)), config_(std::move(config)), group_(group), owner_(::getpid()) {
  if (is_first()) remove_stale(directory_);
  if (size() > 1) {
    const Attempt attempt = agree_on_attempt(directory_, *group_);
    attempt_ = attempt.number;
    owner_ = attempt.owner;
  }
}

Saver::~Saver() {
  if (!pending_) return;
  pending_->is_abandoned = true;
  if (pending_->all.valid()) pending_->all.wait();
  if (!is_first()) return;
  std::error_code ignored;
  fs::remove_all(pending_->temporary, ignored);
}

bool Saver::any_member(bool flag) const {
  if (size() == 1) return flag;
  const at::Tensor any = at::full({1}, flag ? 1 : 0, at::kLong);
  group_->all_reduce(any, comm::Reduce::max)->wait();
  return any.item<std::int64_t>() != 0;
}

std::optional<core::Error> Saver::wait_for_write() {
  std::optional<core::Error> own =
      catch_error([&] { pending_ && pending_->own.valid() ? pending_->own.get() : void(); });
  const bool any_failed = any_member(own.has_value());
  if (!pending_) return own;
  if (any_failed) pending_->is_abandoned = true;  // not all parts will come
  const std::int64_t step = pending_->step;
  std::optional<core::Error> whole = catch_error([&] { pending_->all.valid() ? pending_->all.get() : void(); });
  if (any_failed && is_first()) remove_quietly(pending_->temporary);
  pending_.reset();
  if (own || whole) return own ? own : whole;
  if (any_failed && is_first())
    return save_error(core::Error("another rank could not write its part: its log says why"), step);
  return std::nullopt;
}

void Saver::report(const std::optional<core::Error>& failure) const {
  if (!failure) return;
  if (!on_failed) throw *failure;
  on_failed(failure->what());
}

void Saver::save(const ShownState& state, CheckpointInfo info, Writing writing) {
  report(wait_for_write());
  lost_.reset();
  const std::int64_t step = info.step;
  const bool goes_on = config_.async && writing == Writing::beside_training;
  Work work{.temporary = temporary_path(directory_ / step_name(step), owner_),
            .snapshot = copy_state(state, {.index = group_ == nullptr ? 0 : group_->rank(), .count = size()},
                                   goes_on ? Lifetime::own : Lifetime::lent),
            .info = std::move(info)};
  work.elements = work.snapshot.elements_of_all + work.snapshot.elements_of_own;
  if (size() > 1) {
    const at::Tensor own = at::full({1}, work.snapshot.elements_of_own, at::kLong);
    group_->all_reduce(own, comm::Reduce::sum)->wait();
    work.elements = work.snapshot.elements_of_all + own.item<std::int64_t>();
    std::optional<core::Error> failure;
    if (is_first()) failure = catch_error([&] { create_empty_directory(work.temporary); });
    const bool stops = any_member(failure.has_value());  // also says that the directory is there
    if (failure) lost_ = save_error(*failure, step);
    report(lost_);
    if (stops) return;
  }
  pending_ = std::make_unique<Pending>();
  pending_->temporary = work.temporary;
  pending_->step = step;
  pending_->all = std::async(std::launch::async, [this, pending = pending_.get(), taken = std::move(work)]() mutable {
    write_checkpoint(std::move(taken), *pending);
  });
  if (goes_on) return;
  lost_ = wait_for_write();
  if (writing == Writing::beside_training) report(lost_);
}

void Saver::settle() {
  report(wait_for_write());
  lost_.reset();
  if (size() > 1) group_->barrier();
}

void Saver::finish() {
  if (const std::optional<core::Error> failure = wait_for_write()) throw *failure;
  if (lost_) throw *lost_;
  if (size() > 1) group_->barrier();
}

/// A member that saves alone writes whole files. Else each writes a part, and the first member merges them.
void Saver::write_checkpoint(Work work, Pending& pending) const {
  const std::int64_t step = work.info.step;
  const std::string part = size() == 1 ? "" : part_name(group_->rank(), size());
  Contents contents;
  try {
    if (part.empty()) create_empty_directory(work.temporary);
    contents.manifest = write_tensors(work.temporary, work.snapshot, part, core::Durability::disk);
    contents.manifest.step = step;
    contents.values = {.values = std::move(work.snapshot.values), .info = work.info};
    work.snapshot = {};
    if (!part.empty())
      write_part(work.temporary,
                 {.index = group_->rank(),
                  .count = size(),
                  .attempt = attempt_,
                  .elements = work.elements,
                  .manifest = std::move(contents.manifest),
                  .values = std::move(contents.values)},
                 core::Durability::disk);
  } catch (const std::exception& error) {
    const core::Error failure = save_error(error, step);
    if (part.empty())
      remove_quietly(work.temporary);
    else
      leave_failure(work.temporary, part, failure.what());
    pending.written.set_exception(std::make_exception_ptr(failure));
    return;
  }
  pending.written.set_value();
  if (!is_first()) return;
  try {
    if (!part.empty()) {
      const std::optional<std::vector<Part>> parts =
          wait_for_parts(work.temporary, size(), attempt_, [&] { return pending.is_abandoned.load(); });
      if (!parts) return;
      contents = merge_parts(*parts);
      for (std::int64_t i = 0; i < size(); ++i) fs::remove(work.temporary / (part_name(i, size()) + ".json"));
    }
    contents.manifest.files[kValuesFile] =
        write_text(work.temporary / kValuesFile, text_of_values(contents.values), core::Durability::disk);
    write_manifest(work.temporary, contents.manifest);
    publish(work);
  } catch (const std::exception& error) {
    remove_quietly(work.temporary);
    throw save_error(error, step);
  }
}

/// Gives the directory its name, moves the links, and removes the checkpoints that are no longer kept.
void Saver::publish(const Work& work) const {
  const std::int64_t step = work.info.step;
  const fs::path path = directory_ / step_name(step);
  core::sync_directory(work.temporary);
  withdraw_beyond(directory_, step);  // of another run that wrote here
  replace_directory(work.temporary, path);
  core::sync_directory(directory_);
  if (config_.best && is_best(work.info, *config_.best, directory_ / kBest)) update_symlink(directory_ / kBest, step);
  update_symlink(directory_ / kLatest, step);
  core::sync_directory(directory_);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - work.begin;
  std::vector<std::int64_t> steps = steps_newest_first(directory_);
  std::erase_if(steps, [&](std::int64_t kept) { return !fs::exists(directory_ / step_name(kept) / kManifestFile); });
  const std::optional<std::int64_t> best = linked_step(directory_ / kBest);
  for (std::size_t i = static_cast<std::size_t>(config_.keep_last); i < steps.size(); ++i)
    if (steps[i] != best) remove_directory(directory_ / step_name(steps[i]));
  if (on_saved) on_saved(step, path, seconds.count());
}

}  // namespace trainctl::checkpoint
