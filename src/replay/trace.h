// What a rank computes and communicates in a step, as it was recorded without the other ranks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace trainctl::replay {

enum class Collective { all_reduce, all_gather, reduce_scatter, broadcast, all_to_all, send, receive, barrier };

/// One call of a rank, in which other ranks take part.
struct Communication {
  Collective kind = Collective::all_reduce;
  std::string axes;                   // of the device mesh, such as "tensor" or "data-shard"; "world": all
  double bytes = 0;                   // of the whole tensor, which each rank has or is to have
  std::vector<std::int64_t> members;  // ranks; of a transfer: the sender and the receiver

  bool is_transfer() const { return kind == Collective::send || kind == Collective::receive; }
  bool operator==(const Communication&) const = default;
};

/// A rank starts a communication, or waits until it is done.
struct Event {
  double compute_s = 0;  // seconds of computing since the event before
  bool waits = false;
  std::size_t communication = 0;  // its place in the trace's list

  bool operator==(const Event&) const = default;
};

struct RankTrace {
  std::int64_t rank = 0;
  std::vector<Communication> communications;  // in the order of their starts
  std::vector<Event> events;
  double compute_s_after = 0;  // seconds of computing after the last event
  /// That the rank is ready to receive is told to the sender behind what it sends: Gloo, which has one connection for
  /// both directions.
  bool receipts_queue = false;

  bool operator==(const RankTrace&) const = default;
};

/// Throws Error if the text is not a list of traces.
std::vector<RankTrace> read_traces(const std::string& json);
std::string format_traces(const std::vector<RankTrace>& traces);

/// Returns a trace with the median of each computing time. The traces are of the same events, at least one.
RankTrace median_of(const std::vector<RankTrace>& steps);

}  // namespace trainctl::replay
