// Who am I among the processes: what a launcher left in the environment. Knows no LibTorch.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace trainctl::comm {

/// The value of an environment variable; none where it isn't set.
using Environment = std::function<std::optional<std::string>(const std::string& name)>;
std::optional<std::string> process_environment(const std::string& name);

struct Launch {
  std::string launcher;  // "torchrun", "Open MPI", "PMI", "Slurm", "trainctl --nproc", "RANK and WORLD_SIZE"
  std::int64_t rank = 0;
  std::int64_t world_size = 1;
  std::int64_t local_rank = 0;
  std::int64_t local_world_size = 1;
  std::int64_t node_rank = 0;    // 0 where the launcher doesn't say: then nodes are told apart by their hosts' names
  std::string address;           // where rank 0, or the launcher, keeps the store
  std::int64_t port = 0;         // 0: rank 0 takes a free one and leaves its number in port_file
  std::string port_file;         // only on one node
  int listen_descriptor = -1;    // rank 0: a socket that the launcher has bound to the port; -1: none
  bool store_is_served = false;  // by the launcher (torchrun's agent): every rank is a client
  std::string store_prefix;      // of this attempt
  std::int64_t restart_count = 0;

  /// Starts the ranks again when one has failed, or the nodes change.
  bool restarts_failed() const { return launcher == "torchrun"; }
  bool has_several_nodes() const { return local_world_size < world_size; }
};

/// None where no launcher started this process. Variables half set, or that contradict each other, are Errors that name
/// the variable and say what the launcher should have set.
std::optional<Launch> read_launch(const Environment& environment);

/// Ranks started by torchrun or --nproc end with their parent, however it ends.
void die_with_launcher(const Launch& launch);

/// "node[07-12,15],login" -> "node07".
std::string first_host(const std::string& slurm_node_list);

}  // namespace trainctl::comm
