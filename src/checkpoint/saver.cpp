#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <future>

#include "checkpoint/attempt.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/parts.h"
#include "checkpoint/snapshot.h"
#include "checkpoint/step_directory.h"
#include "core/error.h"
#include "core/file.h"

namespace trainctl::checkpoint {
namespace {

namespace fs = std::filesystem;

std::optional<double> metric_of(const fs::path& step_directory, const std::string& metric) {
  try {
    const auto metrics = read_values(step_directory / kValuesFile).info.metrics;
    const auto found = metrics.find(metric);
    if (found != metrics.end()) return found->second;
  } catch (const core::Error&) {  // a best checkpoint that can't be read is none
  }
  return std::nullopt;
}

core::Error described(const std::exception& error, std::int64_t step) {
  core::Error told = core::as_error(error);
  told.during("saving the checkpoint of step " + std::to_string(step));
  return told.hint("make room or choose another --run-dir; the checkpoints before this one are whole");
}

template <class Work>
std::optional<core::Error> failure_of(Work work) {
  try {
    work();
    return std::nullopt;
  } catch (const std::exception& error) {
    return core::as_error(error);
  }
}

}  // namespace

struct Saver::Work {
  fs::path unfinished;
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
  fs::path unfinished;
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
  fs::remove_all(pending_->unfinished, ignored);
}

bool Saver::any_member(bool flag) const {
  if (size() == 1) return flag;
  const at::Tensor any = at::full({1}, flag ? 1 : 0, at::kLong);
  group_->all_reduce(any, comm::Reduce::max)->wait();
  return any.item<std::int64_t>() != 0;
}

std::optional<core::Error> Saver::settle() {
  std::optional<core::Error> own =
      failure_of([&] { pending_ && pending_->own.valid() ? pending_->own.get() : void(); });
  const bool any_failed = any_member(own.has_value());
  if (!pending_) return own;
  if (any_failed) pending_->is_abandoned = true;  // not all parts will come
  const std::int64_t step = pending_->step;
  std::optional<core::Error> whole = failure_of([&] { pending_->all.valid() ? pending_->all.get() : void(); });
  if (any_failed && is_first()) remove_quietly(pending_->unfinished);
  pending_.reset();
  if (own || whole) return own ? own : whole;
  if (any_failed && is_first())
    return described(core::Error("another rank could not write its part: its log says why"), step);
  return std::nullopt;
}

void Saver::tell(const std::optional<core::Error>& failure) const {
  if (!failure) return;
  if (!on_failed) throw *failure;
  on_failed(failure->what());
}

void Saver::save(const ShownState& state, CheckpointInfo info) {
  tell(settle());
  lost_.reset();
  const std::int64_t step = info.step;
  Work work{.unfinished = beside(directory_ / step_name(step), owner_),
            .snapshot = copy_state(state, {.index = group_ == nullptr ? 0 : group_->rank(), .count = size()},
                                   config_.async ? Lifetime::own : Lifetime::lent),
            .info = std::move(info)};
  work.elements = work.snapshot.elements_of_all + work.snapshot.elements_of_own;
  if (size() > 1) {
    const at::Tensor own = at::full({1}, work.snapshot.elements_of_own, at::kLong);
    group_->all_reduce(own, comm::Reduce::sum)->wait();
    work.elements = work.snapshot.elements_of_all + own.item<std::int64_t>();
    std::optional<core::Error> no_place;
    if (is_first()) no_place = failure_of([&] { make_place(work); });
    const bool stops = any_member(no_place.has_value());  // also says that the directory is there
    if (no_place) lost_ = described(*no_place, step);
    tell(lost_);
    if (stops) return;
  }
  pending_ = std::make_unique<Pending>();
  pending_->unfinished = work.unfinished;
  pending_->step = step;
  pending_->all = std::async(std::launch::async, [this, pending = pending_.get(), taken = std::move(work)]() mutable {
    carry_out(std::move(taken), *pending);
  });
  if (config_.async) return;
  lost_ = settle();
  tell(lost_);
}

void Saver::make_place(const Work& work) const {
  fs::create_directories(directory_);
  fs::remove_all(work.unfinished);
  fs::create_directory(work.unfinished);
}

void Saver::finish() {
  if (const std::optional<core::Error> failure = settle()) throw *failure;
  if (lost_) throw *lost_;
  if (size() > 1) group_->barrier();
}

void Saver::carry_out(Work work, Pending& pending) const {
  try {
    if (size() == 1) make_place(work);
    write_share(work);
  } catch (const std::exception& error) {
    const core::Error told = described(error, work.info.step);
    if (size() > 1)
      leave_failure(work.unfinished, part_name(group_->rank(), size()), told.what());
    else
      remove_quietly(work.unfinished);
    pending.written.set_exception(std::make_exception_ptr(told));
    return;
  }
  pending.written.set_value();
  if (!is_first()) return;
  try {
    if (put_together(work, pending)) complete(work);
  } catch (const std::exception& error) {
    remove_quietly(work.unfinished);
    throw described(error, work.info.step);
  }
}

/// What one who saves alone writes is whole; parts are put together when all are there.
void Saver::write_share(Work& work) const {
  Values values{.values = std::move(work.snapshot.values), .info = work.info};
  const bool is_part = size() > 1;
  const std::string name = is_part ? part_name(group_->rank(), size()) : "";
  Manifest manifest = write_tensors(work.unfinished, work.snapshot, name, core::Durability::disk);
  manifest.step = work.info.step;
  work.snapshot = {};
  if (is_part)
    return write_part(work.unfinished,
                      {.index = group_->rank(),
                       .count = size(),
                       .attempt = attempt_,
                       .elements = work.elements,
                       .manifest = std::move(manifest),
                       .values = std::move(values)},
                      core::Durability::disk);
  manifest.files[kValuesFile] =
      write_text(work.unfinished / kValuesFile, text_of_values(values), core::Durability::disk);
  write_manifest(work.unfinished, manifest);
}

/// False where parts are missing, and nobody waits for them any longer.
bool Saver::put_together(const Work& work, const Pending& pending) const {
  if (size() == 1) return true;
  const std::optional<std::vector<Part>> parts =
      wait_for_parts(work.unfinished, size(), attempt_, [&] { return pending.is_abandoned.load(); });
  if (!parts) return false;
  Joined joined = join_parts(*parts);
  for (std::int64_t i = 0; i < size(); ++i) fs::remove(work.unfinished / (part_name(i, size()) + ".json"));
  joined.manifest.files[kValuesFile] =
      write_text(work.unfinished / kValuesFile, text_of_values(joined.values), core::Durability::disk);
  write_manifest(work.unfinished, joined.manifest);
  return true;
}

void Saver::complete(const Work& work) const {
  const std::int64_t step = work.info.step;
  const fs::path path = directory_ / step_name(step);
  core::sync_directory(work.unfinished);
  replace_directory(work.unfinished, path);
  core::sync_directory(directory_);
  point_best_at(work.info);
  point_at(directory_ / kLatest, step);
  core::sync_directory(directory_);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - work.begin;
  prune();
  if (on_saved) on_saved(step, path, seconds.count());
}

/// What is best so far is read from the disk, so that it outlives this process.
void Saver::point_best_at(const CheckpointInfo& info) const {
  if (!config_.best) return;
  const auto now = info.metrics.find(config_.best->metric);
  if (now == info.metrics.end() || std::isnan(now->second)) return;
  const std::optional<double> before = metric_of(directory_ / kBest, config_.best->metric);
  const bool better = !before || std::isnan(*before) ||
                      (config_.best->mode == MetricOrder::max ? now->second > *before : now->second < *before);
  if (better) point_at(directory_ / kBest, info.step);
}

void Saver::prune() const {
  const std::vector<std::int64_t> steps = steps_newest_first(directory_);
  const std::optional<std::int64_t> best = linked_step(directory_ / kBest);
  for (std::size_t i = static_cast<std::size_t>(config_.keep_last); i < steps.size(); ++i)
    if (steps[i] != best) remove_directory(directory_ / step_name(steps[i]));
}

}  // namespace trainctl::checkpoint
