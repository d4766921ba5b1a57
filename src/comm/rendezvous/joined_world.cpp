#include "comm/rendezvous/joined_world.h"

#include <algorithm>
#include <future>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "core/error.h"
#include "core/json.h"
#include "core/text.h"

namespace trainctl::comm {
namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

/// Time to watch for heartbeats after a failure; ranks without one are silent. Ranks send one every 100 ms, but a busy
/// machine delays some.
constexpr std::chrono::milliseconds kHeartbeatWindow = 600ms;
constexpr std::chrono::milliseconds kLongSilence = 5s;
/// Time for all ranks to report a hang. They notice it within about a second of each other, later on a busy machine.
constexpr std::chrono::milliseconds kReportTimeout = 5s;
/// Age at which a collective with a lost rank is failed, if the backend has not failed it.
constexpr auto kAbandonAfter = 500ms;
constexpr const char* kGivenUp = "given up, for a rank has failed,";
/// Time for NCCL to end what is queued when a run ends. A peer that died after its last step never ends its part.
constexpr auto kShutdownTimeout = 30s;

}  // namespace

JoinedWorld::~JoinedWorld() {
  if (!has_reported_) shut_down_gpu_backends();
  monitor_->watch({});
  monitor_->set_status(has_reported_ ? RankStatus::Status::failed : RankStatus::Status::left);
  if (keeps_store()) linger(Linger::until_all_ended, 10s);
  // The monitor's destructor reports the last status.
}

void JoinedWorld::shut_down_gpu_backends() {
  std::vector<c10::intrusive_ptr<c10d::Backend>> backends;
  {
    const std::lock_guard lock(backends_mutex_);
    backends = gpu_backends_;
  }
  if (backends.empty()) return;
  // Groups of few ranks first: all ranks end the group of all together.
  std::reverse(backends.begin(), backends.end());
  std::packaged_task<void()> shut_down([backends] {
    for (const c10::intrusive_ptr<c10d::Backend>& backend : backends) backend->shutdown();
  });
  const std::future<void> end = shut_down.get_future();
  std::thread(std::move(shut_down)).detach();
  end.wait_for(kShutdownTimeout);
}

Failure JoinedWorld::own_failure(const std::string& message) const {
  return {.rank = rank(),
          .host = members_.empty() ? "" : members_[static_cast<std::size_t>(rank())].host,
          .step = journal_->step(),
          .message = message};
}

std::string JoinedWorld::await(const std::string& key, const std::string& what) {
  const Clock::time_point deadline = Clock::now() + options_.timeout;
  try {
    for (int looks = 1;;) {
      const std::optional<std::string> value = monitor_->ask([&key](c10d::Store& store) {
        return store.check({key}) ? std::optional<std::string>(store.get_to_str(key)) : std::nullopt;
      });
      if (value) return *value;
      if (const std::optional<Failure> first = monitor_->first_failure()) throw core::Error(text_of(*first));
      const std::vector<std::int64_t> silent = monitor_->silent_for(kLongSilence);
      if (!silent.empty())
        throw core::Error(name_of(members_[static_cast<std::size_t>(silent.front())]) + " is gone or hangs: " + what +
                          " needs this rank");
      if (looks++ % 20 == 0)
        if (const std::vector<std::int64_t> ended = exited_ranks(monitor_->last_standings()); !ended.empty())
          throw core::Error(name_of(members_[static_cast<std::size_t>(ended.front())]) + " is gone (killed?): " + what +
                            " needs this rank");
      if (Clock::now() > deadline) throw core::Error("timed out while waiting for " + what);
      std::this_thread::sleep_for(5ms);
    }
  } catch (const StoreError&) {
    throw core::Error("the store is out of reach while waiting for " + what);
  }
}

std::string JoinedWorld::broadcast_text(const std::string& value) {
  const std::string key = "shared/" + std::to_string(num_shared_++);
  if (rank() != 0) return await(key, "rank 0's value");
  try {
    monitor_->ask([&](c10d::Store& store) { store.set(key, value); });
  } catch (const StoreError&) {
    throw core::Error("the store is out of reach while rank 0 shares a value");
  }
  return value;
}

