#include "train/monitor/watchdog.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <mutex>
#include <thread>

#include "core/file.h"
#include "runtime/span.h"
#include "support/manual_clock.h"
#include "support/temporary_directory.h"

namespace trainctl::train {

using namespace std::chrono_literals;

namespace {

/// Waits until a condition holds, which another thread is about to make true; whether it came to hold.
template <class Condition>
bool becomes(Condition condition) {
  for (int i = 0; i < 12'000 && !condition(); ++i) std::this_thread::sleep_for(10ms);
  return condition();
}

class Heard {
 public:
  void add(const std::string& line) {
    const std::lock_guard lock(mutex_);
    lines_.push_back(line);
  }
  std::vector<std::string> lines() const {
    const std::lock_guard lock(mutex_);
    return lines_;
  }
  /// Waits for so many; whether they came.
  bool wait_for(std::size_t count) const {
    return becomes([&] { return lines().size() >= count; });
  }

 private:
  mutable std::mutex mutex_;
  std::vector<std::string> lines_;
};

WatchdogConfig after(double factor, double least_s) {
  WatchdogConfig config;
  config.step_multiple = factor;
  config.min_timeout_s = least_s;
  return config;
}

/// Waits until the watch has looked at the present time, and has acted on it.
void let_it_look(const testing::ManualClock& clock) {
  const std::int64_t before = clock.num_reads();
  REQUIRE(becomes([&] { return clock.num_reads() >= before + 2; }));
}

void make_steps(Watchdog& watch, std::int64_t count) {
  for (std::int64_t step = 1; step <= count; ++step) watch.step_done(step);
}

}  // namespace

TEST_CASE("A step that doesn't come is told once, with spans and stacks in the run directory", "[train]") {
  const trainctl::testing::TemporaryDirectory directory;
  Heard heard;
  testing::ManualClock clock;
  Watchdog watch(after(5, 0.05), {.run_directory = directory.path(),
                                  .rank = 3,
                                  .tell = [&](const std::string& line) { heard.add(line); },
                                  .now = clock.now()});
  make_steps(watch, 10);
  clock.advance(49ms);
  let_it_look(clock);
  CHECK(heard.lines().empty());
  {
    const runtime::Span span("data");
    clock.advance(2ms);
    REQUIRE(heard.wait_for(1));
  }
  const std::string line = heard.lines().at(0);
  CHECK_THAT(line, Catch::Contains("no step for 51.0 ms after step 10"));
  CHECK_THAT(line, Catch::Contains("it is in data for"));
  const std::filesystem::path file = directory.path() / "stacks" / "step_10_rank_3.txt";
  REQUIRE(std::filesystem::exists(file));
  const std::string text = core::read_file(file);
  CHECK_THAT(text, Catch::Contains("in data for"));
  CHECK_THAT(text, Catch::Contains("nanosleep"));  // where this thread waits
  watch.step_done(11);
  REQUIRE(heard.lines().size() == 2);
  CHECK_THAT(heard.lines().at(1), Catch::Contains("the run goes on"));
}

TEST_CASE("A run that was slow and is stuck elsewhere by now is reported again", "[train]") {
  const trainctl::testing::TemporaryDirectory directory;
  Heard heard;
  testing::ManualClock clock;
  std::atomic<int> reports = 0;
  Watchdog watch(after(5, 0.05), {.run_directory = directory.path(),
                                  .rank = 0,
                                  .tell_ranks = [&](const std::string&, std::int64_t) { ++reports; },
                                  .tell = [&](const std::string& line) { heard.add(line); },
                                  .now = clock.now()});
  make_steps(watch, 5);
  {
    const runtime::Span span("backward");
    clock.advance(60ms);
    REQUIRE(heard.wait_for(1));
  }
  const runtime::Span span("data");
  clock.advance(61ms);
  REQUIRE(heard.wait_for(2));
  CHECK_THAT(heard.lines().at(0), Catch::Contains("it is in backward for"));
  CHECK_THAT(heard.lines().at(1), Catch::Contains("it is in data for"));
  const std::string file = core::read_file(directory.path() / "stacks" / "step_5_rank_0.txt");
  CHECK_THAT(file, Catch::Contains("in data for") && !Catch::Contains("; in backward for"));
  // A report that says nothing new is not told. When the fourth begins, the third has ended.
  for (const auto passed : {1s, 10s}) {
    const int before = reports;
    clock.advance(passed);
    REQUIRE(becomes([&] { return reports > before; }));
  }
  CHECK(heard.lines().size() == 2);
}

TEST_CASE("The other ranks are asked, and what they say heads the report", "[train]") {
  const trainctl::testing::TemporaryDirectory directory;
  Heard heard;
  testing::ManualClock clock;
  std::string told;
  Watchdog watch(after(5, 0.05),
                 {.run_directory = directory.path(),
                  .rank = 0,
                  .tell_ranks = [&](const std::string& doing,
                                    std::int64_t step) { told = doing + " since step " + std::to_string(step); },
                  .compare = [](std::int64_t) { return std::string("rank 1 on node differs: it is in data for 9 s"); },
                  .tell = [&](const std::string& line) { heard.add(line); },
                  .now = clock.now()});
  make_steps(watch, 5);
  clock.advance(1s);
  REQUIRE(heard.wait_for(1));
  CHECK_THAT(heard.lines().at(0), Catch::Contains("rank 1 on node differs"));
  CHECK(told == "between two spans since step 5");
  CHECK(core::read_file(directory.path() / "stacks" / "step_5_rank_0.txt").rfind("rank 1 on node differs", 0) == 0);
}

TEST_CASE("A report stays when the other ranks can't tell any more", "[train]") {
  const trainctl::testing::TemporaryDirectory directory;
  Heard heard;
  testing::ManualClock clock;
  std::atomic<int> asked = 0;
  Watchdog watch(after(5, 0.05), {.run_directory = directory.path(),
                                  .rank = 1,
                                  .compare = [&](std::int64_t) -> std::string {
                                    return ++asked == 1 ? "rank 1 on node differs: it is in data for 9 s" : "";
                                  },
                                  .tell = [&](const std::string& line) { heard.add(line); },
                                  .now = clock.now()});
  make_steps(watch, 5);
  for (const auto passed : {1s, 2s, 4s}) {
    const int before = asked;
    clock.advance(passed);
    REQUIRE(becomes([&] { return asked > before; }));
  }
  CHECK(core::read_file(directory.path() / "stacks" / "step_5_rank_1.txt").starts_with("rank 1 on node differs"));
  CHECK(heard.lines().size() == 1);
}

TEST_CASE("Pauses, first steps and a watch that is off are no hangs", "[train]") {
  const trainctl::testing::TemporaryDirectory directory;
  Heard heard;
  testing::ManualClock clock;
  const auto options = [&] {
    return WatchdogOptions{.run_directory = directory.path(),
                           .tell = [&](const std::string& line) { heard.add(line); },
                           .now = clock.now()};
  };
  std::optional<Watchdog> watch(std::in_place, after(5, 0.05), options());
  make_steps(*watch, 5);
  {
    const Watchdog::Pause pause(watch);
    clock.advance(10s);
    let_it_look(clock);
  }
  let_it_look(clock);
  CHECK(heard.lines().empty());
  clock.advance(51ms);
  CHECK(heard.wait_for(1));
  watch.reset();

  Watchdog first(after(5, 0.05), options());
  first.step_done(1);
  clock.advance(499ms);
  let_it_look(clock);
  CHECK(heard.lines().size() == 1);
  clock.advance(2ms);
  CHECK(heard.wait_for(2));

  testing::ManualClock unread;
  WatchdogOptions off_options = options();
  off_options.now = unread.now();
  Watchdog off(after(0, 0.01), std::move(off_options));
  make_steps(off, 5);
  const std::int64_t before = unread.num_reads();  // by this thread
  unread.advance(1h);
  let_it_look(clock);  // the watch that is on looks at its clock meanwhile
  CHECK(unread.num_reads() == before);
}

}  // namespace trainctl::train
