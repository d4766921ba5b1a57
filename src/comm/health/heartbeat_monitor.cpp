#include "comm/health/heartbeat_monitor.h"

#include <thread>

#include "core/error.h"

namespace trainctl::comm {
namespace {

constexpr const char* kFirstFailure = "first_failure";

std::string standing_key(std::int64_t rank) {
  return "standing/" + std::to_string(rank);
}

std::string to_text(const std::vector<std::uint8_t>& bytes) {
  return {bytes.begin(), bytes.end()};
}

}  // namespace

struct HeartbeatMonitor::Shared {
  c10::intrusive_ptr<c10d::Store> store;
  std::int64_t world_size = 1;
  std::shared_ptr<FlightRecorder> journal;

  std::mutex mutex;
  std::condition_variable wake;
  std::deque<Task> tasks;
  bool stops = false;  // the thread takes no more tasks
  bool is_lost = false;
  bool is_left = false;  // the owner has left the thread behind
  RankStatus self;
  std::int64_t doing_since_step = 0;             // self.doing is cleared after a later step
  std::vector<RankStatus> standings;             // status of all ranks; beat 0: no heartbeat yet
  Clock::time_point last_answer = Clock::now();  // when the store last answered the thread
  core::Clock now;
  core::TimePoint last_reading;
  std::vector<core::TimePoint::duration> silence;  // of each rank, up to the last reading
  std::vector<char> is_there;                      // whether the rank's status is in the store; monitor thread only
  std::size_t asked_next = 0;                      // next rank to look up in the store; monitor thread only
  std::optional<Failure> first;
  std::mutex watchers_mutex;  // held while watchers run
  Watchers watchers;

