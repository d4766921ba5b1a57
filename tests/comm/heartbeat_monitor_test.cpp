#include "comm/health/heartbeat_monitor.h"

#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <fstream>
#include <iterator>
#include <thread>
#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include "support/manual_clock.h"

namespace trainctl::comm {
namespace {

using namespace std::chrono_literals;

/// A store whose keeper is killed while something is written to it.
class LostStore final : public c10d::HashStore {
 public:
  void set(const std::string& key, const std::vector<std::uint8_t>& data) override {
    if (dies_.load()) {
      is_writing_.store(true);
      while (!is_dead_.load()) std::this_thread::sleep_for(1ms);
      throw c10::DistNetworkError({__func__, __FILE__, 0}, "Broken pipe");
    }
    HashStore::set(key, data);
  }
  void begin_to_die() {
    dies_.store(true);
    while (!is_writing_.load()) std::this_thread::sleep_for(1ms);
  }
  void die() { is_dead_.store(true); }

 private:
  std::atomic<bool> dies_ = false;
  std::atomic<bool> is_writing_ = false;
  std::atomic<bool> is_dead_ = false;
};

/// Waits until a condition holds, which another thread is about to make true; whether it came to hold.
template <class Condition>
bool becomes(const Condition& condition) {
  for (int i = 0; i < 12'000 && !condition(); ++i) std::this_thread::sleep_for(10ms);
  return condition();
}

/// Whether a thread of this process waits for something.
bool is_asleep(pid_t thread) {
  std::ifstream file("/proc/self/task/" + std::to_string(thread) + "/stat");
  const std::string stat(std::istreambuf_iterator<char>(file), {});
  return stat.at(stat.rfind(')') + 2) == 'S';
}

TEST_CASE("who asks while the store is being lost is told at once", "[comm][regression]") {
  const auto store = c10::make_intrusive<LostStore>();
  // Who is not told waits until the test's time limit ends it: a store that is only slow gets an hour.
  HeartbeatMonitor monitor(store, RankStatus{}, 1, std::make_shared<FlightRecorder>(), {.answer_timeout = 1h});
  store->begin_to_die();
  std::thread death([&, asker = ::gettid()] {
    becomes([&] { return is_asleep(asker); });
    store->die();
  });
  try {
    monitor.standings();
    FAIL("the store is lost");
  } catch (const StoreError& trouble) {
    CHECK(trouble.state == Evidence::Store::lost);
  }
  death.join();
}

TEST_CASE("a watcher is called on also when the store is lost", "[comm][regression]") {
  const auto store = c10::make_intrusive<LostStore>();
  std::atomic<int> beats = 0;
  std::atomic<int> later_beats = 0;
  HeartbeatMonitor monitor(store, RankStatus{}, 1, std::make_shared<FlightRecorder>());
  store->begin_to_die();
  monitor.watch({.on_failure = {}, .on_beat = [&] { ++beats; }});
  store->die();
  CHECK(becomes([&] { return beats >= 3; }));
  CHECK_THROWS_AS(monitor.standings(), StoreError);
  monitor.watch({.on_failure = {}, .on_beat = [&] { ++later_beats; }});
  const int before = beats;
  CHECK(becomes([&] { return later_beats >= 3; }));
  CHECK(beats == before);
  monitor.watch({});
}

TEST_CASE("what a rank does holds until its next step", "[comm][regression]") {
  const auto journal = std::make_shared<FlightRecorder>();
  HeartbeatMonitor monitor(c10::make_intrusive<c10d::HashStore>(), RankStatus{}, 1, journal, {.answer_timeout = 1h});
  journal->set_step(3);
  monitor.set_doing("in backward for 2 s", 3);
  const auto is_told = [&](const std::string& doing) {
    return becomes([&] { return monitor.standings().front().doing == doing; });
  };
  CHECK(is_told("in backward for 2 s"));
  journal->set_step(4);
  CHECK(is_told(""));
}

/// The other ranks of a large job, which beat when they are told to, and the monitor of rank 0.
class LargeJob {
 public:
  static constexpr std::int64_t kSize = 600;

  /// Lets all ranks beat but one.
  void beat_all_but(std::int64_t dead) {
    ++beat_;
    for (std::int64_t rank = 1; rank < kSize; ++rank) {
      const std::string text = to_json({.rank = rank, .host = "node", .beat = beat_});
      if (rank != dead) store_->set("standing/" + std::to_string(rank), {text.begin(), text.end()});
    }
  }
  bool all_have_joined() {
    const std::vector<RankStatus> all = monitor_.standings();
    return std::all_of(all.begin(), all.end(), [](const RankStatus& one) { return one.beat > 0; });
  }
  testing::ManualClock& clock() { return clock_; }
  HeartbeatMonitor& monitor() { return monitor_; }

 private:
  testing::ManualClock clock_;
  c10::intrusive_ptr<c10d::HashStore> store_ = c10::make_intrusive<c10d::HashStore>();
  std::int64_t beat_ = 0;
  HeartbeatMonitor monitor_{
      store_, RankStatus{}, kSize, std::make_shared<FlightRecorder>(), {.answer_timeout = 1h, .now = clock_.now()}};
};

TEST_CASE("in a large job, a rank is silent only if several readings find no beat", "[comm][regression]") {
  LargeJob job;
  job.beat_all_but(0);
  REQUIRE(becomes([&] { return job.all_have_joined(); }));
  for (int reading = 0; reading < 4; ++reading) {
    job.beat_all_but(/*dead=*/7);
    job.clock().advance(6s);  // the statuses of 600 ranks are read every 6 s
    if (reading < 2) CHECK(job.monitor().silent_for(5s).empty());
    job.monitor().standings();
  }
  CHECK(job.monitor().silent_for(5s) == std::vector<std::int64_t>{7});
}

TEST_CASE("ranks that were stopped together with this one are not silent", "[comm][regression]") {
  LargeJob job;
  job.beat_all_but(0);
  REQUIRE(becomes([&] { return job.all_have_joined(); }));
  job.clock().advance(1h);
  CHECK(job.monitor().silent_for(5s).empty());
  job.monitor().standings();
  CHECK(job.monitor().silent_for(5s).empty());
}

}  // namespace
}  // namespace trainctl::comm
