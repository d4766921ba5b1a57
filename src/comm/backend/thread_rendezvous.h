// Where threads meet for a collective.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <chrono>
#include <compare>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <torch/csrc/distributed/c10d/Types.hpp>
#include <utility>
#include <vector>

namespace trainctl::comm {

/// What one member brings to a collective, and where it wants the result.
struct ThreadCall {
  enum class Kind { all_reduce, reduce, broadcast, all_gather, reduce_scatter, all_to_all, barrier, transfer };

  Kind kind = Kind::barrier;
  c10d::ReduceOp::RedOpType reduce = c10d::ReduceOp::SUM;
  std::int64_t root = 0;
  /// all_reduce, reduce, broadcast: in place. all_gather: the member's part. reduce_scatter, all_to_all: a part for
  /// each member. transfer: the tensor that the sender gives, or that the receiver fills.
  std::vector<at::Tensor> inputs;
  /// all_gather, all_to_all: each member's part. reduce_scatter: the sum of this member's parts.
  std::vector<at::Tensor> outputs;
};

/// Who meets: all members, or one that sends and one that receives. Each channel counts its own meetings.
struct ThreadChannel {
  int sender = -1;  // -1: all members
  int receiver = -1;

  auto operator<=>(const ThreadChannel&) const = default;
};

class ThreadRendezvous {
 public:
  using Future = c10::intrusive_ptr<c10::ivalue::Future>;

  ThreadRendezvous(int num_members, std::chrono::milliseconds timeout);

  /// The member's next collective, or its next transfer on a channel. The future has its tensors, or the error that all
  /// members get.
  Future enter(int member, ThreadCall call, ThreadChannel channel = {});
  void leave(int member);
  void set_timeout(std::chrono::milliseconds timeout);
  /// Fails what is overdue, until all members have left.
  void watch();

 private:
  using Clock = std::chrono::steady_clock;
  struct Meeting {
    std::vector<int> members;       // who comes
    std::vector<ThreadCall> calls;  // of each of them
    std::vector<Future> futures;    // null: not come yet
    std::size_t num_came = 0;
    Clock::time_point begin;
    Clock::time_point deadline;
  };

  using Number = std::pair<ThreadChannel, std::int64_t>;

  static std::string absent_from(const Meeting& meeting);
  Meeting new_meeting(const ThreadChannel& channel) const;
  /// The first of the meeting's members that left before it came here; "" if there is none.
  std::string gone_from(const Number& number, const Meeting& meeting);
  std::string overdue(Clock::time_point now) const;
  std::vector<Future> fail(const std::string& why);

  const int num_members_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::chrono::milliseconds timeout_;
  std::map<std::pair<ThreadChannel, int>, std::int64_t> num_entered_;  // by channel and member
  std::vector<char> has_left_;
  std::map<Number, Meeting> meetings_;
  std::string failure_;
};

/// Computes a collective from what all members brought.
void compute(std::vector<ThreadCall>& calls);
/// "all_reduce of 4 float tensors …" where the calls don't fit together; else "".
std::string mismatch(const ThreadCall& a, const ThreadCall& b);
std::string describe(const ThreadCall& call);

}  // namespace trainctl::comm
