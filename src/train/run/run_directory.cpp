#include "train/run/run_directory.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <nlohmann/json.hpp>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "checkpoint/node_snapshots.h"
#include "core/error.h"
#include "core/file.h"
#include "core/json.h"
#include "experiment/config_hash.h"
#include "runs/run_directories.h"
#include "train/run/restore.h"

namespace trainctl::train {
namespace {

namespace fs = std::filesystem;

int open_lock(const fs::path& directory) {
  return ::open((directory / checkpoint::kRunLock).c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0644);
}

/// Gives a new run an id. A run without one is told by its directory alone.
void write_id(int descriptor) {
  struct stat status {};
  if (::fstat(descriptor, &status) != 0 || status.st_size > 0) return;
  std::random_device random;
  const std::string id = std::to_string(random()) + "-" + std::to_string(random());
  [[maybe_unused]] const ssize_t written = ::write(descriptor, id.data(), id.size());
}

/// Returns the run directories of this name, newest first (their names sort by time).
std::vector<fs::path> runs_newest_first(const std::string& name) {
  std::vector<fs::path> found;
  if (!fs::is_directory(runs::directory_of(name))) return found;
  for (const fs::directory_entry& entry : fs::directory_iterator(runs::directory_of(name)))
    if (entry.is_directory()) found.push_back(entry.path());
  std::sort(found.rbegin(), found.rend());
  return found;
}

RunDirectory fresh(const std::string& name, std::vector<tracking::Notice> notices = {}) {
  fs::path path = runs::make_run_directory(name);
  DirectoryLock lock(path);
  return {std::move(path), std::nullopt, std::move(notices), std::move(lock)};
}

struct Newest {
  std::optional<checkpoint::Found> found;
  std::vector<tracking::Notice> notices;
};

/// Returns the newest complete checkpoint, and notices of the incomplete ones. Its tensors are checked when they are
/// read.
Newest newest_of(const fs::path& directory) {
  std::vector<std::string> passed_over;
  Newest newest;
  if (std::vector<checkpoint::Found> complete = checkpoint::find_complete(directory, &passed_over); !complete.empty())
    newest.found = complete.front();
  for (const std::string& reason : passed_over)
    newest.notices.push_back({tracking::Level::warning, "a checkpoint is passed over: " + reason});
  if (newest.found) newest.notices.push_back({tracking::Level::info, "resuming " + newest.found->path.string()});
  return newest;
}

/// An unfinished run that no process trains, with a checkpoint to resume.
struct Unfinished {
  fs::path path;
  Newest checkpoint;
};

/// Returns the newest such run with this run's config, or with another.
std::optional<Unfinished> find_unfinished(const RunDirectoryRequest& request, bool same_config) {
  for (const fs::path& run : runs_newest_first(request.name)) {
    const std::string hash =
        fs::exists(run / experiment::kConfigHashFile) ? core::read_file(run / experiment::kConfigHashFile) : "";
    if ((hash == request.config_hash) != same_config || is_finished(run) || DirectoryLock::is_held(run)) continue;
    Newest checkpoint = newest_of(run);
    const bool has_more =
        request.snapshot && checkpoint::has_snapshots(checkpoint::snapshot_directory(*request.snapshot, run));
    if (checkpoint.found || has_more) return Unfinished{run, std::move(checkpoint)};
  }
  return std::nullopt;
}

RunDirectory resume_unfinished_or_start(const RunDirectoryRequest& request) {
  std::optional<Unfinished> unfinished = find_unfinished(request, /*same_config=*/true);
  if (!unfinished) {
    const std::optional<Unfinished> other = find_unfinished(request, /*same_config=*/false);
    if (!other) return fresh(request.name);
    return fresh(request.name,
                 {{tracking::Level::info, other->path.string() + " is unfinished, but its config differs; --resume " +
                                              other->path.string() + " goes on with it"}});
  }
  DirectoryLock lock(unfinished->path);
  Newest& checkpoint = unfinished->checkpoint;
  if (!checkpoint.found) return {unfinished->path, std::nullopt, std::move(checkpoint.notices), std::move(lock)};
  checkpoint.notices.back().text += "; --resume never starts anew";
  return {unfinished->path, checkpoint.found->path, std::move(checkpoint.notices), std::move(lock)};
}

RunDirectory in_named_directory(const RunDirectoryRequest& request) {
  const fs::path path = request.run_dir;
  fs::create_directories(path);
  DirectoryLock lock(path);
  Newest newest = newest_of(path);
  if (!newest.found) return {path, std::nullopt, std::move(newest.notices), std::move(lock)};
  if (request.resume == "never")
    throw core::Error(path.string() + " holds checkpoints of another run")
        .hint("choose another --run-dir, or leave out --resume never to go on with it");
  return {path, newest.found->path, std::move(newest.notices), std::move(lock)};
}

/// Returns …/<run> of …/<run>/checkpoints/step_N; "" elsewhere.
fs::path run_of_step(const fs::path& step_directory) {
  const fs::path checkpoints = fs::absolute(step_directory).parent_path();
  return checkpoints.filename() == "checkpoints" ? checkpoints.parent_path() : fs::path();
}

bool names_a_checkpoint(const std::string& resume) {
  return resume != "auto" && resume != "never";
}

/// Returns the directory in which this job began, if it was started before.
std::optional<fs::path> directory_of_job(const RunDirectoryRequest& request) {
  if (request.launchers.empty()) return std::nullopt;
  std::vector<fs::path> candidates;
  if (!request.run_dir.empty()) {
    candidates = {request.run_dir};
  } else {
    candidates = runs_newest_first(request.name);
    if (names_a_checkpoint(request.resume) && fs::exists(request.resume))
      candidates.push_back(run_of_step(step_directory_of(request.resume)));
  }
  for (const fs::path& candidate : candidates)
    if (const std::optional<LaunchRecord> job = read_launch_record(candidate); job && goes_on(*job, request.launchers))
      return candidate;
  return std::nullopt;
}

RunDirectory go_on(const fs::path& directory, const RunDirectoryRequest& request) {
  DirectoryLock lock(directory, request.patience);
  const LaunchRecord job = read_launch_record(directory).value_or(LaunchRecord{});
  Newest newest = newest_of(directory);
  if (!job.resumed_from.empty() && (!newest.found || !is_of(job, newest.found->path)))
    return {
        directory, job.resumed_from, {{tracking::Level::info, "resuming " + job.resumed_from}}, std::move(lock), job};
  if (!newest.found)
    newest.notices.push_back(
        {tracking::Level::info, "the job was started again before its first checkpoint: it begins anew"});
  return {directory, newest.found ? std::optional(newest.found->path) : std::nullopt, std::move(newest.notices),
          std::move(lock), job};
}

/// Locks the file; tries again until the deadline while another process has it.
bool lock_within(int descriptor, std::chrono::milliseconds patience) {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  while (::flock(descriptor, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK || std::chrono::steady_clock::now() >= deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return true;
}

}  // namespace

bool is_finished(const fs::path& directory) {
  const fs::path summary = directory / "summary.json";
  if (!fs::exists(summary)) return false;
  return core::text_member(core::parse_json_or_discard(core::read_file(summary)), "outcome") == "finished";
}

DirectoryLock::DirectoryLock(const fs::path& directory, std::chrono::milliseconds patience)
    : path_(directory / checkpoint::kRunLock) {
  fs::create_directories(directory);
  descriptor_ = open_lock(directory);
  if (descriptor_ < 0) throw core::system_error("open", path_.string());
  if (lock_within(descriptor_, patience)) {
    write_id(descriptor_);
    return;
  }
  const bool held = errno == EWOULDBLOCK;
  ::close(descriptor_);
  if (held)
    throw core::Error("another process is running in " + directory.string())
        .hint("wait for it, or choose another --run-dir");
  throw core::Error("cannot lock " + directory.string());
}

DirectoryLock::DirectoryLock(DirectoryLock&& other) noexcept
    : path_(std::move(other.path_)), descriptor_(std::exchange(other.descriptor_, -1)) {}

DirectoryLock::~DirectoryLock() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

bool DirectoryLock::is_held(const fs::path& directory) {
  const int descriptor = open_lock(directory);
  if (descriptor < 0) return false;
  const bool held = ::flock(descriptor, LOCK_EX | LOCK_NB) != 0;
  ::close(descriptor);
  return held;
}

bool DirectoryLock::is_lost() const {
  return !core::names_open_file(path_, descriptor_);
}

RunDirectory choose_run_directory(const RunDirectoryRequest& request) {
  if (const std::optional<fs::path> own = directory_of_job(request)) return go_on(*own, request);
  if (!names_a_checkpoint(request.resume)) {
    if (!request.run_dir.empty()) return in_named_directory(request);
    return request.resume == "auto" ? resume_unfinished_or_start(request) : fresh(request.name);
  }
  const fs::path step = step_directory_of(request.resume);
  fs::path path = !request.run_dir.empty() ? fs::path(request.run_dir) : run_of_step(step);
  if (path.empty()) path = runs::make_run_directory(request.name);
  DirectoryLock lock(path);
  return {std::move(path), step, {{tracking::Level::info, "resuming " + step.string()}}, std::move(lock)};
}

void describe_run_directory(const fs::path& directory, const std::string& resolved_yaml,
                            const std::string& config_hash) {
  core::write_file_atomically(directory / "config.yaml", resolved_yaml);
  core::write_file_atomically(directory / experiment::kConfigHashFile, config_hash);
}

bool is_described(const fs::path& directory) {
  std::error_code ignored;
  return fs::exists(directory / "config.yaml", ignored) && fs::exists(directory / experiment::kConfigHashFile, ignored);
}

}  // namespace trainctl::train
