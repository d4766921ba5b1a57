// Where threads meet for a collective.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <torch/csrc/distributed/c10d/Types.hpp>
#include <vector>

namespace trainctl::comm {

/// What one member brings to a collective, and where it wants the result.
struct ThreadCall {
  enum class Kind { all_reduce, reduce, broadcast, all_gather, reduce_scatter, barrier };

  Kind kind = Kind::barrier;
  c10d::ReduceOp::RedOpType reduce = c10d::ReduceOp::SUM;
  std::int64_t root = 0;
  /// all_reduce, reduce, broadcast: in place. all_gather: the member's part. reduce_scatter: a part for each member.
  std::vector<at::Tensor> inputs;
  /// all_gather: each member's part. reduce_scatter: the sum of this member's parts.
  std::vector<at::Tensor> outputs;
};

class ThreadRendezvous {
 public:
  using Future = c10::intrusive_ptr<c10::ivalue::Future>;

  ThreadRendezvous(int num_members, std::chrono::milliseconds timeout);

  /// The member's next collective. The future has its tensors, or the error that all members get.
  Future enter(int member, ThreadCall call);
  void leave(int member);
  void set_timeout(std::chrono::milliseconds timeout);
  /// Fails what is overdue, until all members have left.
  void watch();

 private:
  using Clock = std::chrono::steady_clock;
  struct Meeting {
    std::vector<ThreadCall> calls;  // of each member
    std::vector<Future> futures;    // null: not come yet
    int num_came = 0;
    Clock::time_point begin;
    Clock::time_point deadline;
  };

  std::string absent_from(const Meeting& meeting) const;
  std::string overdue(Clock::time_point now) const;
  std::vector<Future> fail(const std::string& why);

  const int num_members_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::chrono::milliseconds timeout_;
  std::vector<std::int64_t> num_entered_;  // by member
  std::vector<char> has_left_;
  std::map<std::int64_t, Meeting> meetings_;  // by number
  std::string failure_;
};

/// Computes a collective from what all members brought.
void compute(std::vector<ThreadCall>& calls);
/// "all_reduce of 4 float tensors …" where the calls don't fit together; else "".
std::string mismatch(const ThreadCall& a, const ThreadCall& b);
std::string describe(const ThreadCall& call);

}  // namespace trainctl::comm
