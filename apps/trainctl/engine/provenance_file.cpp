#include "provenance_file.h"

#include <torch/headeronly/version.h>
#include <unistd.h>

#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>

#include "config/flatten.h"
#include "core/error.h"
#include "core/file.h"
#include "core/json.h"
#include "core/log.h"
#include "core/version.h"
#include "machine/cpu.h"
#include "machine/limits.h"
#include "runtime/device.h"
#include "tracking/tracking.h"

namespace trainctl::engine {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

/// Returns the words of the command line.
std::vector<std::string> own_command() {
  std::istringstream text(core::read_file("/proc/self/cmdline"));
  std::vector<std::string> words;
  for (std::string word; std::getline(text, word, '\0');) words.push_back(word);
  return words;
}

std::string host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

std::string first_line(const fs::path& path) {
  std::error_code unreadable;
  if (!fs::is_regular_file(path, unreadable)) return "";
  const std::string text = core::read_file(path);
  return text.substr(0, text.find('\n'));
}

/// Returns the commit of a branch: from a file of its own, or from the list of packed ones.
std::string commit_of_reference(const fs::path& git, const std::string& reference) {
  if (const std::string commit = first_line(git / reference); !commit.empty()) return commit;
  std::error_code unreadable;
  if (!fs::is_regular_file(git / "packed-refs", unreadable)) return "";
  std::istringstream packed(core::read_file(git / "packed-refs"));
  for (std::string line; std::getline(packed, line);)
    if (line.ends_with(" " + reference)) return line.substr(0, line.find(' '));
  return "";
}

/// Returns the directory of the repository's files: .git, or what the file .git of a work tree names.
fs::path git_directory(const fs::path& top) {
  constexpr std::string_view kPrefix = "gitdir: ";
  const std::string line = first_line(top / ".git");
  return line.starts_with(kPrefix) ? top / line.substr(kPrefix.size()) : top / ".git";
}

/// Returns null for a run that is to use the CPU, which loads no CUDA library.
Json num_gpus(const runtime::DeviceConfig& config) {
  return config.kind == runtime::DeviceKind::cpu ? Json() : Json(runtime::num_gpus());
}

Json document_of(const train::Run& run, const experiment::LoadedExperiment& loaded) {
  const fs::path directory = fs::current_path();
  Json document{{"name", run.experiment.name},
                {"started", std::round(tracking::unix_now() * 1e3) / 1e3},
                {"first_step", run.step},
                {"command", own_command()},
                {"directory", directory.string()},
                {"host", host_name()},
                {"trainctl", std::string(core::kVersion)},
                {"libtorch", TORCH_VERSION},
                {"cpu", machine::cpu_name()},
                {"cores", runtime::available_cores()},
                {"memory_bytes", machine::usable_memory()},
                {"device", runtime::describe(run.device)},
                {"num_gpus", num_gpus(run.experiment.device)},
                {"ranks", run.mesh->world().size()},
                {"seed", run.experiment.seed},
                {"num_parameters", run.num_parameters},
                {"num_samples", run.data.train->num_samples()},
                {"num_eval_samples", run.data.eval ? Json(run.data.eval->num_samples()) : Json(nullptr)},
                {"samples_per_step", run.global_batch},
                {"total_steps", run.length.total_steps},
                {"steps_per_epoch", run.length.steps_per_epoch}};
  if (const auto& best = run.experiment.checkpoint.best) {
    document["best_metric"] = best->metric;
    document["best_mode"] = best->mode == checkpoint::MetricOrder::max ? "max" : "min";
  }
  if (!run.data.undivided_fingerprint.empty()) document["undivided_fingerprint"] = run.data.undivided_fingerprint;
  const GitCommit git = git_commit_of(directory);
  if (!git.commit.empty()) document["git"] = {{"commit", git.commit}, {"branch", git.branch}};
  document["origins"] = config::origins_of(loaded.node);
  return document;
}

}  // namespace

GitCommit git_commit_of(fs::path directory) {
  constexpr std::string_view kReference = "ref: ";
  constexpr std::string_view kBranches = "refs/heads/";
  try {
    for (; !fs::exists(directory / ".git"); directory = directory.parent_path())
      if (directory == directory.parent_path()) return {};
    const fs::path git = git_directory(directory);
    const std::string head = first_line(git / "HEAD");
    if (!head.starts_with(kReference)) return {.commit = head, .branch = ""};
    const std::string reference = head.substr(kReference.size());
    const std::string common = first_line(git / "commondir");
    std::string commit = commit_of_reference(git, reference);
    if (commit.empty() && !common.empty()) commit = commit_of_reference(git / common, reference);
    return {.commit = commit,
            .branch = reference.starts_with(kBranches) ? reference.substr(kBranches.size()) : reference};
  } catch (const std::exception&) {  // a repository that can't be read is as good as none
    return {};
  }
}

void write_provenance(const fs::path& run_directory, const train::Run& run,
                      const experiment::LoadedExperiment& loaded) {
  try {
    core::write_file_atomically(run_directory / "provenance.json",
                                core::indented_json(document_of(run, loaded)) + "\n");
  } catch (const std::exception& error) {  // the run does not need it
    core::log().warning(std::string("the start is not described: ") + core::as_error(error).what());
  }
}

}  // namespace trainctl::engine