void JoinedWorld::check_consistent(const std::map<std::string, std::string>& values) {
  const std::string prefix = "agreed/" + std::to_string(num_agreed_++) + "/";
  const std::string mine = nlohmann::json(values).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  try {
    monitor_->ask([&](c10d::Store& store) { store.set(prefix + std::to_string(rank()), mine); });
    if (rank() == 0) {
      std::vector<std::map<std::string, std::string>> all;
      for (const RankStatus& member : members_) {
        const std::string subject = name_of(member) + "'s config";
        all.push_back(core::parse_json(await(prefix + std::to_string(member.rank), subject), subject));
      }
      const std::string text = disagreement(members_, all);
      monitor_->ask([&](c10d::Store& store) { store.set(prefix + "answer", "=" + text); });
    }
  } catch (const StoreError&) {
    throw core::Error("the store is out of reach while the ranks compare their configs");
  }
  const std::string answer = await(prefix + "answer", "the comparison of the ranks' configs");
  if (answer != "=")
    throw core::Error(answer.substr(1)).hint("start every rank with the same files, data and build of trainctl");
}

std::string disagreement(const std::vector<RankStatus>& ranks,
                         const std::vector<std::map<std::string, std::string>>& values) {
  const auto value_of = [&](std::size_t rank, const std::string& key) {
    const auto found = values[rank].find(key);
    return found == values[rank].end() ? std::string("none") : found->second;
  };
  std::set<std::string> keys;  // of any rank: rank 0 may lack one
  for (const std::map<std::string, std::string>& own : values)
    for (const auto& [key, value] : own) keys.insert(key);
  std::string text;
  for (const std::string& key : keys) {
    const std::string expected = value_of(0, key);
    std::map<std::string, std::vector<std::string>> others;  // value -> ranks that hold it
    for (std::size_t rank = 1; rank < values.size(); ++rank)
      if (value_of(rank, key) != expected) others[value_of(rank, key)].push_back(name_of(ranks[rank]));
    for (const auto& [value, holders] : others)
      text += (text.empty() ? "" : "; ") + core::list_words(holders) + (holders.size() == 1 ? " has" : " have") +
              " another " + key + " (" + value + ") than " + name_of(ranks.front()) + " (" + expected + ")";
  }
  return text;
}

std::string JoinedWorld::diagnose_stall(std::int64_t step) noexcept {
  try {
    const auto has_resumed = [&] { return journal_->step() > step; };
    const Clock::time_point deadline = Clock::now() + kReportTimeout;
    std::vector<RankStatus> standings = monitor_->standings();
    while (!has_resumed() && !all_have_reported(standings) && Clock::now() < deadline) {
      std::this_thread::sleep_for(100ms);
      standings = monitor_->standings();
    }
    return has_resumed() ? "" : describe_stall(standings);
  } catch (const std::exception&) {  // includes StoreError; a missing report must not fail the run
    return "";
  }
}

void JoinedWorld::report(const std::string& message) noexcept {
  if (has_reported_) return;
  has_reported_ = true;
  try {
    monitor_->set_status(RankStatus::Status::failed);
    // If a collective has failed, another rank is the cause.
    if (!has_collective_failed()) monitor_->report_failure(own_failure(message));
  } catch (const StoreError&) {
  } catch (const std::exception&) {  // reporting a failure must not throw
  }
}

bool JoinedWorld::has_collective_failed() const {
  // The waiter on a collective's future may wake before the flight recorder has noted the end.
  for (int i = 0; i < 20 && !journal_->first_failure() && journal_->any_under_way(); ++i)
    std::this_thread::sleep_for(10ms);
  return journal_->first_failure().has_value();
}

Evidence JoinedWorld::gather(const std::string& message) {
  Evidence evidence{.rank = rank(),
                    .message = message,
                    .failed_collective = journal_->first_failure(),
                    .store_is_served = options_.launch.store_is_served,
                    .launcher = options_.launch.launcher};
  const Clock::time_point begin = Clock::now();
  try {
    const std::vector<RankStatus> before = monitor_->standings();
    do {
      std::this_thread::sleep_for(25ms);
      evidence.standings = monitor_->standings();
      evidence.ended = exited_ranks(evidence.standings);
      evidence.first = monitor_->first_failure();
    } while (!evidence.first && evidence.ended.empty() && evidence.failed_collective &&
             Clock::now() - begin < kHeartbeatWindow);
    const bool looked_long = !evidence.first && evidence.ended.empty();
    for (std::size_t i = 0; looked_long && i < before.size(); ++i)
      if (evidence.standings[i].status == RankStatus::Status::running && evidence.standings[i].beat == before[i].beat)
        evidence.silent.push_back(static_cast<std::int64_t>(i));
  } catch (const StoreError& trouble) {
    evidence.store = trouble.state;
    evidence.standings = monitor_->last_standings();
    evidence.first = monitor_->first_failure();
  }
  for (std::size_t i = 0; i < members_.size(); ++i)
    if (evidence.standings[i].beat == 0) evidence.standings[i] = members_[i];
  if (evidence.store != Evidence::Store::reachable) evidence.ended = exited_ranks(evidence.standings);
  return evidence;
}

