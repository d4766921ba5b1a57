#include "train/monitor/straggler_monitor.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/median.h"
#include "core/text.h"

namespace trainctl::train {
namespace {

constexpr double kMuchLonger = 1.2;  // times the others' median
constexpr double kWorthAWord = 2;    // milliseconds

std::string milliseconds(double ms) {
  return core::format_duration(ms / 1e3);
}

}  // namespace

std::optional<Straggler> find_straggler(const std::vector<RankTime>& ranks) {
  if (ranks.size() < 2) return {};
  const auto slowest = std::ranges::max_element(ranks, {}, &RankTime::own_ms);
  std::vector<double> others;
  for (auto rank = ranks.begin(); rank != ranks.end(); ++rank)
    if (rank != slowest) others.push_back(rank->own_ms);
  const double usual = core::median(std::move(others));
  const double longer = slowest->own_ms - usual;
  if (slowest->own_ms < kMuchLonger * usual || longer < kWorthAWord) return {};
  const auto rank = slowest - ranks.begin();
  std::string text = "rank " + std::to_string(rank) + " is slow: its part of a step takes " +
                     milliseconds(slowest->own_ms) + ", the others' median " + milliseconds(usual) +
                     "; they wait for it";
  if (slowest->data_wait_ms > longer / 2)
    text += ". It waits " + milliseconds(slowest->data_wait_ms) + " of that for data";
  return Straggler{.rank = rank, .text = std::move(text)};
}

StragglerMonitor::Window StragglerMonitor::take_window(const Throughput::Window& pace) {
  constexpr std::int64_t kNumbers = 4;
  const comm::CommunicationTime time = group_.take_communication_time();
  if (group_.size() == 1 || pace.step_ms <= 0) return {};
  const double steps = std::max(1.0, std::round(pace.total_ms / pace.step_ms));
  const double exposed = std::min(time.exposed_ms / steps, pace.step_ms);
  const at::Tensor mine = at::empty({kNumbers}, at::kDouble);
  auto* number = mine.mutable_data_ptr<double>();
  number[0] = time.busy_ms / steps;
  number[1] = exposed;
  number[2] = pace.step_ms - exposed;
  number[3] = pace.data_wait_ms;
  const at::Tensor all = at::empty({group_.size() * kNumbers}, at::kDouble);
  group_.all_gather(all, mine)->wait();

  Window window;
  std::vector<RankTime> ranks;
  for (std::int64_t rank = 0; rank < group_.size(); ++rank) {
    const auto* its = all.const_data_ptr<double>() + rank * kNumbers;
    ranks.push_back({.own_ms = its[2], .data_wait_ms = its[3]});
    window.communication_ms += its[0] / static_cast<double>(group_.size());
    window.exposed_ms += its[1] / static_cast<double>(group_.size());
  }
  if (time.busy_ms == 0) return window;  // nobody counts: a rank's own time isn't known
  const std::optional<Straggler> straggler = find_straggler(ranks);
  const std::int64_t who = straggler ? straggler->rank : -1;
  // Something else on its machine may slow a rank down for a moment.
  const bool is_lasting = straggler && who == std::exchange(slowest_, who);
  if (!straggler) {
    slowest_ = -1;
    told_ = -1;
  }
  if (is_lasting && who != std::exchange(told_, who)) window.straggler = straggler->text;
  return window;
}

}  // namespace trainctl::train
