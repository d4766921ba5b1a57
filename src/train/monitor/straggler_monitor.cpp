#include "train/monitor/straggler_monitor.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <cmath>
#include <map>
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
  std::map<std::int64_t, std::vector<std::size_t>> stages;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) stages[ranks[rank].stage].push_back(rank);
  std::optional<Straggler> worst;
  for (const auto& [stage, members] : stages) {
    if (members.size() < 2) continue;
    const std::size_t rank = *std::ranges::max_element(members, {}, [&](std::size_t one) { return ranks[one].own_ms; });
    const RankTime& slowest = ranks[rank];
    std::vector<double> others;
    for (const std::size_t one : members)
      if (one != rank) others.push_back(ranks[one].own_ms);
    const double usual = core::median(std::move(others));
    const double longer = slowest.own_ms - usual;
    if (slowest.own_ms < kMuchLonger * usual || longer < kWorthAWord) continue;
    if (worst && worst->longer_ms >= longer) continue;
    const std::string of_stage = stages.size() > 1 ? " of stage " + std::to_string(stage) : "";
    worst = {.rank = static_cast<std::int64_t>(rank),
             .longer_ms = longer,
             .text = "rank " + std::to_string(rank) + of_stage + " is slow: its part of a step takes " +
                     milliseconds(slowest.own_ms) + ", the others' median " + milliseconds(usual) +
                     "; they wait for it"};
    if (slowest.data_wait_ms > longer / 2)
      worst->text += ". It waits " + milliseconds(slowest.data_wait_ms) + " of that for data";
  }
  return worst;
}

StragglerMonitor::Window StragglerMonitor::take_window(const Throughput::Window& pace) {
  constexpr std::int64_t kNumbers = 5;
  const comm::CommunicationTime time = world_.take_communication_time();
  if (world_.size() == 1 || pace.step_ms <= 0) return {};
  const double steps = std::max(1.0, std::round(pace.total_ms / pace.step_ms));
  const double exposed = std::min(time.exposed_ms / steps, pace.step_ms);
  const at::Tensor mine = at::empty({kNumbers}, at::kDouble);
  auto* number = mine.mutable_data_ptr<double>();
  number[0] = time.busy_ms / steps;
  number[1] = exposed;
  number[2] = pace.step_ms - exposed;
  number[3] = pace.data_wait_ms;
  number[4] = static_cast<double>(stage_);
  const at::Tensor all = at::empty({world_.size() * kNumbers}, at::kDouble);
  world_.all_gather(all, mine)->wait();

  Window window;
  std::vector<RankTime> ranks;
  for (std::int64_t rank = 0; rank < world_.size(); ++rank) {
    const auto* its = all.const_data_ptr<double>() + rank * kNumbers;
    ranks.push_back({.own_ms = its[2], .data_wait_ms = its[3], .stage = std::llround(its[4])});
    window.communication_ms += its[0] / static_cast<double>(world_.size());
    window.exposed_ms += its[1] / static_cast<double>(world_.size());
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