Failure JoinedWorld::find_first(const std::string& message) {
  if (const std::optional<Failure> first = monitor_->first_failure()) return *first;
  const Evidence evidence = gather(message);
  gone_ = evidence.ended.empty() ? evidence.silent : evidence.ended;
  const Failure found = judge(evidence);
  if (evidence.store != Evidence::Store::reachable) return found;
  try {
    return monitor_->report_failure(found);
  } catch (const StoreError&) {
    return found;
  }
}

Failure JoinedWorld::root_cause(const std::string& message) {
  if (root_cause_) return *root_cause_;
  report(message);
  root_cause_ = find_first(message);
  if (options_.launch.restarts_failed()) end_hung();
  if (keeps_store()) linger(Linger::until_all_know, 2s);
  return *root_cause_;
}

void JoinedWorld::end_hung() {
  if (!root_cause_->is_diagnosis) return;
  const auto silent = monitor_->silent_for(std::max<std::chrono::milliseconds>(1s, options_.timeout * 3 / 4));
  if (std::find(silent.begin(), silent.end(), root_cause_->rank) == silent.end()) return;
  end_by_force(monitor_->last_standings()[static_cast<std::size_t>(root_cause_->rank)].process);
}

std::vector<std::string> JoinedWorld::launchers() const {
  std::vector<std::string> names;
  if (!options_.launch.restarts_failed()) return names;
  for (const RankStatus& member : members_)
    if (member.launcher.number > 0) names.push_back(text_of(member.launcher));
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

void JoinedWorld::linger(Linger until, std::chrono::milliseconds limit) {
  const Clock::time_point deadline = Clock::now() + limit;
  const auto needs_store = [&](const RankStatus& other) {
    if (other.rank == rank() || other.knows_failure || other.status == RankStatus::Status::left) return false;
    return until == Linger::until_all_know || other.status == RankStatus::Status::running;
  };
  try {
    while (Clock::now() < deadline) {
      const std::vector<RankStatus> all = monitor_->standings();
      std::vector<std::int64_t> silent = monitor_->silent_for(1s);
      silent.insert(silent.end(), gone_.begin(), gone_.end());
      const std::vector<std::int64_t> ended = exited_ranks(all);
      silent.insert(silent.end(), ended.begin(), ended.end());
      const bool is_needed = std::any_of(all.begin(), all.end(), [&](const RankStatus& other) {
        return needs_store(other) && std::find(silent.begin(), silent.end(), other.rank) == silent.end();
      });
      if (!is_needed) return;
      std::this_thread::sleep_for(20ms);
    }
  } catch (const StoreError&) {
  } catch (const std::exception&) {  // lingering is optional
  }
}

void JoinedWorld::end_overdue_collectives() {
  if (!journal_->any_under_way()) return;
  const bool has_lost_rank = monitor_->first_failure() || !exited_ranks(monitor_->last_standings()).empty();
  const bool is_over = has_lost_rank ? journal_->fail_overdue(kAbandonAfter, kGivenUp)
                                     : options_.device.is_cuda() && journal_->fail_overdue(options_.timeout);
  if (!is_over) return;
  abort_gpu_collectives();
  // Threads of the collectives still wait, and the destructors would wait for these threads.
  const std::lock_guard lock(backends_mutex_);
  for (const auto& backend : cpu_backends_) static_cast<void>(backend.lock().release());
  cpu_backends_.clear();
}

void JoinedWorld::abort_gpu_collectives() {
  std::vector<c10::intrusive_ptr<c10d::Backend>> backends;
  {
    const std::lock_guard lock(backends_mutex_);
    backends.swap(gpu_backends_);
  }
  if (backends.empty()) return;
  journal_->abort(kGivenUp);
  // An abort may wait for the kernel of another communicator, so that one after the other would deadlock. It may also
  // never return, and this rank's heartbeat must go on.
  for (const c10::intrusive_ptr<c10d::Backend>& backend : backends)
    std::thread([backend] {
      try {
        backend->abort();
      } catch (const std::exception&) {  // the process ends anyway
      }
    }).detach();
}

}  // namespace trainctl::comm
