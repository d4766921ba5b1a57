#include "plan/memory/memory_tracker.h"

#include <algorithm>
#include <map>
#include <utility>

namespace trainctl::plan {

std::string_view name_of(Purpose purpose) {
  switch (purpose) {
    case Purpose::parameters:
      return "parameters";
    case Purpose::buffers:
      return "buffers";
    case Purpose::gradients:
      return "gradients";
    case Purpose::optimizer:
      return "optimizer";
    case Purpose::averages:
      return "averages";
    case Purpose::batches:
      return "batches";
    case Purpose::activations:
      return "activations";
    case Purpose::communication:
      return "communication";
    case Purpose::checkpoint:
      return "checkpoint";
    case Purpose::workspace:
      return "workspace";
  }
  return "";
}

std::int64_t HeldMemory::total() const {
  std::int64_t sum = 0;
  for (const std::int64_t value : bytes) sum += value;
  return sum;
}

std::int64_t MemoryTracker::take(std::int64_t bytes) {
  const std::lock_guard lock(mutex_);
  pieces_.push_back({.bytes = bytes, .taken = event_, .phase = phase_, .block = block_, .purpose = purpose_});
  held_ += bytes;
  record();
  return static_cast<std::int64_t>(pieces_.size()) - 1;
}

void MemoryTracker::give_back(std::int64_t piece) {
  const std::lock_guard lock(mutex_);
  Piece& given = pieces_[static_cast<std::size_t>(piece)];
  given.given_back = event_;
  held_ -= given.bytes;
  if (phase() == "backward" && given.block != 0) block_ = given.block;  // its activations are being used up
  record();
}

void MemoryTracker::record() {
  events_.push_back({.held = held_, .phase = phase_, .block = block_});
  ++event_;
}

MemoryTracker::Name MemoryTracker::name(std::string text) {
  const auto found = std::find(names_.begin(), names_.end(), text);
  if (found != names_.end()) return static_cast<Name>(found - names_.begin());
  names_.push_back(std::move(text));
  return names_.size() - 1;
}

void MemoryTracker::enter_phase(std::string phase) {
  phase_ = name(std::move(phase));
}

void MemoryTracker::enter_block(std::string block) {
  block_ = name(std::move(block));
}

void MemoryTracker::assign(const at::Tensor& tensor, Purpose purpose) {
  const std::int64_t piece = runtime::hollow_piece(tensor);
  if (piece < 0) return;
  std::optional<Purpose>& known = pieces_[static_cast<std::size_t>(piece)].purpose;
  if (!known) known = purpose;
}

Purpose MemoryTracker::purpose_of(const Piece& piece) const {
  if (piece.purpose) return *piece.purpose;
  const std::string& phase = names_[piece.phase];
  return phase == "forward" || phase == "recompute" ? Purpose::activations : Purpose::workspace;
}

bool MemoryTracker::is_held(std::int64_t piece, std::int64_t moment) const {
  const Piece& asked = pieces_[static_cast<std::size_t>(piece)];
  return asked.taken <= moment && moment < asked.given_back;
}

void MemoryTracker::resize(std::int64_t piece, std::int64_t bytes) {
  const std::lock_guard lock(mutex_);
  Piece& resized = pieces_[static_cast<std::size_t>(piece)];
  const std::int64_t more = bytes - resized.bytes;
  resized.bytes = bytes;
  for (std::int64_t event = resized.taken; event < std::min(resized.given_back, event_); ++event)
    events_[static_cast<std::size_t>(event)].held += more;
  if (resized.given_back > event_) held_ += more;
}

std::int64_t MemoryTracker::highest(std::int64_t begin, std::int64_t end) const {
  const auto highest = std::max_element(events_.begin() + begin, events_.begin() + end,
                                        [](const Event& one, const Event& other) { return one.held < other.held; });
  return highest - events_.begin();
}

MemoryTracker::Peak MemoryTracker::peak(std::int64_t begin, std::int64_t end) const {
  Peak peak;
  if (begin >= end) return peak;
  const std::int64_t moment = highest(begin, end);
  const Event& event = events_[static_cast<std::size_t>(moment)];
  peak.moment = {.phase = names_[event.phase], .block = names_[event.block]};
  std::map<Name, std::int64_t> by_block;
  for (const Piece& piece : pieces_) {
    if (piece.taken > moment) break;
    if (piece.given_back <= moment) continue;
    const Purpose purpose = purpose_of(piece);
    peak.held.bytes[static_cast<std::size_t>(purpose)] += piece.bytes;
    if (purpose == Purpose::activations) by_block[piece.block] += piece.bytes;
  }
  for (const auto& [block, bytes] : by_block)
    peak.blocks.push_back({.block = names_[block], .activation_bytes = bytes});
  return peak;
}

std::vector<TimelinePoint> MemoryTracker::timeline(std::int64_t begin, std::int64_t end, std::size_t points) const {
  std::vector<TimelinePoint> curve;
  const std::int64_t stretch = std::max<std::int64_t>(1, (end - begin) / static_cast<std::int64_t>(points));
  for (std::int64_t from = begin; from < end; from += stretch) {
    const auto first = events_.begin() + from;
    const auto last = events_.begin() + std::min(from + stretch, end);
    const auto highest =
        std::max_element(first, last, [](const Event& one, const Event& other) { return one.held < other.held; });
    curve.push_back(
        {.event = highest - events_.begin() - begin, .held_bytes = highest->held, .phase = names_[highest->phase]});
  }
  return curve;
}

}  // namespace trainctl::plan
