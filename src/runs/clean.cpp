#include "runs/clean.h"

#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <optional>
#include <set>
#include <system_error>

#include "core/error.h"
#include "runs/run_entry.h"
#include "runs/run_lock.h"

namespace trainctl::runs {
namespace {

namespace fs = std::filesystem;

bool is_directory_itself(const fs::path& path) {
  std::error_code gone;
  return fs::symlink_status(path, gone).type() == fs::file_type::directory;
}

/// Whether the directory has the file that `train` writes first. Other programs write a summary.json, too.
bool is_described(const fs::path& run) {
  std::error_code unreadable;
  return fs::symlink_status(run / ".config_hash", unreadable).type() == fs::file_type::regular;
}

bool is_step_name(const std::string& name) {
  constexpr std::string_view kPrefix = "step_";
  return name.starts_with(kPrefix) && name.size() > kPrefix.size() &&
         std::all_of(name.begin() + kPrefix.size(), name.end(), [](unsigned char c) { return std::isdigit(c) != 0; });
}

/// Returns the checkpoints' names, which sort by step.
std::vector<std::string> steps_of(const fs::path& checkpoints) {
  std::vector<std::string> steps;
  std::error_code error;
  for (fs::directory_iterator entry(checkpoints, error); !error && entry != fs::directory_iterator();
       entry.increment(error))
    if (is_step_name(entry->path().filename().string()) && is_directory_itself(entry->path()))
      steps.push_back(entry->path().filename().string());
  std::sort(steps.begin(), steps.end());
  return steps;
}

/// Returns the name of the checkpoint that a link of the directory names; "" if there is none.
std::string linked_step(const fs::path& checkpoints, const char* link, const std::vector<std::string>& steps) {
  std::error_code error;
  const std::string name = fs::read_symlink(checkpoints / link, error).filename().string();
  return !error && std::find(steps.begin(), steps.end(), name) != steps.end() ? name : "";
}

/// Returns the names of the checkpoints that stay.
std::set<std::string> kept_steps(const fs::path& checkpoints, const RunEntry& run, KeptCheckpoint kept,
                                 const std::vector<std::string>& steps) {
  const std::string best = linked_step(checkpoints, "best", steps);
  std::string newest = linked_step(checkpoints, "latest", steps);
  if (newest.empty()) newest = steps.back();
  std::set<std::string> names{kept == KeptCheckpoint::best && !best.empty() ? best : newest};
  if (run.state != "finished") names.insert({newest, steps.back()});
  return names;
}

/// Adds the newest sound checkpoint if one that stays is damaged. Returns whether any sound one stays.
bool keep_sound(const fs::path& checkpoints, const std::vector<std::string>& steps, std::set<std::string>& stay,
                const DamageOf& damage_of, std::vector<std::string>& damaged) {
  std::size_t num_damaged = 0;
  for (const std::string& step : stay)
    if (std::string damage = damage_of(checkpoints / step); !damage.empty()) {
      damaged.push_back(std::move(damage));
      ++num_damaged;
    }
  if (num_damaged == 0) return true;
  for (auto step = steps.rbegin(); step != steps.rend(); ++step)
    if (!stay.contains(*step) && damage_of(checkpoints / *step).empty()) {
      stay.insert(*step);
      return true;
    }
  return num_damaged < stay.size();
}

void plan_checkpoints(const RunEntry& run, KeptCheckpoint kept, const DamageOf& damage_of, CleanPlan& plan) {
  const fs::path checkpoints = run.path / "checkpoints";
  if (!is_directory_itself(checkpoints)) return;
  const std::vector<std::string> steps = steps_of(checkpoints);
  if (steps.empty()) return;
  std::set<std::string> stay = kept_steps(checkpoints, run, kept, steps);
  if (stay.size() == steps.size()) return;
  if (!keep_sound(checkpoints, steps, stay, damage_of, plan.damaged)) {
    plan.kept.push_back(checkpoints.string() + ": none of its checkpoints is sound");
    return;
  }
  for (const std::string& step : steps) {
    if (stay.contains(step)) continue;
    std::vector<std::string> unread;
    plan.removals.push_back({.path = checkpoints / step,
                             .run = run.path,
                             .reason = "checkpoint",
                             .bytes = size_of(checkpoints / step, unread)});
  }
}

/// Lets `latest` name a checkpoint that is there, if the one that it named is gone.
void renew_latest(const fs::path& checkpoints) {
  std::error_code error;
  const fs::path link = checkpoints / "latest";
  if (fs::symlink_status(link, error).type() != fs::file_type::symlink || fs::exists(link, error)) return;
  const std::vector<std::string> steps = steps_of(checkpoints);
  if (steps.empty()) return;
  const fs::path made = checkpoints / ("latest.tmp-" + std::to_string(::getpid()));
  fs::create_directory_symlink(steps.back(), made, error);
  if (!error) fs::rename(made, link, error);
}

/// Removes one directory. Returns why it could not; "" if it is gone. Links in it are removed, not followed.
std::string remove(const Removal& removal) {
  const RunLock lock(removal.run);
  if (lock.is_elsewhere()) return removal.run.string() + " stays: a process trains in it now";
  if (!is_directory_itself(removal.path)) return removal.path.string() + " is no directory any more";
  std::error_code error;
  fs::remove_all(removal.path, error);
  if (error) return "cannot remove " + removal.path.string() + ": " + error.message();
  if (removal.path != removal.run) renew_latest(removal.run / "checkpoints");
  return "";
}

}  // namespace

CleanPlan plan_clean(const std::vector<RunEntry>& runs, const CleanRules& rules, const DamageOf& damage_of) {
  CleanPlan plan;
  for (const RunEntry& run : runs) {
    const bool is_failed_start = rules.failed_starts && !run.has_checkpoints &&
                                 (run.state == "no_step" || (run.state == "failed" && run.steps == 0));
    const bool goes = is_failed_start || rules.whole_runs;
    if (run.state == "training") {
      if (rules.whole_runs || rules.failed_starts || rules.checkpoints != KeptCheckpoint::all)
        plan.kept.push_back(run.path.string() + ": a process trains in it");
      continue;
    }
    const bool is_asked = goes || rules.checkpoints != KeptCheckpoint::all;
    if (is_asked && !is_described(run.path)) {
      plan.kept.push_back(run.path.string() + ": it has no .config_hash, which 'trainctl train' writes");
      continue;
    }
    if (goes)
      plan.removals.push_back({.path = run.path,
                               .run = run.path,
                               .reason = is_failed_start ? "ended before its first step" : run.state,
                               .bytes = run.bytes});
    else if (rules.checkpoints != KeptCheckpoint::all)
      plan_checkpoints(run, rules.checkpoints, damage_of, plan);
  }
  return plan;
}

CleanResult clean(const CleanPlan& plan, const fs::path& root) {
  CleanResult result;
  for (const Removal& removal : plan.removals) {
    if (std::string problem = remove(removal); !problem.empty()) {
      result.problems.push_back(std::move(problem));
      continue;
    }
    ++result.num_removed;
    result.bytes += removal.bytes;
    const fs::path parent = removal.path.parent_path();
    std::error_code not_empty;
    if (removal.path == removal.run && !fs::equivalent(parent, root, not_empty)) ::rmdir(parent.c_str());
  }
  return result;
}

}  // namespace trainctl::runs
