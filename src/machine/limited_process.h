// What a stranger's program computes, in a child process with limits of time, memory and files.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "core/error.h"

namespace trainctl::machine {

struct ProcessLimits {
  std::chrono::seconds time{3};                       // of the CPU, for one answer
  std::size_t memory_bytes = std::size_t{512} << 20;  // beside what this process has when the child starts
};

/// The program reached a limit, or a signal ended it: "takes more than 3 s; does it loop without end?".
class LimitReached : public core::Error {
 public:
  using core::Error::Error;
};

/// Answers requests in children that are copies of this process: they can open no file, write to none, and end with
/// this object. Any number of threads may ask; each that does at the same time gets a child of its own.
class LimitedProcess {
 public:
  using Answer = std::function<std::string(const std::string& request)>;

  explicit LimitedProcess(Answer answer, ProcessLimits limits = {});
  ~LimitedProcess();
  LimitedProcess(const LimitedProcess&) = delete;
  LimitedProcess& operator=(const LimitedProcess&) = delete;

  /// Returns the answer. What it threw is an Error here, too.
  std::string ask(const std::string& request);

 private:
  class Child;

  Answer answer_;
  ProcessLimits limits_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Child>> idle_;
};

}  // namespace trainctl::machine
