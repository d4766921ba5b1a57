// A process that is one rank.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <string>

namespace trainctl::cli {

inline constexpr int kInheritedDescriptor = 3;

/// A process that runs one rank. A rank other than the first writes its output to a file in memory until it opens its
/// log in the run directory. The rank then moves the output to the log, and leaves the log's path in the file in
/// memory.
class RankProcess {
 public:
  /// Starts this command again with `environment` beside the process's own; it finds `inherited` (-1: none) as
  /// kInheritedDescriptor. Where this process ends, so does it.
  RankProcess(std::int64_t rank, const std::map<std::string, std::string>& environment, int inherited);
  RankProcess(RankProcess&& other) noexcept;
  RankProcess& operator=(RankProcess&&) = delete;
  ~RankProcess();

  pid_t pid() const { return pid_; }
  bool is_running() const { return is_running_; }
  void signal(int number) const;
  void set_ended(int status);
  /// 128 + n where signal n ended it.
  int exit_code() const;
  bool was_killed() const;
  /// What it wrote, or where its log is.
  std::string output() const;

 private:
  pid_t pid_ = -1;
  int output_ = -1;
  int status_ = 0;
  bool is_running_ = true;
};

}  // namespace trainctl::cli
