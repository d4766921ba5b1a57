#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <thread>

#include "comm/backend/c10d_group.h"
#include "comm/launch/address.h"
#include "comm/rendezvous/joined_world.h"
#include "core/error.h"
#include "core/text.h"

namespace trainctl::comm {
namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

void refuse_impossible_backend(const WorldOptions& options) {
  const bool has_gpu = !options.device.is_cpu();
  if (options.backend == Backend::nccl && !has_gpu)
    throw core::Error("NCCL moves tensors between GPUs, but this run's device is the CPU")
        .hint("distributed.backend: gloo, or auto");
  if (has_gpu && (options.backend == Backend::gloo || options.backend == Backend::mpi))
    throw core::Error("this run's device is a GPU, between which only NCCL moves tensors")
        .hint("distributed.backend: nccl, or auto");
}

/// Makes Gloo's writes to a lost peer fail with an error that names the peer. Ignoring SIGPIPE would do so too, but
/// child processes inherit an ignored signal, as with nohup and SIGHUP.
void survive_lost_peers() {
  struct sigaction action {};
  if (::sigaction(SIGPIPE, nullptr, &action) != 0 || action.sa_handler != SIG_DFL) return;
  action.sa_handler = [](int) {};
  action.sa_flags = SA_RESTART;
  ::sigaction(SIGPIPE, &action, nullptr);
}

}  // namespace

JoinedWorld::JoinedWorld(const WorldOptions& options) : options_(options) {
  refuse_impossible_backend(options_);
  survive_lost_peers();
  if (options_.device.is_cuda()) set_nccl_environment(options_.interface);
  if (options_.launch.world_size == 1 && !options_.launch.store_is_served) {
    options_.launch.address = "127.0.0.1";  // other jobs must not find this store
    options_.launch.port = 0;
    options_.launch.listen_descriptor = -1;
  }
  const Launch& launch = options_.launch;
  address_ = own_address(launch.address, std::max<std::int64_t>(launch.port, 1),
                         launch.has_several_nodes() ? Reach::other_nodes : Reach::this_node);
  Rendezvous meeting(launch, options_.timeout);
  wait_for_all(meeting);
  if (keeps_store() && !launch.port_file.empty()) {
    std::error_code ignored;
    std::filesystem::remove(launch.port_file, ignored);
  }
  members_ = monitor_->last_standings();
  std::vector<std::int64_t> all(static_cast<std::size_t>(launch.world_size));
  std::iota(all.begin(), all.end(), 0);
  group_ = make_group("all ranks", all);
}

void JoinedWorld::wait_for_all(Rendezvous& meeting) {
  const Launch& launch = options_.launch;
  const Clock::time_point deadline = Clock::now() + options_.timeout;
  const std::string hint =
      "were all ranks started, and can their hosts reach " + launch.address + "? See their own messages";
  const auto never_came = [&](const std::string& who) {
    return who + " never came within " + timeout_text(options_.timeout) + "; the job has " +
           std::to_string(launch.world_size) + " ranks, says " + launch.launcher;
  };
  while (!meeting.meet().is_open()) {
    if (Clock::now() > deadline) throw core::Error(never_came("rank 0")).hint(hint);
    std::this_thread::sleep_for(10ms);
  }
  connection_ = meeting.meet();
  const RankStatus self{.rank = launch.rank,
                        .host = host_name(),
                        .node_rank = launch.node_rank,
                        .local_rank = launch.local_rank,
                        .process = own_process(),
                        .launcher = parent_process()};
  monitor_ = std::make_unique<HeartbeatMonitor>(connection_.clone(), self, launch.world_size, journal_);
  try {
    for (std::vector<std::string> missing; !(missing = missing_ranks()).empty();) {
      if (rank() == 0) meeting.meet();
      if (const std::optional<Failure> first = monitor_->first_failure()) throw core::Error(text_of(*first)).hint(hint);
      if (Clock::now() > deadline) {
        constexpr std::size_t kNamed = 16;
        const std::size_t more = missing.size() - std::min(missing.size(), kNamed);
        if (more > 0) missing.resize(kNamed);
        if (more > 0) missing.push_back(core::format_count(static_cast<std::int64_t>(more)) + " more");
        const std::string text = never_came((missing.size() == 1 ? "rank " : "ranks ") + core::list_words(missing));
        monitor_->report_failure({.rank = rank(), .host = self.host, .message = text, .is_diagnosis = true});
        if (keeps_store()) linger(Linger::until_all_know, 1s);
        throw core::Error(text).hint(hint);
      }
      std::this_thread::sleep_for(10ms);
    }
  } catch (const StoreError&) {
    throw core::Error("rank 0 ended, and its store with it, during the rendezvous").hint("see rank 0's own message");
  }
}

std::vector<std::string> JoinedWorld::missing_ranks() {
  std::vector<std::string> missing;
  for (const RankStatus& standing : monitor_->standings())
    if (standing.beat == 0) missing.push_back(std::to_string(standing.rank));
  return missing;
}

std::vector<std::int64_t> JoinedWorld::nodes_of(const std::vector<std::int64_t>& members) const {
  std::map<std::pair<std::string, std::int64_t>, std::int64_t> numbers;
  std::vector<std::int64_t> nodes;
  for (const std::int64_t member : members) {
    const RankStatus& standing = members_[static_cast<std::size_t>(member)];
    const auto next = static_cast<std::int64_t>(numbers.size());
    nodes.push_back(numbers.try_emplace({standing.host, standing.node_rank}, next).first->second);
  }
  return nodes;
}

std::unique_ptr<Group> JoinedWorld::make_group(const std::string& name, const std::vector<std::int64_t>& members) {
  const auto place = std::find(members.begin(), members.end(), rank()) - members.begin();
  const std::int64_t number = ++num_groups_[name];
  const std::string path = "/" + name + (number == 1 ? "" : " (" + std::to_string(number) + ")");
  BackendRequest request{.store = connection_.clone(path),
                         .rank = static_cast<int>(place),
                         .members = {members.begin(), members.end()},
                         .timeout = options_.timeout,
                         .device = options_.device,
                         .interface = options_.interface,
                         .address = address_};
  const bool is_mpi = options_.backend == Backend::mpi;
  C10dGroupParts parts{
      .name = name,
      .store = request.store,
      .rank = request.rank,
      .size = request.size(),
      .cpu = is_mpi ? make_mpi_backend(request) : make_gloo_backend(request),
      .cpu_type = is_mpi ? c10d::ProcessGroup::BackendType::MPI : c10d::ProcessGroup::BackendType::GLOO,
      .device = options_.device,
      .journal = journal_,
      .nodes = nodes_of(members),
      .members = members,
      .make_group = [this](const std::string& other, const std::vector<std::int64_t>& some) {
        return make_group(other, some);
      }};
  if (options_.device.is_cuda()) {
    request.store = connection_.clone(path + "/gpu");
    parts.cuda = make_nccl_backend(request);
  }
  bool is_first = false;
  {
    const std::lock_guard lock(backends_mutex_);
    is_first = cpu_backends_.empty();
    cpu_backends_.emplace_back(parts.cpu);
    if (parts.cuda) gpu_backends_.push_back(parts.cuda);
  }
  if (is_first)
    monitor_->watch(
        {.on_failure = [this] { abort_gpu_collectives(); }, .on_beat = [this] { end_overdue_collectives(); }});
  return make_c10d_group(parts);
}

std::unique_ptr<World> join(const WorldOptions& options) {
  return std::make_unique<JoinedWorld>(options);
}

}  // namespace trainctl::comm