  void run();
  void serve_until_stopped();
  void watch_without_store();
  void beat();
  void read_first_failure();
  void read_standings();
  void note(const std::vector<RankStatus>& read);
  std::chrono::milliseconds reading_period() const {
    // One read returns as many values as there are ranks.
    return std::chrono::milliseconds(std::max<std::int64_t>(500, 10 * world_size));
  }
};

void HeartbeatMonitor::Shared::run() {
  try {
    serve_until_stopped();
    beat();  // reports the last status
  } catch (const std::exception&) {
    const std::lock_guard lock(mutex);
    is_lost = true;
  }
  {
    // Clearing the queue breaks the promises of tasks that will never run.
    const std::lock_guard lock(mutex);
    stops = true;
    tasks.clear();
  }
  watch_without_store();
}

/// Runs the watchers without a store: they matter most if a failed rank took the store with it.
void HeartbeatMonitor::Shared::watch_without_store() {
  while (true) {
    {
      std::unique_lock lock(mutex);
      if (wake.wait_for(lock, kBeat, [&] { return is_left || !is_lost; })) return;
    }
    const std::lock_guard lock(watchers_mutex);
    if (watchers.on_beat) watchers.on_beat();
  }
}

void HeartbeatMonitor::Shared::serve_until_stopped() {
  Clock::time_point next_beat = Clock::now();
  Clock::time_point next_reading = next_beat;
  while (true) {
    Task task;
    {
      std::unique_lock lock(mutex);
      last_answer = Clock::now();
      wake.wait_until(lock, next_beat, [&] { return stops || !tasks.empty(); });
      if (!tasks.empty()) {
        task = std::move(tasks.front());
        tasks.pop_front();
      } else if (stops) {
        return;
      }
    }
    if (task) task(*store);
    if (Clock::now() < next_beat) continue;
    beat();
    read_first_failure();
    {
      const std::lock_guard lock(watchers_mutex);
      if (watchers.on_beat) watchers.on_beat();
    }
    if (Clock::now() >= next_reading) {
      read_standings();
      next_reading = Clock::now() + reading_period();
    }
    next_beat = Clock::now() + kBeat;
  }
}

void HeartbeatMonitor::Shared::beat() {
  RankStatus standing;
  {
    const std::lock_guard lock(mutex);
    ++self.beat;
    self.step = journal->step();
    if (self.step > doing_since_step) self.doing.clear();
    standing = self;
  }
  standing.places = places_of(*journal);
  store->set(standing_key(standing.rank), to_json(standing));
  is_there[static_cast<std::size_t>(standing.rank)] = 1;
}

void HeartbeatMonitor::Shared::read_first_failure() {
  {
    const std::lock_guard lock(mutex);
    if (first) return;
  }
  if (!store->check({kFirstFailure})) return;
  const Failure failure = failure_from_json(store->get_to_str(kFirstFailure));
  {
    const std::lock_guard lock(mutex);
    first = failure;
    self.knows_failure = true;
  }
  const std::lock_guard lock(watchers_mutex);
  if (watchers.on_failure) watchers.on_failure();
}

void HeartbeatMonitor::Shared::read_standings() {
  // Each absent rank costs a query. In a very large job, some of them are queried in the next round.
  const Clock::time_point enough = Clock::now() + kBeat;
  for (std::size_t asked = 0; asked < is_there.size() && Clock::now() < enough; ++asked) {
    const std::size_t rank = asked_next++ % is_there.size();
    if (is_there[rank] == 0 && store->check({standing_key(static_cast<std::int64_t>(rank))})) is_there[rank] = 1;
  }
  std::vector<std::string> keys;
  for (std::size_t rank = 0; rank < is_there.size(); ++rank)
    if (is_there[rank] != 0) keys.push_back(standing_key(static_cast<std::int64_t>(rank)));
  if (keys.empty()) return;
  std::vector<RankStatus> read;
  for (const std::vector<std::uint8_t>& value : store->multiGet(keys))
    read.push_back(standing_from_json(to_text(value)));
  note(read);
}

void HeartbeatMonitor::Shared::note(const std::vector<RankStatus>& read) {
  const std::lock_guard lock(mutex);
  // After a longer gap this process was stopped, and maybe the whole job: the others had no time to beat either.
  const core::TimePoint reading = now();
  const auto passed = std::min<core::TimePoint::duration>(reading - last_reading, 2 * reading_period());
  last_reading = reading;
  for (core::TimePoint::duration& silent : silence) silent += passed;
  for (const RankStatus& standing : read) {
    const auto index = static_cast<std::size_t>(standing.rank);
    if (standings[index].beat != standing.beat) silence[index] = {};
    standings[index] = standing;
  }
}

HeartbeatMonitor::HeartbeatMonitor(c10::intrusive_ptr<c10d::Store> store, RankStatus self, std::int64_t world_size,
                                   std::shared_ptr<FlightRecorder> journal, const HeartbeatOptions& options)
    : answer_timeout_(options.answer_timeout), shared_(std::make_shared<Shared>()) {
  shared_->store = std::move(store);
  shared_->world_size = world_size;
  shared_->journal = std::move(journal);
  shared_->self = std::move(self);
  shared_->standings.resize(static_cast<std::size_t>(world_size));
  for (std::int64_t rank = 0; rank < world_size; ++rank) {
    shared_->standings[static_cast<std::size_t>(rank)].rank = rank;
    shared_->standings[static_cast<std::size_t>(rank)].host = "an unknown host";
  }
  shared_->is_there.resize(static_cast<std::size_t>(world_size));
  shared_->now = options.now;
  shared_->last_reading = shared_->now();
  shared_->silence.resize(static_cast<std::size_t>(world_size));
  std::packaged_task<void()> loop([shared = shared_] { shared->run(); });
  ended_ = loop.get_future();
  std::thread(std::move(loop)).detach();
}

HeartbeatMonitor::~HeartbeatMonitor() {
  {
    const std::lock_guard lock(shared_->mutex);
    shared_->stops = true;
    shared_->is_left = true;
  }
  shared_->wake.notify_all();
  ended_.wait_for(kGoodbyeTimeout);
}

void HeartbeatMonitor::post(Task task) {
  {
    const std::lock_guard lock(shared_->mutex);
    if (shared_->stops) throw StoreError{shared_->is_lost ? Evidence::Store::lost : Evidence::Store::silent};
    shared_->tasks.push_back(std::move(task));
  }
  shared_->wake.notify_all();
}

HeartbeatMonitor::Clock::time_point HeartbeatMonitor::answer_deadline() const {
  const std::lock_guard lock(shared_->mutex);
  return std::max(Clock::now() + kBeat, shared_->last_answer + answer_timeout_);
}

void HeartbeatMonitor::expect_answer(bool came) {
  const std::lock_guard lock(shared_->mutex);
  if (shared_->is_lost) throw StoreError{Evidence::Store::lost};
  if (!came) throw StoreError{Evidence::Store::silent};
}

std::vector<RankStatus> HeartbeatMonitor::standings() {
  ask([shared = shared_](c10d::Store&) {
    shared->read_standings();
    shared->read_first_failure();
  });
  return last_standings();
}

std::vector<RankStatus> HeartbeatMonitor::last_standings() const {
  const std::lock_guard lock(shared_->mutex);
  return shared_->standings;
}

std::vector<std::int64_t> HeartbeatMonitor::silent_for(std::chrono::milliseconds limit) const {
  const std::lock_guard lock(shared_->mutex);
  const auto longest = std::max(limit, 3 * shared_->reading_period());
  std::vector<std::int64_t> silent;
  for (const RankStatus& standing : shared_->standings)
    if (standing.rank != shared_->self.rank && standing.status == RankStatus::Status::running &&
        shared_->silence[static_cast<std::size_t>(standing.rank)] > longest)
      silent.push_back(standing.rank);
  return silent;
}

std::optional<Failure> HeartbeatMonitor::first_failure() const {
  const std::lock_guard lock(shared_->mutex);
  return shared_->first;
}

Failure HeartbeatMonitor::report_failure(const Failure& failure) {
  return ask([shared = shared_, text = to_json(failure)](c10d::Store& store) {
    const Failure first = failure_from_json(store.compareSet(kFirstFailure, "", text));
    {
      const std::lock_guard lock(shared->mutex);
      shared->first = first;
      shared->self.knows_failure = true;
    }
    shared->beat();  // report now, since this process may be about to end
    return first;
  });
}

void HeartbeatMonitor::set_status(RankStatus::Status status) {
  const std::lock_guard lock(shared_->mutex);
  shared_->self.status = status;
}

void HeartbeatMonitor::set_doing(std::string doing, std::int64_t step) {
  const std::lock_guard lock(shared_->mutex);
  shared_->self.doing = std::move(doing);
  shared_->doing_since_step = step;
}

void HeartbeatMonitor::watch(Watchers watchers) {
  const std::lock_guard lock(shared_->watchers_mutex);
  shared_->watchers = std::move(watchers);
}

}  // namespace trainctl::comm
