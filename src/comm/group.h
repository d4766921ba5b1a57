// Members (processes, or threads of one) that compute together. A collective is called by all members of a group, in
// the same order and with tensors of the same sizes; where one fails or stays away the others throw, naming the
// operation.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "comm/communication_time.h"

namespace trainctl::comm {

enum class Reduce { sum, max, min };

/// A collective under way. Its tensors must not be touched before wait() has returned; the destructor waits too.
/// On a GPU wait() lets the current stream wait, not the host.
class Work {
 public:
  virtual ~Work() = default;
  virtual void wait() = 0;
  /// Whether wait() is known to return at once.
  virtual bool is_done() { return false; }
};

/// All tensors are dense and contiguous, on the group's device or on the host.
class Group {
 public:
  virtual ~Group() = default;
  virtual std::int64_t rank() const = 0;
  virtual std::int64_t size() const = 0;

  /// In place. Every member gets the same bits.
  [[nodiscard]] virtual std::unique_ptr<Work> all_reduce(at::Tensor tensor, Reduce reduce) = 0;
  /// `mine` [n] of every member, in the order of ranks, into `all` [size() * n].
  [[nodiscard]] virtual std::unique_ptr<Work> all_gather(at::Tensor all, at::Tensor mine) = 0;
  /// Part rank() of the sum over members of `all` [size() * n] into `mine` [n].
  [[nodiscard]] virtual std::unique_ptr<Work> reduce_scatter(at::Tensor mine, at::Tensor all) = 0;
  /// The tensor of member `root` into that of every other.
  [[nodiscard]] virtual std::unique_ptr<Work> broadcast(at::Tensor tensor, std::int64_t root) = 0;
  /// Part i of `mine` [size() * n] to member i, and part i of `all` [size() * n] from member i.
  [[nodiscard]] virtual std::unique_ptr<Work> all_to_all(at::Tensor all, at::Tensor mine) = 0;
  /// To and from one other member, which makes the opposite call with a tensor of the same size. Between two members
  /// the n-th send meets the n-th receive; there are no tags.
  [[nodiscard]] virtual std::unique_ptr<Work> isend(at::Tensor tensor, std::int64_t to) = 0;
  [[nodiscard]] virtual std::unique_ptr<Work> irecv(at::Tensor tensor, std::int64_t from) = 0;
  /// Returns when all members have called it.
  virtual void barrier() = 0;

  /// Returns the communication time of this member since the last call, in this group and all groups made with it.
  /// Returns zeros if no time is counted: for a process alone, and for threads of one process.
  virtual CommunicationTime take_communication_time() { return {}; }

  /// Which machine each member is on, in the order of ranks: equal numbers mean one machine.
  virtual const std::vector<std::int64_t>& nodes() const = 0;
  /// A group of some of the members, this one among them, ranked in that order (PyTorch's new_group). These call it,
  /// and no other member. `name` tells its collectives apart in reports: "tensor". This group outlives it.
  virtual std::unique_ptr<Group> split(const std::string& name, const std::vector<std::int64_t>& members) = 0;
};

/// The group of one process that trains alone: every collective is done at once.
std::unique_ptr<Group> alone();

}  // namespace trainctl::comm
