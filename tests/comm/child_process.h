// A child process that can be stopped, continued and killed, with its id as it sees itself.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <csignal>

#include "comm/launch/process.h"

namespace trainctl::comm {

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
  void stop() const {
    siginfo_t info;
    ::kill(pid_, SIGSTOP);
    REQUIRE(::waitid(P_PID, static_cast<id_t>(pid_), &info, WSTOPPED | WNOWAIT) == 0);
  }
  void resume() const {
    siginfo_t info;
    ::kill(pid_, SIGCONT);
    REQUIRE(::waitid(P_PID, static_cast<id_t>(pid_), &info, WCONTINUED) == 0);
  }
  void collect() const { REQUIRE(::waitpid(pid_, nullptr, 0) == pid_); }

 private:
  pid_t pid_ = -1;
  ProcessId id_;
};

}  // namespace trainctl::comm
