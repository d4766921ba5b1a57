#include <pty.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <chrono>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "support/manual_clock.h"
#include "tracking/sinks.h"
#include "tracking_support.h"

using namespace trainctl;
using namespace trainctl::tracking;

namespace {

/// Both ends of a pipe or of a terminal; what is written to one is read from the other.
class Channel {
 public:
  static Channel pipe() {
    std::array<int, 2> ends{};
    REQUIRE(::pipe(ends.data()) == 0);
    return {ends[0], ends[1]};
  }
  static Channel terminal(unsigned short columns) {
    int reader = -1, writer = -1;
    const winsize size{.ws_row = 24, .ws_col = columns, .ws_xpixel = 0, .ws_ypixel = 0};
    REQUIRE(::openpty(&reader, &writer, nullptr, nullptr, &size) == 0);
    return {reader, writer};
  }
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;
  ~Channel() { ::close(reader_), ::close(writer_); }

  int writer() const { return writer_; }

  /// All that was written since the last call. A terminal hands it on when it likes, so an end mark is waited for.
  std::string take() const {
    static constexpr std::string_view kEnd = "<end>";
    REQUIRE(::write(writer_, kEnd.data(), kEnd.size()) == static_cast<ssize_t>(kEnd.size()));
    std::string text;
    std::array<char, 4096> part{};
    while (!text.ends_with(kEnd)) {
      const ssize_t got = ::read(reader_, part.data(), part.size());
      REQUIRE(got > 0);
      text.append(part.data(), static_cast<std::size_t>(got));
    }
    return text.substr(0, text.size() - kEnd.size());
  }

 private:
  Channel(int reader, int writer) : reader_(reader), writer_(writer) {}

  int reader_;
  int writer_;
};

/// An environment variable for the time of a test.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) {
    if (const char* old = std::getenv(name)) old_ = old;
    ::setenv(name, value, 1);
  }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;
  ~Variable() { old_ ? ::setenv(name_, old_->c_str(), 1) : ::unsetenv(name_); }

 private:
  const char* name_;
  std::optional<std::string> old_;
};

/// What a terminal shows after `text`: lines, with \r and "erase line" obeyed and colours left out.
std::vector<std::string> screen(const std::string& text) {
  std::vector<std::string> lines{""};
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\n') {
      lines.emplace_back();
    } else if (text[i] == '\x1b') {
      const std::size_t end = text.find_first_of("mK", i);
      if (text[end] == 'K') lines.back().clear();
      i = end;
    } else if (text[i] != '\r') {
      lines.back() += text[i];
    }
  }
  return lines;
}

std::ptrdiff_t count_erasures(const std::string& text) {
  std::ptrdiff_t count = 0;
  for (std::size_t at = 0; (at = text.find("\x1b[2K", at)) != std::string::npos; ++at) ++count;
  return count;
}

void send_a_run(Sink& sink) {
  RunStarted run = testing::started(40);
  run.run_directory = "runs/demo";
  sink.on(run);
  sink.on(Progress{.step = 20, .phase = "train", .done = 20, .total = 40});
  sink.on(testing::step_at(20));
  sink.on(Progress{.step = 20, .phase = "eval", .done = 1, .total = 3});
  sink.on(testing::evaluation_at(20));
  sink.on(Notice{Level::warning, "the disk is nearly full"});
  sink.on(Progress{.step = 40, .phase = "train", .done = 40, .total = 40});
  sink.on(Progress{.step = 40, .phase = "eval", .done = 3, .total = 3});
  sink.on(testing::ended(Outcome::finished, 40));
}

}  // namespace

TEST_CASE("plain lines say each thing once and nothing about progress", "[tracking]") {
  const Channel channel = Channel::pipe();
  send_a_run(*make_console(channel.writer(), Verbosity::normal));
  CHECK(channel.take() ==
        "demo: 421,642 parameters on cpu\n  40 steps\n  writing runs/demo\n"
        "step 20/40  loss 0.4313  lr 0.0012  21,034 samples/s  data wait 0.3%  812 MiB\n"
        "evaluation at step 20  loss 0.2900  accuracy 91.62%  (1.4 s)\n"
        "warning: the disk is nearly full\n"
        "finished 40 steps in 3.0 s  100 samples/s  peak 5 MiB\n  run: runs/demo\n");
}

