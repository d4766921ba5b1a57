#include "runs/runs.h"

#include <cstdio>
#include <ctime>
#include <memory>
#include <optional>

#include "command.h"
#include "compare/text_table.h"
#include "core/error.h"
#include "core/log.h"
#include "core/terminal.h"
#include "core/text.h"
#include "engine_call.h"
#include "number_option.h"
#include "runs/clean.h"
#include "wrong_use.h"

namespace trainctl::cli {
namespace {

namespace fs = std::filesystem;

struct RunsOptions {
  std::string directory = "runs";
  runs::RunFilter filter;
  std::string sort = "newest";
  bool json = false;
};

struct CleanOptions {
  RunsOptions select;
  bool failed_starts = false;
  bool whole_runs = false;
  std::string checkpoints;  // best, newest; empty: all stay
  std::optional<double> older_than_days;
  bool yes = false;
};

/// Adds the directory and the filters.
void add_selection(CLI::App& app, RunsOptions& options) {
  app.add_option("DIR", options.directory, "Directory with runs, at any depth")->capture_default_str();
  app.add_option("--name", options.filter.names, "Names of experiments; * and ? stand for any letters")
      ->type_name("NAME,…")
      ->delimiter(',')
      ->allow_extra_args(false);
  app.add_option("--state", options.filter.states, "States: " + core::list_words(runs::run_states()))
      ->type_name("STATE,…")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(CLI::IsMember(runs::run_states()));
}

/// Returns the runs that pass the filter, sorted.
runs::RunList selected(const RunsOptions& options) {
  runs::RunList list = runs::list_runs(options.directory);
  std::erase_if(list.runs, [&](const runs::RunEntry& run) { return !runs::passes(run, options.filter); });
  runs::sort_runs(list.runs, options.sort);
  return list;
}

void warn(const std::vector<std::string>& problems) {
  constexpr std::size_t kMost = 10;
  for (std::size_t i = 0; i < std::min(problems.size(), kMost); ++i) core::log().warning(problems[i]);
  if (problems.size() > kMost)
    core::log().warning("and " + core::format_count(problems.size() - kMost) + " more of these");
}

std::string local_time(double unix_seconds) {
  if (unix_seconds <= 0) return "–";
  const auto seconds = static_cast<std::time_t>(unix_seconds);
  std::tm local{};
  localtime_r(&seconds, &local);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%d %H:%M", &local);
  return text;
}

std::string steps_text(const runs::RunEntry& run) {
  const bool is_short = run.total_steps && *run.total_steps != run.steps;
  return core::format_count(run.steps) + (is_short ? " of " + core::format_count(*run.total_steps) : "");
}

void print_table(const std::vector<runs::RunEntry>& list) {
  std::vector<compare::TextRow> rows{{"run", "name", "started", "state", "steps", "best", "time", "size"}};
  std::uint64_t bytes = 0;
  for (const runs::RunEntry& run : list) {
    bytes += run.bytes;
    rows.push_back({run.path.string(), run.name, local_time(run.started), run.state, steps_text(run),
                    run.best ? run.best->name + " " + core::format_metric(run.best->value) : "–",
                    run.wall_s ? core::format_duration(*run.wall_s) : "–",
                    core::format_bytes(static_cast<double>(run.bytes))});
  }
  core::print(stdout, "%s%s %s, %s\n", compare::align(rows).c_str(), core::format_count(list.size()).c_str(),
              list.size() == 1 ? "run" : "runs", core::format_bytes(static_cast<double>(bytes)).c_str());
}

int list(const RunsOptions& options) {
  const runs::RunList list = selected(options);
  if (options.json) {
    std::printf("%s\n", runs::format_json(list).c_str());
    return core::kExitDone;
  }
  warn(list.problems);
  if (list.runs.empty())
    core::print(stdout, "no run in %s%s\n", options.directory.c_str(),
                options.filter.names.empty() && options.filter.states.empty() ? "" : " passes the filter");
  else
    print_table(list.runs);
  return core::kExitDone;
}

/// Reads a checkpoint by the engine, which knows what is in one. Returns what is damaged in it.
std::string damage_of(const fs::path& step_directory) {
  std::vector<std::string> damaged;
  EngineCall call{.command = VerifyCheckpointOptions{.damaged = &damaged}};
  call.checkpoint = step_directory.string();
  try {
    call_engine(call);
  } catch (const core::Error& error) {
    return error.what();  // no checkpoint at all
  }
  return damaged.empty() ? "" : damaged.front();
}

runs::CleanRules rules_of(const CleanOptions& options) {
  const bool filters =
      options.older_than_days || !options.select.filter.names.empty() || !options.select.filter.states.empty();
  if (!options.failed_starts && !options.whole_runs && options.checkpoints.empty())
    throw wrong_use("clean", "says nothing to remove; expected --failed-starts, --checkpoints or --whole-runs");
  if (options.whole_runs && !filters)
    throw wrong_use("--whole-runs",
                    "removes every run without a filter; expected --older-than, --state or --name beside it");
  return {.failed_starts = options.failed_starts,
          .whole_runs = options.whole_runs,
          .checkpoints = options.checkpoints.empty()     ? runs::KeptCheckpoint::all
                         : options.checkpoints == "best" ? runs::KeptCheckpoint::best
                                                         : runs::KeptCheckpoint::newest};
}

int clean(CleanOptions options) {
  const runs::CleanRules rules = rules_of(options);
  if (options.older_than_days)
    options.select.filter.started_before = static_cast<double>(std::time(nullptr)) - 86400 * *options.older_than_days;
  const runs::RunList list = selected(options.select);
  warn(list.problems);
  const runs::CleanPlan plan = runs::plan_clean(list.runs, rules, damage_of);
  std::uint64_t bytes = 0;
  for (const runs::Removal& removal : plan.removals) {
    bytes += removal.bytes;
    core::print(stdout, "%s %s (%s, %s)\n", options.yes ? "removes" : "would remove", removal.path.c_str(),
                removal.reason.c_str(), core::format_bytes(static_cast<double>(removal.bytes)).c_str());
  }
  warn(plan.damaged);
  const int done = plan.damaged.empty() ? core::kExitDone : core::kExitFailed;
  for (const std::string& kept : plan.kept) core::print(stdout, "keeps %s\n", kept.c_str());
  const std::string directories = plan.removals.size() == 1 ? " directory, " : " directories, ";
  if (plan.removals.empty() || !options.yes) {
    core::print(stdout, "%s%s%s%s\n", core::format_count(plan.removals.size()).c_str(), directories.c_str(),
                core::format_bytes(static_cast<double>(bytes)).c_str(),
                plan.removals.empty() ? "" : "; nothing is removed yet, --yes removes them");
    return done;
  }
  std::fflush(stdout);
  const runs::CleanResult result = runs::clean(plan, options.select.directory);
  warn(result.problems);
  core::print(stdout, "removed %s%s%s\n", core::format_count(result.num_removed).c_str(),
              result.num_removed == 1 ? " directory, " : " directories, ",
              core::format_bytes(static_cast<double>(result.bytes)).c_str());
  return result.problems.empty() ? done : core::kExitFailed;
}

using Chosen = std::shared_ptr<Action>;

void add_clean(CLI::App& app, const Chosen& chosen) {
  CLI::App* command =
      app.add_subcommand("clean", "remove runs or checkpoints by a rule; without --yes it only shows them");
  const auto options = std::make_shared<CleanOptions>();
  add_selection(*command, options->select);
  command->add_option("--older-than", options->older_than_days, "Only runs that started more than so many days ago")
      ->type_name("DAYS")
      ->check(finite_number(0, 1e6));
  command->add_flag("--failed-starts", options->failed_starts, "Remove runs that ended before their first step");
  command
      ->add_option("--checkpoints", options->checkpoints,
                   "Remove all checkpoints but this one; a run that has not finished keeps its newest one, too")
      ->type_name("best|newest")
      ->check(CLI::IsMember({"best", "newest"}));
  command->add_flag("--whole-runs", options->whole_runs, "Remove the runs with all their files; needs a filter");
  command->add_flag("--yes", options->yes, "Remove what is shown");
  command->final_callback([options, chosen] { *chosen = [options] { return clean(*options); }; });
}

}  // namespace

Action declare_runs(CLI::App& app) {
  const auto options = std::make_shared<RunsOptions>();
  add_selection(app, *options);
  app.add_option("--sort", options->sort, "Order of the runs")
      ->check(CLI::IsMember(runs::sort_keys()))
      ->capture_default_str();
  app.add_flag("--json", options->json, "One JSON document on standard output");
  const auto chosen = std::make_shared<Action>([options] { return list(*options); });
  add_clean(app, chosen);
  return [chosen] { return (*chosen)(); };
}

}  // namespace trainctl::cli
