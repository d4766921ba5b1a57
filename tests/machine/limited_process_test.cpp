#include "machine/limited_process.h"

#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <csignal>
#include <fstream>
#include <stdexcept>
#include <thread>

namespace trainctl::machine {
namespace {

std::string what_of(const LimitedProcess::Answer& answer, const ProcessLimits& limits = {}) {
  try {
    return LimitedProcess(answer, limits).ask("");
  } catch (const LimitReached& limit) {
    return std::string("limit: ") + limit.what();
  } catch (const core::Error& error) {
    return std::string("error: ") + error.what();
  }
}

TEST_CASE("a limited process answers many threads", "[machine]") {
  LimitedProcess process([](const std::string& request) { return request + std::to_string(::getpid()); });
  const std::string large(5 << 20, 'x');
  std::vector<std::string> answers(4);
  {
    std::vector<std::jthread> threads;
    for (std::string& answer : answers)
      threads.emplace_back([&] {
        for (int i = 0; i < 3; ++i) answer = process.ask(large);
      });
  }
  for (const std::string& answer : answers) {
    CHECK(answer.starts_with(large));
    CHECK(answer.substr(large.size()) != std::to_string(::getpid()));
  }
}

TEST_CASE("a limited process tells an exception, and goes on", "[machine]") {
  LimitedProcess process([](const std::string& request) {
    if (request == "bad") throw std::runtime_error("no such thing");
    return request;
  });
  CHECK_THROWS_WITH(process.ask("bad"), "no such thing");
  CHECK(process.ask("good") == "good");
}

TEST_CASE("a limited process that waits for good ends", "[machine]") {
  const auto wait = [](const std::string&) -> std::string {
    ::pause();
    return "";
  };
  CHECK(what_of(wait, {.time = std::chrono::seconds(1)}) == "error: the process gives no answer within 10 s");
}

TEST_CASE("a limited process reaches its limits alone", "[machine]") {
  CHECK(what_of(
            [](const std::string&) -> std::string {
              const std::atomic<bool> never{false};
              while (!never.load()) {
              }
              return "";
            },
            {.time = std::chrono::seconds(1)}) == "limit: takes more than 1 s; does it loop without end?");
  CHECK(what_of(
            [](const std::string&) {
              std::string grows(1 << 20, 'x');
              for (;;) grows += grows;
              return grows;
            },
            {.memory_bytes = 64 << 20}) == "limit: takes more than 64 MiB of memory");
  CHECK(what_of([](const std::string&) -> std::string {
          std::raise(SIGSEGV);
          return "";
        }).starts_with("limit: ends its process by signal 11"));
  CHECK(what_of([](const std::string&) {
          return std::string(std::ofstream("/dev/null").is_open() || std::ifstream("/proc/self/status").is_open()
                                 ? "opened"
                                 : "closed");
        }) == "closed");
}

TEST_CASE("a limited process begins anew behind a child that ended", "[machine]") {
  LimitedProcess process([](const std::string& request) {
    if (request == "end") ::_exit(0);
    return request;
  });
  CHECK_THROWS_AS(process.ask("end"), LimitReached);
  CHECK(process.ask("again") == "again");
}

}  // namespace
}  // namespace trainctl::machine