TEST_CASE("a quiet console says only what went wrong", "[tracking]") {
  const Channel channel = Channel::pipe();
  const auto sink = make_console(channel.writer(), Verbosity::quiet);
  send_a_run(*sink);
  sink->on(Notice{Level::info, "resumed"});
  CHECK(channel.take() == "warning: the disk is nearly full\n");
  sink->on(testing::ended(Outcome::failed, 7));
  CHECK(channel.take() == "failed after 7 steps\n");
}

TEST_CASE("the bar is redrawn in one line, with log lines above, and taken away at the end", "[tracking]") {
  const Variable no_color("NO_COLOR", "1");
  const Variable locale("LC_ALL", "C");
  const Channel channel = Channel::terminal(70);
  send_a_run(*make_progress_bar(channel.writer()));
  const std::string text = channel.take();
  CHECK(text.find("\x1b[3") == std::string::npos);
  const auto lines = screen(text);
  REQUIRE(lines.size() == 8);
  CHECK(lines[0] == "demo: 421,642 parameters on cpu");
  CHECK(lines[1] == "  40 steps");
  CHECK(lines[2] == "  writing runs/demo");
  CHECK(lines[3] == "evaluation at step 20  loss 0.2900  accuracy 91.62%  (1.4 s)");
  CHECK(lines[4] == "warning: the disk is nearly full");
  CHECK(lines[5] == "finished 40 steps in 3.0 s  100 samples/s  peak 5 MiB");
  CHECK(lines[6] == "  run: runs/demo");
  CHECK(lines[7].empty());
}

TEST_CASE("a narrow terminal gets lines that break between words", "[tracking]") {
  const Channel channel = Channel::terminal(40);
  make_progress_bar(channel.writer())->on(testing::evaluation_at(20));
  const auto bar = screen(channel.take());
  CHECK(bar == std::vector<std::string>{"evaluation at step 20  loss 0.2900", "    accuracy 91.62%  (1.4 s)", ""});
  make_console(channel.writer(), Verbosity::normal)->on(testing::evaluation_at(20));
  CHECK(screen(channel.take()) == bar);
}

TEST_CASE("the bar shows evaluations, and is in colour where that is welcome", "[tracking]") {
  const Variable no_color("NO_COLOR", "");
  const Variable locale("LC_ALL", "en_US.UTF-8");
  const Channel channel = Channel::terminal(100);
  const auto sink = make_progress_bar(channel.writer());
  sink->on(testing::started(40));
  sink->on(Progress{.step = 20, .phase = "train", .done = 20, .total = 40});
  sink->on(Progress{.step = 20, .phase = "eval", .done = 1, .total = 3});
  const std::string text = channel.take();
  CHECK(text.find("\x1b[32m━") != std::string::npos);
  CHECK(screen(text).back().starts_with("eval ━"));
  CHECK(screen(text).back().ends_with("1/3  step 20/40"));
}

TEST_CASE("the bar is drawn at most ten times a second", "[tracking]") {
  const Variable locale("LC_ALL", "C");
  const Channel channel = Channel::terminal(60);
  testing::ManualClock clock;
  clock.advance(std::chrono::hours(1));
  const auto sink = make_progress_bar(channel.writer(), clock.now());
  sink->on(testing::started(1000000));
  std::ptrdiff_t draws = 0;
  for (int step = 1; step <= 2000; ++step) {  // two seconds
    sink->on(Progress{.step = step, .phase = "train", .done = step, .total = 1000000});
    clock.advance(std::chrono::milliseconds(1));
    if (step % 20 == 0) draws += count_erasures(channel.take());
  }
  CHECK(draws == 20);
}

TEST_CASE("a bar that is cut off leaves the prompt a line of its own", "[tracking]") {
  const Variable no_color("NO_COLOR", "1");
  const Variable locale("LC_ALL", "C");
  const Channel channel = Channel::terminal(60);
  {
    const auto sink = make_progress_bar(channel.writer());
    sink->on(Progress{.step = 1, .phase = "train", .done = 1, .total = 4});
  }
  const auto lines = screen(channel.take());
  REQUIRE(lines.size() == 2);
  CHECK(lines[0].starts_with("train #"));
}

TEST_CASE("a console that is gone is an error for the tracker to handle", "[tracking]") {
  CHECK_THROWS_WITH(make_console(-1, Verbosity::normal)->on(Notice{.text = "hello"}),
                    Catch::Contains("standard error"));
}
