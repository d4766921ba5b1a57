#include "core/log.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <catch2/catch.hpp>
#include <set>
#include <sstream>
#include <thread>
#include <vector>

#include "core/error.h"

namespace trainctl::core {
namespace {

class Pipe {
 public:
  Pipe() { REQUIRE(::pipe(ends_.data()) == 0); }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  ~Pipe() {
    ::close(ends_[0]);
    if (ends_[1] >= 0) ::close(ends_[1]);
  }
  int writer() const { return ends_[1]; }
  std::string close_and_read() {
    ::close(ends_[1]);
    ends_[1] = -1;
    std::string text;
    std::array<char, 4096> part{};
    for (ssize_t got = 0; (got = ::read(ends_[0], part.data(), part.size())) > 0;)
      text.append(part.data(), static_cast<std::size_t>(got));
    return text;
  }

 private:
  std::array<int, 2> ends_{};
};

TEST_CASE("a log line is its text, and a warning says so", "[core]") {
  Pipe pipe;
  Log log({.descriptor = pipe.writer()});
  log.info("step 3  loss {} %v");
  log.warning("the disk is full");
  log.write(Severity::error, "failed");
  log.info("");
  CHECK(pipe.close_and_read() == "step 3  loss {} %v\nwarning: the disk is full\nfailed\n\n");
}

TEST_CASE("lines below the least severity are left out", "[core]") {
  Pipe pipe;
  Log log({.descriptor = pipe.writer(), .least = Severity::warning});
  log.info("unseen");
  log.warning("seen");
  CHECK(pipe.close_and_read() == "warning: seen\n");
}

TEST_CASE("lines of several threads do not mix", "[core]") {
  Pipe pipe;
  Log log({.descriptor = pipe.writer()});
  const std::string line(300, 'x');
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] {
      for (int turn = 0; turn < 20; ++turn) log.info(line);
    });
  for (std::thread& thread : threads) thread.join();
  std::istringstream text(pipe.close_and_read());
  std::set<std::string> lines;
  for (std::string one; std::getline(text, one);) lines.insert(one);
  CHECK(lines == std::set<std::string>{line});
}

TEST_CASE("a line that cannot be written is an error, or dropped", "[core]") {
  const int full = ::open("/dev/full", O_WRONLY | O_CLOEXEC);
  REQUIRE(full >= 0);
  Log strict({.descriptor = full});
  CHECK_THROWS_WITH(strict.info("line"), "cannot write standard error: No space left on device");
  Log tolerant({.descriptor = full, .on_failure = OnWriteFailure::drop});
  CHECK_NOTHROW(tolerant.info("line"));
  ::close(full);
}

}  // namespace
}  // namespace trainctl::core
