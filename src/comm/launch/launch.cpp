#include "comm/launch/launch.h"

#include <sys/prctl.h>
#include <unistd.h>

#include <charconv>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "core/error.h"
#include "core/local_ranks.h"

namespace trainctl::comm {
namespace {

/// Which variables hold a rank; "" for those that the launcher doesn't set.
struct RankVariables {
  std::string launcher;
  std::string rank;
  std::string world_size;
  std::string local_rank;
  std::string local_world_size;
};

/// Environment variables of launchers, read with errors that name them.
class LaunchVariables {
 public:
  explicit LaunchVariables(const Environment& environment) : environment_(environment) {}

  /// Empty counts as not set.
  std::optional<std::string> get(const std::string& name) const;
  bool has(const std::string& name) const { return get(name).has_value(); }
  std::string text_or(const std::string& name, const std::string& otherwise) const;
  std::int64_t number_or(const std::string& name, std::int64_t otherwise) const;
  /// Errors where it isn't set, or is no number from 0.
  std::string text(const std::string& name, const std::string& launcher) const;
  std::int64_t number(const std::string& name, const std::string& launcher) const;
  std::int64_t port(const std::string& name, const std::string& launcher) const;

  /// Complete and within their limits.
  Launch ranks(const RankVariables& names) const;
  /// RANK and WORLD_SIZE, where somebody set them too, say the same.
  void expect_no_other_rank(const Launch& launch, const std::string& rank, const std::string& world_size) const;

