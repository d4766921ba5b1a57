#include <sys/resource.h>

#include <catch2/catch.hpp>
#include <csignal>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "support/skip.h"
#include "tracking/append_file.h"
#include "tracking/tracking.h"
#include "tracking_support.h"

using namespace trainctl;
using namespace trainctl::tracking;

namespace {

class Recorder final : public Sink {
 public:
  explicit Recorder(std::vector<Event>& seen) : seen_(seen) {}
  void on(const Event& event) override { seen_.push_back(event); }

 private:
  std::vector<Event>& seen_;
};

class Broken final : public Sink {
 public:
  Broken(int& calls, std::string why) : calls_(calls), why_(std::move(why)) {}
  void on(const Event&) override {
    ++calls_;
    throw std::runtime_error(why_);
  }

 private:
  int& calls_;
  std::string why_;
};

std::vector<std::string> notices_of(const std::vector<Event>& events) {
  std::vector<std::string> texts;
  for (const Event& event : events)
    if (const auto* notice = std::get_if<Notice>(&event)) texts.push_back(notice->text);
  return texts;
}

}  // namespace

TEST_CASE("every sink gets every event in order", "[tracking]") {
  std::vector<Event> first, second;
  Tracker tracker;
  tracker.add(std::make_unique<Recorder>(first));
  tracker.add(std::make_unique<Recorder>(second));
  for (int step = 1; step <= 3; ++step) tracker.on(testing::step_at(step));
  for (const auto* seen : {&first, &second}) {
    REQUIRE(seen->size() == 3);
    for (std::size_t i = 0; i < 3; ++i)
      CHECK(std::get<StepLogged>((*seen)[i]).step == static_cast<std::int64_t>(i) + 1);
  }
}

TEST_CASE("that a sink fails is told once, and all go on", "[tracking]") {
  std::vector<Event> before, after;
  int calls = 0;
  Tracker tracker;
  tracker.add(std::make_unique<Recorder>(before));
  tracker.add(std::make_unique<Broken>(calls, "the disk is full"));
  tracker.add(std::make_unique<Recorder>(after));
  tracker.on(testing::step_at(1));
  tracker.on(testing::step_at(2));
  CHECK(calls == 3);  // the notice too
  for (const auto* seen : {&before, &after}) {
    REQUIRE(seen->size() == 3);
    REQUIRE(notices_of(*seen).size() == 1);
    CHECK(notices_of(*seen)[0].find("the disk is full") != std::string::npos);
    CHECK(std::get<Notice>((*seen)[1]).level == Level::warning);
  }
}

TEST_CASE("a tracker whose sinks all fail is silent and doesn't fail itself", "[tracking]") {
  int first = 0, second = 0;
  Tracker tracker;
  tracker.add(std::make_unique<Broken>(first, "first"));
  tracker.add(std::make_unique<Broken>(second, "second"));
  CHECK_NOTHROW(tracker.on(testing::step_at(1)));
  CHECK_NOTHROW(tracker.on(testing::step_at(2)));
  CHECK(first == 4);  // two events and each one's notice
  CHECK(second == 4);
}

TEST_CASE("events of several threads don't mix", "[tracking]") {
  std::vector<Event> seen;
  Tracker tracker;
  tracker.add(std::make_unique<Recorder>(seen));
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] {
      for (int step = 0; step < 500; ++step) tracker.on(testing::step_at(step));
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(seen.size() == 2000);
}

TEST_CASE("a full disk under the metrics is said and doesn't end the run", "[tracking]") {
  if (!std::filesystem::exists("/dev/full")) testing::skip("no /dev/full here");
  const testing::TemporaryDirectory directory;
  std::filesystem::create_symlink("/dev/full", directory / "metrics.jsonl");
  const auto tracker = build(TrackingConfig{}, {.run_directory = directory.path(), .console = Console::quiet});
  std::vector<Event> seen;
  tracker->add(std::make_unique<Recorder>(seen));
  tracker->on(testing::step_at(1));
  tracker->on(testing::ended(Outcome::finished, 1));
  REQUIRE(notices_of(seen).size() == 2);
  CHECK(notices_of(seen)[0].find("metrics.jsonl at byte 0: No space left on device") != std::string::npos);
  CHECK(notices_of(seen)[1].find("the last records of") != std::string::npos);
  CHECK(std::filesystem::exists(directory / "summary.json"));
}

TEST_CASE("records that found no room are written when there is some", "[tracking]") {
  const testing::TemporaryDirectory directory;
  rlimit limit{};
  REQUIRE(::getrlimit(RLIMIT_FSIZE, &limit) == 0);
  const auto no_signal = ::signal(SIGXFSZ, SIG_IGN);
  const auto tracker = build(TrackingConfig{}, {.run_directory = directory.path(), .console = Console::quiet});
  tracker->on(testing::step_at(1));
  rlimit small = limit;
  small.rlim_cur = std::filesystem::file_size(directory / "metrics.jsonl") + 20;
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &small) == 0);
  tracker->on(testing::step_at(2));
  tracker->on(testing::step_at(3));
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &limit) == 0);
  tracker->on(testing::step_at(4));
  ::signal(SIGXFSZ, no_signal);
  const auto records = testing::lines_of_json(directory / "metrics.jsonl");
  REQUIRE(records.size() == 4);
  for (std::size_t i = 0; i < 4; ++i) CHECK(records[i]["step"] == i + 1);
}

TEST_CASE("large records that find no room are left out and reported, and the others are kept", "[tracking]") {
  const testing::TemporaryDirectory directory;
  rlimit limit{};
  REQUIRE(::getrlimit(RLIMIT_FSIZE, &limit) == 0);
  const auto no_signal = ::signal(SIGXFSZ, SIG_IGN);
  AppendFile file(directory / "records", IfExists::append);
  rlimit none = limit;
  none.rlim_cur = 0;
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &none) == 0);
  const std::string large(std::size_t{6} << 20, 'x');
  for (int step = 1; step <= 4; ++step) {
    CHECK_THROWS_AS(file.append_large(large, step), core::Error);
    CHECK_THROWS_AS(file.append("s\n"), core::Error);
  }
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &limit) == 0);
  ::signal(SIGXFSZ, no_signal);
  CHECK_THROWS_WITH(file.append_large("last\n", 5), Catch::Contains("lacks 2 records") && Catch::Contains("3 to 4"));
  CHECK(testing::content(directory / "records") == large + "s\n" + large + "s\ns\ns\nlast\n");
  CHECK_NOTHROW(file.finish());
}

TEST_CASE("build makes the run directory, and event files unless they are not wanted", "[tracking]") {
  const testing::TemporaryDirectory directory;
  TrackingConfig config;
  build(config, {.run_directory = directory / "curves", .console = Console::quiet})->on(testing::step_at(1));
  CHECK(std::filesystem::exists(directory / "curves" / "metrics.jsonl"));
  CHECK(std::filesystem::exists(directory / "curves" / "tensorboard"));
  config.tensorboard = false;
  build(config, {.run_directory = directory / "plain", .console = Console::quiet})->on(testing::step_at(1));
  CHECK(std::filesystem::exists(directory / "plain" / "metrics.jsonl"));
  CHECK_FALSE(std::filesystem::exists(directory / "plain" / "tensorboard"));
}
