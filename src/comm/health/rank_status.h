// What a rank tells the others of itself, and what they make of it when one fails. Knows no store and no LibTorch.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "comm/failure.h"
#include "comm/health/flight_recorder.h"
#include "comm/launch/process.h"

namespace trainctl::comm {

/// How a rank stands, as of its last sign of life.
struct RankStatus {
  enum class Status { running, failed, left };
  struct Place {
    std::int64_t sequence = 0;
    std::string collective;  // "all_reduce #153 of all ranks (4.0 MiB)"
    bool is_done = false;
    double age_s = 0;  // since it began
  };

  std::int64_t rank = 0;
  std::string host;
  std::int64_t node_rank = 0;
  std::int64_t local_rank = 0;
  ProcessId process;
  ProcessId launcher;     // that started it, where one on its node did
  std::int64_t beat = 0;  // counts its signs of life
  std::int64_t step = 0;
  Status status = Status::running;
  bool knows_failure = false;           // of another rank
  std::string doing;                    // told where it makes no step any more: "in data for 31 s"
  std::map<std::string, Place> places;  // by group
};

std::string to_json(const RankStatus& standing);
RankStatus standing_from_json(const std::string& text);
std::string to_json(const Failure& failure);
Failure failure_from_json(const std::string& text);

/// The places of a journal's last collectives.
std::map<std::string, RankStatus::Place> places_of(const FlightRecorder& journal);

/// Returns the ranks whose processes have ended, although their last status is `running` without knows_failure. Finds
/// processes of this machine only.
std::vector<std::int64_t> exited_ranks(const std::vector<RankStatus>& standings);

/// Whether every rank that runs has told what it does, or is stopped and can't.
bool all_have_reported(const std::vector<RankStatus>& standings);

/// Returns a text about the ranks that differ from the rest while no rank makes a step. It names the collective in
/// which the others wait. The comparison takes the ranks' last collectives, and `doing`.
std::string describe_stall(const std::vector<RankStatus>& standings);

/// All that a rank knows when it has failed.
struct Evidence {
  enum class Store { reachable, silent, lost };

  std::int64_t rank = 0;
  std::string message;                               // its own
  std::optional<CollectiveEvent> failed_collective;  // its first
  std::optional<Failure> first;                      // the first failure that a rank, or another's root cause, told
  std::vector<RankStatus> standings;                 // of all ranks, in their order
  std::vector<std::int64_t> ended;                   // processes of this machine that ended without a word
  std::vector<std::int64_t> silent;                  // no sign of life while this rank looked
  Store store = Store::reachable;
  bool store_is_served = false;  // by the launcher, else by rank 0
  std::string launcher;
};

/// "rank 1 on host".
std::string name_of(const RankStatus& standing);

/// Who failed first, and how: what this rank should end with.
Failure judge(const Evidence& evidence);

}  // namespace trainctl::comm