 private:
  const Environment& environment_;
};

std::int64_t parse(const std::string& name, const std::string& text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0)
    throw core::Error("the environment variable " + name + " is '" + text + "'; expected a number from 0")
        .hint("the launcher sets it; unset it to train in one process");
  return value;
}

void expect_below(const std::string& name, std::int64_t value, const std::string& limit_name, std::int64_t limit) {
  if (value < limit) return;
  throw core::Error(name + " is " + std::to_string(value) + ", but " + limit_name + " is " + std::to_string(limit))
      .hint("ranks count from 0; check what sets these variables");
}

std::optional<std::string> LaunchVariables::get(const std::string& name) const {
  std::optional<std::string> value = environment_(name);
  return value && value->empty() ? std::nullopt : value;
}

std::string LaunchVariables::text_or(const std::string& name, const std::string& otherwise) const {
  return get(name).value_or(otherwise);
}

std::int64_t LaunchVariables::number_or(const std::string& name, std::int64_t otherwise) const {
  const std::optional<std::string> value = get(name);
  return value ? parse(name, *value) : otherwise;
}

std::string LaunchVariables::text(const std::string& name, const std::string& launcher) const {
  const std::optional<std::string> value = get(name);
  if (!value)
    throw core::Error("the environment is that of " + launcher + ", but " + name + " is not set")
        .hint(
            "start all processes with one launcher, which sets it; or unset its other variables to train in one "
            "process");
  return *value;
}

std::int64_t LaunchVariables::number(const std::string& name, const std::string& launcher) const {
  return parse(name, text(name, launcher));
}

std::int64_t LaunchVariables::port(const std::string& name, const std::string& launcher) const {
  const std::int64_t value = number(name, launcher);
  if (value < 1 || value > 65'535)
    throw core::Error(name + " is " + std::to_string(value) + "; expected a port from 1 to 65535")
        .hint("choose one that is free on rank 0's host");
  return value;
}

Launch LaunchVariables::ranks(const RankVariables& names) const {
  Launch launch;
  launch.launcher = names.launcher;
  launch.rank = number(names.rank, names.launcher);
  launch.world_size = number(names.world_size, names.launcher);
  constexpr std::int64_t kMaxRanks = 100'000;
  if (launch.world_size > kMaxRanks)
    throw core::Error(names.world_size + " is " + std::to_string(launch.world_size) + ", but a job has at most " +
                      std::to_string(kMaxRanks) + " ranks")
        .hint("check what sets this variable");
  expect_below(names.rank, launch.rank, names.world_size, launch.world_size);
  if (!names.local_rank.empty()) launch.local_rank = number(names.local_rank, names.launcher);
  if (names.local_world_size.empty()) return launch;
  launch.local_world_size = number(names.local_world_size, names.launcher);
  expect_below(names.local_rank, launch.local_rank, names.local_world_size, launch.local_world_size);
  expect_below(names.local_world_size, launch.local_world_size, names.world_size + " + 1", launch.world_size + 1);
  return launch;
}

void LaunchVariables::expect_no_other_rank(const Launch& launch, const std::string& rank,
                                           const std::string& world_size) const {
  const auto expect = [&](const std::string& theirs, const std::string& ours, std::int64_t value) {
    const std::optional<std::string> text = get(theirs);
    if (!text || parse(theirs, *text) == value) return;
    throw core::Error(theirs + " is " + *text + ", but " + launch.launcher + " says " + std::to_string(value) + " (" +
                      ours + ")")
        .hint("unset " + theirs + ", or start the processes with torchrun instead");
  };
  expect("RANK", rank, launch.rank);
  expect("WORLD_SIZE", world_size, launch.world_size);
}

constexpr std::int64_t kDefaultPort = 29500;

/// Reads the variables that torchrun established.
Launch from_common_names(const LaunchVariables& variables, const char* launcher) {
  Launch launch = variables.ranks({.launcher = launcher,
                                   .rank = "RANK",
                                   .world_size = "WORLD_SIZE",
                                   .local_rank = "LOCAL_RANK",
                                   .local_world_size = "LOCAL_WORLD_SIZE"});
  launch.address = variables.text("MASTER_ADDR", launch.launcher);
  launch.port = variables.port("MASTER_PORT", launch.launcher);
  return launch;
}

Launch from_trainctl(const LaunchVariables& variables) {
  Launch launch = from_common_names(variables, "trainctl --nproc");
  if (launch.rank == 0 && variables.has(core::kListenVariable))
    launch.listen_descriptor = static_cast<int>(variables.number(core::kListenVariable, launch.launcher));
  return launch;
}

Launch from_torchrun(const LaunchVariables& variables) {
  Launch launch = from_common_names(variables, "torchrun");
  launch.node_rank = variables.number("GROUP_RANK", launch.launcher);
  launch.restart_count = variables.number_or("TORCHELASTIC_RESTART_COUNT", 0);
  launch.store_is_served = variables.text_or("TORCHELASTIC_USE_AGENT_STORE", "False") == "True";
  if (launch.store_is_served) launch.store_prefix = "/worker/attempt_" + std::to_string(launch.restart_count);
  return launch;
}

/// Finds the store's address. Without MASTER_ADDR, the ranks of one node agree on a port through a file that the
/// launcher's id names.
void find_store(Launch& launch, const LaunchVariables& variables, const std::string& hint) {
  if (variables.has("MASTER_ADDR")) {
    launch.address = variables.text("MASTER_ADDR", launch.launcher);
    launch.port = variables.has("MASTER_PORT") ? variables.port("MASTER_PORT", launch.launcher) : kDefaultPort;
    return;
  }
  if (launch.has_several_nodes())
    throw core::Error(launch.launcher + " started ranks on several nodes, and MASTER_ADDR doesn't say where rank 0 is")
        .hint(hint);
  launch.address = "127.0.0.1";
  const std::string job = variables.text_or("PMIX_NAMESPACE", variables.text_or("OMPI_MCA_ess_base_jobid", ""));
  std::string name = "trainctl-" + std::to_string(::getuid()) + "-" + std::to_string(::getppid()) + "-" + job;
  for (char& c : name)
    if (c == '/') c = '_';
  const std::string directory =
      variables.text_or("PMIX_SERVER_TMPDIR", std::filesystem::temp_directory_path().string());
  launch.port_file = directory + "/" + name + ".port";
}

Launch from_open_mpi(const LaunchVariables& variables) {
  Launch launch = variables.ranks({.launcher = "Open MPI",
                                   .rank = "OMPI_COMM_WORLD_RANK",
                                   .world_size = "OMPI_COMM_WORLD_SIZE",
                                   .local_rank = "OMPI_COMM_WORLD_LOCAL_RANK",
                                   .local_world_size = "OMPI_COMM_WORLD_LOCAL_SIZE"});
  variables.expect_no_other_rank(launch, "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE");
  find_store(launch, variables, "mpirun -x MASTER_ADDR=<host of rank 0> …");
  return launch;
}

Launch from_pmi(const LaunchVariables& variables) {
  const bool says_local = variables.has("MPI_LOCALRANKID") || variables.has("MPI_LOCALNRANKS");
  Launch launch = variables.ranks({.launcher = "PMI (MPICH, Intel MPI)",
                                   .rank = "PMI_RANK",
                                   .world_size = "PMI_SIZE",
                                   .local_rank = says_local ? "MPI_LOCALRANKID" : "PMI_RANK",
                                   .local_world_size = says_local ? "MPI_LOCALNRANKS" : "PMI_SIZE"});
  variables.expect_no_other_rank(launch, "PMI_RANK", "PMI_SIZE");
  find_store(launch, variables, "mpiexec -genv MASTER_ADDR <host of rank 0> …");
  return launch;
}

/// Parses Slurm's list: "4(x2),3" on node 2 -> 3.
std::int64_t tasks_on_node(const std::string& tasks_per_node, std::int64_t node) {
  std::int64_t first = 0;
  for (std::size_t begin = 0; begin < tasks_per_node.size();) {
    const std::size_t end = std::min(tasks_per_node.find(',', begin), tasks_per_node.size());
    const std::string part = tasks_per_node.substr(begin, end - begin);
    std::int64_t tasks = 0;
    std::int64_t nodes = 1;
    std::from_chars(part.data(), part.data() + part.size(), tasks);
    if (const std::size_t times = part.find("(x"); times != std::string::npos)
      std::from_chars(part.data() + times + 2, part.data() + part.size(), nodes);
    if (node < first + nodes) return tasks;
    first += nodes;
    begin = end + 1;
  }
  return 0;
}

Launch from_slurm(const LaunchVariables& variables) {
  Launch launch =
      variables.ranks({.launcher = "Slurm",
                       .rank = "SLURM_PROCID",
                       .world_size = variables.has("SLURM_STEP_NUM_TASKS") ? "SLURM_STEP_NUM_TASKS" : "SLURM_NTASKS",
                       .local_rank = "SLURM_LOCALID",
                       .local_world_size = ""});
  variables.expect_no_other_rank(launch, "SLURM_PROCID", "SLURM_NTASKS");
  launch.node_rank = variables.number("SLURM_NODEID", launch.launcher);
  const std::string tasks =
      variables.text_or("SLURM_STEP_TASKS_PER_NODE", variables.text_or("SLURM_TASKS_PER_NODE", ""));
  launch.local_world_size = tasks_on_node(tasks, launch.node_rank);
  if (launch.local_world_size == 0) {
    if (variables.number_or("SLURM_NNODES", 1) > 1)
      throw core::Error("SLURM_STEP_TASKS_PER_NODE doesn't say how many tasks node " +
                        std::to_string(launch.node_rank) + " has: '" + tasks + "'")
          .hint("start the ranks with srun, which sets it");
    launch.local_world_size = launch.world_size;
  }
  launch.address = variables.text_or(
      "MASTER_ADDR", first_host(variables.text_or("SLURM_STEP_NODELIST", variables.text("SLURM_NODELIST", "Slurm"))));
  const std::int64_t job = variables.number_or("SLURM_JOB_ID", 0) * 31 + variables.number_or("SLURM_STEP_ID", 0);
  launch.port = variables.has("MASTER_PORT") ? variables.port("MASTER_PORT", launch.launcher) : 15'000 + job % 17'000;
  return launch;
}

Launch from_rank_and_world_size(const LaunchVariables& variables) {
  Launch launch = variables.ranks({.launcher = "RANK and WORLD_SIZE",
                                   .rank = "RANK",
                                   .world_size = "WORLD_SIZE",
                                   .local_rank = variables.has("LOCAL_RANK") ? "LOCAL_RANK" : "",
                                   .local_world_size = variables.has("LOCAL_WORLD_SIZE") ? "LOCAL_WORLD_SIZE" : ""});
  launch.node_rank = variables.has("LOCAL_WORLD_SIZE") ? launch.rank / launch.local_world_size : launch.rank;
  if (variables.has("LOCAL_RANK") != variables.has("LOCAL_WORLD_SIZE") && launch.world_size > 1)
    throw core::Error(variables.has("LOCAL_RANK") ? "LOCAL_RANK is set, but LOCAL_WORLD_SIZE is not"
                                                  : "LOCAL_WORLD_SIZE is set, but LOCAL_RANK is not")
        .hint("set both, or neither where each node has one process");
  launch.address = variables.text("MASTER_ADDR", launch.launcher);
  launch.port = variables.port("MASTER_PORT", launch.launcher);
  return launch;
}

/// Refuses a Slurm allocation whose tasks srun has not started, such as an interactive shell.
void refuse_unstarted_slurm_tasks(const LaunchVariables& variables) {
  if (!variables.has("SLURM_JOB_ID") || variables.number_or("SLURM_NTASKS", 1) <= 1) return;
  throw core::Error("the Slurm job has " + *variables.get("SLURM_NTASKS") +
                    " tasks (SLURM_NTASKS), but this process wasn't started by srun (SLURM_STEP_ID is not set)")
      .hint("srun trainctl train …; or trainctl train --nproc N …; or distributed.kind: none to train alone");
}

}  // namespace

std::optional<std::string> process_environment(const std::string& name) {
  const char* value = std::getenv(name.c_str());
  return value == nullptr ? std::nullopt : std::optional<std::string>(value);
}

std::optional<Launch> read_launch(const Environment& environment) {
  const LaunchVariables variables(environment);
  if (variables.has(core::kParentVariable)) return from_trainctl(variables);
  if (variables.has("TORCHELASTIC_RUN_ID")) return from_torchrun(variables);
  if (variables.has("OMPI_COMM_WORLD_RANK") || variables.has("OMPI_COMM_WORLD_SIZE")) return from_open_mpi(variables);
  if (variables.has("SLURM_STEP_ID")) {
    // An interactive shell on a node of the allocation (srun --pty) is a step of one task.
    return from_slurm(variables);
  }
  if (variables.has("PMI_RANK") || variables.has("PMI_SIZE")) return from_pmi(variables);
  if (variables.has("RANK") || variables.has("WORLD_SIZE")) return from_rank_and_world_size(variables);
  refuse_unstarted_slurm_tasks(variables);
  return std::nullopt;
}

void die_with_launcher(const Launch& launch) {
  if (launch.launcher != "torchrun" && launch.launcher != "trainctl --nproc") return;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  const std::optional<std::string> parent = process_environment(core::kParentVariable);
  if (parent && *parent != std::to_string(::getppid()))
    ::_exit(core::kExitFailed);  // the parent ended before prctl took effect
}

std::string first_host(const std::string& list) {
  std::string host;
  for (std::size_t i = 0; i < list.size() && list[i] != ','; ++i) {
    if (list[i] != '[') {
      host += list[i];
      continue;
    }
    const std::size_t end = list.find_first_of(",-]", i);
    host += list.substr(i + 1, end == std::string::npos ? end : end - i - 1);
    i = list.find(']', i);
    if (i == std::string::npos) break;
  }
  return host;
}

}  // namespace trainctl::comm
