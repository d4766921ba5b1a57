#include "ranks.h"

#include <fcntl.h>
#include <torch/headeronly/version.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <map>
#include <string>

#include "core/error.h"
#include "core/file.h"
#include "core/local_ranks.h"
#include "core/stop_signals.h"
#include "core/version.h"
#include "machine/build_id.h"
#include "runtime/device.h"

namespace trainctl::engine {
namespace {

std::string full_text(const std::exception& error) {
  const auto* wrong_config = dynamic_cast<const core::ConfigError*>(&error);
  return wrong_config == nullptr ? core::as_error(error).text() : wrong_config->what();
}

void write_to(int descriptor, const std::string& text) {
  // The process is about to end: nothing is left to do where this fails.
  if (::write(descriptor, text.data(), text.size()) < 0) return;
}

/// Moves a rank's early output to its log. --nproc's parent keeps that output in memory until there is a log.
void flush_early_output(int log, const std::string& path) {
  if (!comm::process_environment(core::kParentVariable)) return;
  char buffer[4096];
  ssize_t size = 0;
  for (off_t at = 0; (size = ::pread(STDERR_FILENO, buffer, sizeof buffer, at)) > 0; at += size)
    if (::write(log, buffer, static_cast<std::size_t>(size)) != size) return;
  if (::ftruncate(STDERR_FILENO, 0) == 0) write_to(STDERR_FILENO, "  its log: " + path + "\n");
}

}  // namespace

std::chrono::milliseconds timeout_of(const distributed::DistributedConfig& config) {
  return std::chrono::milliseconds(static_cast<std::int64_t>(config.timeout_s * 1000));
}

std::unique_ptr<comm::World> join_ranks(const experiment::Experiment& experiment) {
  const distributed::DistributedConfig& config = experiment.distributed;
  const distributed::DistributedTraits& traits = config::traits_of(config.how);
  if (traits.layout == distributed::Layout::alone) return nullptr;
  const std::optional<comm::Launch> launch = comm::read_launch(comm::process_environment);
  if (!launch) return nullptr;
  if (traits.ranks_are_threads && launch->world_size > 1)
    throw core::Error("distributed.kind is " + std::string(config.how.kind()) +
                      ", whose replicas are threads of one process, but " + launch->launcher + " started " +
                      std::to_string(launch->world_size))
        .hint("start one process, or set distributed.kind: ddp");
  comm::die_with_launcher(*launch);
  runtime::install_host_allocator(experiment.device);
  comm::WorldOptions options;
  options.launch = *launch;
  options.device = runtime::open_device(experiment.device, {launch->local_rank, launch->local_world_size});
  options.backend = config.backend;
  options.timeout = timeout_of(config);
  options.interface = config.network_interface;
  return comm::join(options);
}

void check_same_job(comm::World& world, const experiment::LoadedExperiment& loaded) {
  std::map<std::string, std::string> values = loaded.flat;
  values["version"] = std::string(core::kVersion) + ", LibTorch " TORCH_VERSION;
  values["build"] = machine::build_id();
  world.check_consistent(values);
}

bool is_first(const comm::World* world) {
  return world == nullptr || world->launch().rank == 0;
}

train::RankContext rank_context(comm::World* world) {
  if (world == nullptr) return {};
  return {.group = &world->group(),
          .local_rank = world->launch().local_rank,
          .local_world_size = world->launch().local_world_size};
}

RankLog::RankLog(const std::filesystem::path& run_directory, std::int64_t rank) {
  const std::filesystem::path path = run_directory / "logs" / ("rank_" + std::to_string(rank) + ".log");
  std::filesystem::create_directories(path.parent_path());
  const int log = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  outer_ = ::fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
  if (log < 0 || outer_ < 0) throw core::system_error("open", path.string());
  std::fflush(nullptr);
  flush_early_output(log, path.string());
  ::dup2(log, STDOUT_FILENO);
  ::dup2(log, STDERR_FILENO);
  ::close(log);
}

RankLog::~RankLog() {
  std::fflush(nullptr);
  ::dup2(outer_, STDOUT_FILENO);
  ::dup2(outer_, STDERR_FILENO);
  ::close(outer_);
}

std::string explain_failure(comm::World& world, const std::exception& error) {
  const std::string message = full_text(error);
  const comm::Failure first = world.root_cause(message);
  return first.rank == world.launch().rank && !first.is_diagnosis ? message : comm::text_of(first);
}

void outlive_launcher() {
  for (const int number : core::kStopSignals)
    if (number != SIGINT) std::signal(number, SIG_IGN);
}

void end_failed_rank(comm::World& world, const std::exception& error, const std::filesystem::path& run_directory,
                     const RankLog* log) {
  outlive_launcher();
  const comm::Failure first = world.root_cause(full_text(error));
  const std::string text = "trainctl: " + explain_failure(world, error) + "\n";
  const std::int64_t rank = world.launch().rank;
  std::fflush(nullptr);
  write_to(STDERR_FILENO, text);
  // One rank speaks for all where the launcher's user reads: the first, or where that can't the next; and who failed.
  const bool speaks = first.rank == rank || (first.rank == 0 && rank == 1);
  if (log != nullptr && speaks && !comm::process_environment(core::kParentVariable)) write_to(log->outer(), text);
  if (!run_directory.empty()) {
    try {
      const std::filesystem::path file = run_directory / "logs" / ("collectives_rank_" + std::to_string(rank) + ".txt");
      std::filesystem::create_directories(file.parent_path());
      core::write_file_atomically(file, world.collectives());
    } catch (const std::exception&) {  // the failure may be a full disk
    }
  }
  ::_exit(dynamic_cast<const core::ConfigError*>(&error) == nullptr ? core::kExitFailed : core::kExitUsage);
}

}  // namespace trainctl::engine
