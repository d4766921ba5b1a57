#include "folds.h"

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "compare/text_table.h"
#include "core/error.h"
#include "core/file.h"
#include "core/json.h"
#include "core/log.h"
#include "core/stop_signals.h"
#include "core/terminal.h"
#include "core/text.h"
#include "experiment/config_hash.h"
#include "load_plugin.h"
#include "local_ranks.h"
#include "run_experiment.h"
#include "runs/run_directories.h"
#include "wrong_use.h"

namespace trainctl::cli {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

/// A metric of runs that were evaluated on different folds.
struct FoldMetric {
  std::string name;
  std::vector<double> values;  // of each fold; nan where a run has none

  double mean() const {
    double sum = 0;
    for (const double value : values) sum += value;
    return sum / static_cast<double>(values.size());
  }
  /// Returns the sample standard deviation: the divisor is one less than the number of folds.
  double standard_deviation() const {
    const double center = mean();
    double squares = 0;
    for (const double value : values) squares += (value - center) * (value - center);
    return std::sqrt(squares / static_cast<double>(values.size() - 1));
  }
};

/// Returns an empty object if there is no readable summary.
ordered_json summary_of(const fs::path& run) {
  const fs::path path = run / "summary.json";
  if (!fs::exists(path)) return ordered_json::object();
  auto summary = core::parse_json_or_discard<ordered_json>(core::read_file(path));
  return summary.is_object() ? summary : ordered_json::object();
}

/// JSON has no nan.
ordered_json json_of(double value) {
  return std::isfinite(value) ? ordered_json(value) : ordered_json(nullptr);
}

/// Whether the run there came to its end.
bool is_finished_run(const fs::path& run) {
  return core::text_member(summary_of(run), "outcome") == "finished";
}

/// Returns the metrics of the runs' last evaluations, or of their best ones (`final_metrics`, `best_metrics`).
std::vector<FoldMetric> metrics_of_folds(const std::vector<fs::path>& runs, const std::string& kind) {
  std::vector<FoldMetric> metrics;
  std::vector<ordered_json> found;
  for (const fs::path& run : runs) found.push_back(core::object_member(summary_of(run), kind));
  for (const auto& [name, value] : found.front().items()) {
    FoldMetric metric{.name = name, .values = {}};
    for (const ordered_json& one : found)
      metric.values.push_back(core::number_member(one, name).value_or(std::nan("")));
    metrics.push_back(std::move(metric));
  }
  return metrics;
}

ordered_json as_json(const std::vector<FoldMetric>& metrics) {
  auto document = ordered_json::object();
  for (const FoldMetric& metric : metrics) {
    auto values = ordered_json::array();
    for (const double value : metric.values) values.push_back(json_of(value));
    document[metric.name] = {
        {"mean", json_of(metric.mean())}, {"std", json_of(metric.standard_deviation())}, {"values", std::move(values)}};
  }
  return document;
}

/// Rows: mean, standard deviation and each fold's value.
std::string as_table(const std::vector<FoldMetric>& metrics) {
  std::vector<compare::TextRow> rows{{"", "mean", "std"}};
  for (std::size_t fold = 0; fold < metrics.front().values.size(); ++fold)
    rows.front().push_back("fold_" + std::to_string(fold));
  for (const FoldMetric& metric : metrics) {
    compare::TextRow row{metric.name, core::format_digits(metric.mean(), 4),
                         core::format_digits(metric.standard_deviation(), 2)};
    for (const double value : metric.values) row.push_back(core::format_digits(value, 4));
    rows.push_back(std::move(row));
  }
  return compare::align(rows);
}

/// Runs in the child. Only functions that are safe between fork and exec may be called.
[[noreturn]] void become(const std::string& program, const std::vector<char*>& words, const sigset_t& mask,
                         pid_t parent) {
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (::getppid() != parent) ::_exit(core::kExitFailed);
  ::setpgid(0, 0);  // the terminal's Ctrl-C reaches the command once, through the parent
  ::sigprocmask(SIG_SETMASK, &mask, nullptr);
  ::execv(program.c_str(), words.data());
  ::_exit(core::kExitFailed);
}

int wait_for(pid_t child, const sigset_t& signals) {
  int status = 0;
  while (::waitpid(child, &status, WNOHANG) != child) {
    const timespec limit{.tv_sec = 0, .tv_nsec = 50'000'000};
    const int number = ::sigtimedwait(&signals, nullptr, &limit);
    if (number > 0 && number != SIGCHLD) ::kill(child, number);
  }
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

/// Runs this program with `arguments`, on the same terminal, until it ends. Stop signals go on to it. Returns its exit
/// code; 128 + n where signal n ended it.
int run_command(const std::vector<std::string>& arguments) {
  std::vector<std::string> texts{"trainctl"};
  texts.insert(texts.end(), arguments.begin(), arguments.end());
  std::vector<char*> words;
  for (std::string& text : texts) words.push_back(text.data());
  words.push_back(nullptr);
  const std::string program = fs::read_symlink("/proc/self/exe").string();
  sigset_t signals;
  sigemptyset(&signals);
  for (const int number : core::kStopSignals) sigaddset(&signals, number);
  sigaddset(&signals, SIGCHLD);
  sigset_t before;
  ::sigprocmask(SIG_BLOCK, &signals, &before);  // sigtimedwait takes them one by one
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child == 0) become(program, words, before, parent);
  if (child < 0) throw core::system_error("start", "trainctl " + arguments.front());
  const int code = wait_for(child, signals);
  ::sigprocmask(SIG_SETMASK, &before, nullptr);
  return code;
}

constexpr const char* kRecordName = "folds.json";

/// What the parent of the runs records of them.
struct FoldsRecord {
  std::int64_t num_folds = 0;
  std::string config;  // checksum of the experiment
  bool is_finished = false;
};

/// Returns none if there is no record. Throws core::Error if the record can't be read.
std::optional<FoldsRecord> read_record(const fs::path& parent) {
  if (!fs::exists(parent / kRecordName)) return std::nullopt;
  const auto json = core::parse_json_or_discard<ordered_json>(core::read_file(parent / kRecordName));
  const std::optional<double> num_folds = core::number_member(json, "folds");
  const std::string config = core::text_member(json, "config");
  if (!num_folds || config.empty())
    throw core::Error((parent / kRecordName).string() + " is damaged: the number of folds or their config is missing")
        .hint("choose another --run-dir, or remove " + parent.string());
  return FoldsRecord{.num_folds = static_cast<std::int64_t>(*num_folds),
                     .config = config,
                     .is_finished = core::text_member(json, "outcome") == "finished"};
}

ordered_json as_json(const FoldsRecord& record, const std::vector<fs::path>& runs) {
  ordered_json document = {{"outcome", record.is_finished ? "finished" : "unfinished"},
                           {"folds", record.num_folds},
                           {"config", record.config},
                           {"runs", ordered_json::array()}};
  for (const fs::path& run : runs) document["runs"].push_back(run.string());
  return document;
}

/// Returns the newest unfinished folds of the same experiment. Warns of folds whose record can't be read.
std::optional<fs::path> unfinished_parent(const std::string& name, const FoldsRecord& wanted) {
  std::vector<fs::path> found;
  if (!fs::is_directory(runs::directory_of(name))) return std::nullopt;
  for (const fs::directory_entry& entry : fs::directory_iterator(runs::directory_of(name))) {
    try {
      const std::optional<FoldsRecord> record = read_record(entry.path());
      if (record && record->config == wanted.config && !record->is_finished) found.push_back(entry.path());
    } catch (const core::Error& error) {
      core::log().warning(std::string(error.what()) + "; these folds are passed over");
    }
  }
  if (found.empty()) return std::nullopt;
  return *std::max_element(found.begin(), found.end());  // names sort by time
}

fs::path directory_of_fold(const fs::path& parent, std::int64_t fold) {
  return parent / ("fold_" + std::to_string(fold));
}

fs::path choose_parent(const FoldsOptions& options, const std::string& name, const FoldsRecord& wanted) {
  const bool starts_anew = options.train.resume == "never";
  if (!starts_anew && options.train.resume != "auto")
    throw wrong_use("--resume", "names the checkpoint of one run; expected auto or never with --folds");
  if (options.run.run_dir.empty()) {
    if (const auto parent = starts_anew ? std::nullopt : unfinished_parent(name, wanted)) return *parent;
    return runs::make_run_directory(name, "-" + std::to_string(wanted.num_folds) + "_folds");
  }
  fs::path parent = options.run.run_dir;
  const std::optional<FoldsRecord> record = read_record(parent);
  if (record && (starts_anew || record->config != wanted.config))
    throw core::Error(parent.string() + " holds the folds of another experiment, or of an earlier start")
        .hint("choose another --run-dir");
  // Without the record, nothing says of which experiment and of how many folds these runs are.
  for (std::int64_t fold = 0; !record && fold < wanted.num_folds; ++fold)
    if (fs::exists(directory_of_fold(parent, fold)))
      throw core::Error(directory_of_fold(parent, fold).string() + " is there, but " + kRecordName +
                        ", which describes the folds, is missing")
          .hint("choose another --run-dir");
  fs::create_directories(parent);
  return parent;
}

std::vector<std::string> sets_of_fold(const FoldsOptions& options, std::int64_t fold) {
  std::vector<std::string> sets = options.experiment.sets;
  sets.push_back("dataset.fold.count=" + std::to_string(options.num_folds));
  sets.push_back("dataset.fold.index=" + std::to_string(fold));
  return sets;
}

std::vector<std::string> command_of_fold(const FoldsOptions& options, std::int64_t fold, const fs::path& run) {
  std::vector<std::string> words{"train", options.experiment.config, "--run-dir", run.string()};
  for (const std::string& assignment : sets_of_fold(options, fold)) words.insert(words.end(), {"--set", assignment});
  words.insert(words.end(), {"--log-level", options.run.log_level});
  if (options.run.no_progress) words.emplace_back("--no-progress");
  if (options.num_ranks > 1) words.insert(words.end(), {"--nproc", std::to_string(options.num_ranks)});
  return words;
}

/// Refuses a run that is not the fold's: another command may have trained in its directory.
void refuse_other_run(const FoldsOptions& options, std::int64_t fold, const fs::path& run) {
  if (!fs::exists(run / experiment::kConfigHashFile) && !is_finished_run(run)) return;
  const experiment::LoadedExperiment loaded =
      experiment::load_experiment(options.experiment.config, sets_of_fold(options, fold), load_plugin);
  if (experiment::is_run_of(run, loaded.flat)) return;
  throw core::Error(run.string() + " holds a run of another experiment, which is not fold " + std::to_string(fold))
      .hint("choose another --run-dir, or remove " + run.string());
}

/// Returns the fingerprint of the samples that a fold's run divides; "" if the run doesn't record one.
std::string undivided_fingerprint(const fs::path& run) {
  const fs::path path = run / "provenance.json";
  if (!fs::exists(path)) return "";
  return core::text_member(core::parse_json_or_discard<ordered_json>(core::read_file(path)), "undivided_fingerprint");
}

/// Refuses folds of data that have changed: they divide no common set, and may share samples.
void refuse_changed_data(const fs::path& first, const fs::path& run) {
  const std::string before = undivided_fingerprint(first);
  const std::string now = undivided_fingerprint(run);
  if (before.empty() || now.empty() || before == now) return;
  throw core::Error(run.string() + " divides other samples than " + first.string() +
                    ": the data changed between the folds")
      .hint("train them anew: choose another --run-dir, or --resume never");
}

void tell(const FoldsOptions& options, const std::string& line) {
  if (options.run.log_level != "warning") core::log().info(line);
}

/// Trains the runs that are not finished. Returns 0, or the exit code of the first that does not end well.
int train_all(const FoldsOptions& options, const std::vector<fs::path>& runs) {
  const std::string of_all = " of " + std::to_string(runs.size());
  for (std::size_t fold = 0; fold < runs.size(); ++fold) {
    const std::string name = "fold " + std::to_string(fold + 1) + of_all;
    refuse_other_run(options, static_cast<std::int64_t>(fold), runs[fold]);
    if (is_finished_run(runs[fold])) {
      tell(options, name + ": " + runs[fold].string() + " has finished already");
    } else {
      tell(options, name + ": training " + runs[fold].string());
      const int code = run_command(command_of_fold(options, static_cast<std::int64_t>(fold), runs[fold]));
      if (code != core::kExitDone) {
        tell(options, name + (code > 128 ? " was stopped" : " failed") + "; the same command goes on with it");
        return code;
      }
    }
    refuse_changed_data(runs.front(), runs[fold]);
  }
  return core::kExitDone;
}

/// Whether the file keeps a share of the training samples for evaluation, and --set doesn't insist on one.
bool keeps_share_for_evaluation(const FoldsOptions& options) {
  const bool insists = std::any_of(options.experiment.sets.begin(), options.experiment.sets.end(),
                                   [](const std::string& set) { return set.starts_with("dataset.eval_fraction"); });
  if (insists) return false;
  try {
    experiment::load_experiment(options.experiment.config, sets_of_fold(options, 0), load_plugin);
    return false;
  } catch (const core::ConfigError&) {  // the folds beside the share, or another problem
  }
  std::vector<std::string> without_share = sets_of_fold(options, 0);
  without_share.emplace_back("dataset.eval_fraction=0");
  try {
    experiment::load_experiment(options.experiment.config, without_share, load_plugin);
    return true;
  } catch (const core::ConfigError&) {
    return false;  // and train_folds() tells the problems
  }
}

}  // namespace

