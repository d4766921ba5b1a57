#include "comm/launch/process.h"

#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <csignal>

namespace trainctl::comm {
namespace {

/// A child that waits to be killed. Its id is as it sees itself.
class Child {
 public:
  Child() {
    int ends[2];
    REQUIRE(::pipe(ends) == 0);
    pid_ = ::fork();
    if (pid_ == 0) {
      ::signal(SIGTERM, SIG_DFL);
      const ProcessId id = own_process();
      const bool told = ::write(ends[1], &id.start_time, sizeof id.start_time) > 0;
      while (told) ::pause();
      ::_exit(1);
    }
    id_ = own_process();
    id_.number = pid_;
    REQUIRE(::read(ends[0], &id_.start_time, sizeof id_.start_time) == sizeof id_.start_time);
    ::close(ends[0]);
    ::close(ends[1]);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }

  const ProcessId& id() const { return id_; }
  void wait_until_it_ended() const {
    siginfo_t info;
    REQUIRE(::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOWAIT) == 0);
  }
  void collect() const { REQUIRE(::waitpid(pid_, nullptr, 0) == pid_); }

 private:
  pid_t pid_ = -1;
  ProcessId id_;
};

TEST_CASE("a process is stopped until it is continued", "[comm]") {
  const Child child;
  CHECK_FALSE(is_stopped(own_process()));
  CHECK_FALSE(is_stopped({}));
  siginfo_t info;
  const auto pid = static_cast<id_t>(child.id().number);
  ::kill(static_cast<pid_t>(pid), SIGSTOP);
  REQUIRE(::waitid(P_PID, pid, &info, WSTOPPED | WNOWAIT) == 0);
  CHECK(is_stopped(child.id()));
  ::kill(static_cast<pid_t>(pid), SIGCONT);
  REQUIRE(::waitid(P_PID, pid, &info, WCONTINUED) == 0);
  CHECK_FALSE(is_stopped(child.id()));
}

TEST_CASE("a process has ended when it was killed, collected by its parent or not", "[comm]") {
  const Child child;
  CHECK_FALSE(has_ended(own_process()));
  CHECK_FALSE(has_ended(parent_process()));
  CHECK_FALSE(has_ended(child.id()));
  ::kill(static_cast<pid_t>(child.id().number), SIGKILL);
  child.wait_until_it_ended();
  CHECK(has_ended(child.id()));
  child.collect();
  CHECK(has_ended(child.id()));
}

TEST_CASE("a later process with the same number is another; of other machines nothing is known", "[comm]") {
  const Child child;
  ProcessId earlier = child.id();
  earlier.start_time -= 1;
  CHECK(has_ended(earlier));
  CHECK_FALSE(end_by_force(earlier));
  ProcessId elsewhere = earlier;
  elsewhere.machine = "another";
  CHECK_FALSE(has_ended(elsewhere));
  CHECK_FALSE(end_by_force(elsewhere));
  CHECK_FALSE(has_ended(ProcessId{}));
  CHECK(text_of(earlier) != text_of(elsewhere));
}

TEST_CASE("a stopped process is ended by force, this one never", "[comm]") {
  const Child child;
  ::kill(static_cast<pid_t>(child.id().number), SIGSTOP);
  CHECK(end_by_force(child.id()));
  child.wait_until_it_ended();
  CHECK(has_ended(child.id()));
  CHECK_FALSE(end_by_force(child.id()));
  CHECK_FALSE(end_by_force(own_process()));
}

}  // namespace
}  // namespace trainctl::comm
