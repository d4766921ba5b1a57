// What the tensors of an abstract run would hold, piece by piece: when each was taken and given back, and what for.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <limits>
#include <mutex>
#include <string>
#include <vector>

#include "plan/dry_run.h"
#include "runtime/fake_tensor.h"

namespace trainctl::plan {

/// Pieces are numbered by the order in which they are taken, moments by the events (takings and returns) before them.
class MemoryTracker final : public runtime::FakeTensorAccount {
 public:
  std::int64_t take(std::int64_t bytes) override;
  void give_back(std::int64_t piece) override;

  /// Where the run is now. Both hold until the next call.
  void enter_phase(std::string phase);
  void enter_block(std::string block);
  const std::string& phase() const { return names_[phase_]; }

  /// Says what the memory of a tensor is for. The first to say so is right.
  void assign(const at::Tensor& tensor, Purpose purpose);
  /// From now on, all that is taken is for this, until reset.
  void set_purpose(std::optional<Purpose> purpose) { purpose_ = purpose; }

  std::int64_t now() const { return event_; }
  /// The number of the piece that is taken next.
  std::int64_t next_piece() const { return static_cast<std::int64_t>(pieces_.size()); }
  bool is_held(std::int64_t piece, std::int64_t moment) const;
  /// Corrects the size of a piece that was an estimate when it was taken.
  void resize(std::int64_t piece, std::int64_t bytes);
  /// The moment in [begin, end) when most is held.
  std::int64_t highest(std::int64_t begin, std::int64_t end) const;
  /// What is held when most is, of the moments in [begin, end), and where that is.
  struct Peak {
    HeldMemory held;
    Moment moment;
    std::vector<BlockMemory> blocks;
  };
  Peak peak(std::int64_t begin, std::int64_t end) const;
  std::int64_t held_now() const { return held_; }
  /// At most `points`, as near to the curve as that allows: each stretch's highest moment.
  std::vector<TimelinePoint> timeline(std::int64_t begin, std::int64_t end, std::size_t points) const;

 private:
  using Name = std::size_t;  // place in names_
  struct Piece {
    std::int64_t bytes = 0;
    std::int64_t taken = 0;
    std::int64_t given_back = std::numeric_limits<std::int64_t>::max();
    Name phase = 0;
    Name block = 0;
    std::optional<Purpose> purpose;
  };
  struct Event {
    std::int64_t held = 0;  // after it
    Name phase = 0;
    Name block = 0;
  };

  Name name(std::string text);
  void record();
  Purpose purpose_of(const Piece& piece) const;

  std::mutex mutex_;  // of what may be given back on another thread
  std::vector<Piece> pieces_;
  std::vector<Event> events_;
  std::vector<std::string> names_{""};
  std::int64_t event_ = 0;
  std::int64_t held_ = 0;
  Name phase_ = 0;
  Name block_ = 0;
  std::optional<Purpose> purpose_;
};

}  // namespace trainctl::plan