int train_folds(FoldsOptions options) {
  refuse_other_launcher("--folds");
  if (keeps_share_for_evaluation(options)) {
    options.experiment.sets.emplace_back("dataset.eval_fraction=0");
    tell(options, "the folds take the place of dataset.eval_fraction");
  }
  const experiment::LoadedExperiment loaded =
      experiment::load_experiment(options.experiment.config, sets_of_fold(options, 0), load_plugin);
  if (!train::evaluates_at_end(loaded.experiment.train))
    throw wrong_use("--folds", "train.eval_every is 0, so that no fold is evaluated; leave it out");
  FoldsRecord record{.num_folds = options.num_folds, .config = core::checksum(loaded.resolved_yaml)};
  const fs::path parent = choose_parent(options, loaded.experiment.name, record);
  std::vector<fs::path> runs;
  for (std::int64_t fold = 0; fold < options.num_folds; ++fold) runs.push_back(directory_of_fold(parent, fold));
  core::write_file_atomically(parent / kRecordName, core::indented_json(as_json(record, runs)) + "\n");
  if (const int code = train_all(options, runs); code != core::kExitDone) return code;

  record.is_finished = true;
  ordered_json document = as_json(record, runs);
  const std::vector<FoldMetric> last = metrics_of_folds(runs, "final_metrics");
  document["final_metrics"] = as_json(last);
  if (loaded.experiment.checkpoint.best) document["best_metrics"] = as_json(metrics_of_folds(runs, "best_metrics"));
  core::write_file_atomically(parent / kRecordName, core::indented_json(document) + "\n");
  if (options.run.json)
    std::printf("%s\n", core::indented_json(document).c_str());
  else if (!last.empty())
    core::print(stdout, "%lld folds in %s, last evaluation of each:\n%s", static_cast<long long>(options.num_folds),
                parent.c_str(), as_table(last).c_str());
  return core::kExitDone;
}

}  // namespace trainctl::cli
