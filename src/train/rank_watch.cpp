#include "train/rank_watch.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/text.h"

namespace trainctl {
namespace {

constexpr double kMuchLonger = 1.2;  // times the median
constexpr double kWorthAWord = 2;    // milliseconds

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>((values.size() - 1) / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

std::string milliseconds(double ms) {
  return format_duration(ms / 1e3);
}

}  // namespace

std::optional<Straggler> find_straggler(const std::vector<RankTime>& ranks) {
  if (ranks.size() < 2) return {};
  std::vector<double> own;
  for (const RankTime& rank : ranks) own.push_back(rank.own_ms);
  const auto slowest = std::max_element(own.begin(), own.end());
  const double usual = median(own);
  if (*slowest < kMuchLonger * usual || *slowest - usual < kWorthAWord) return {};
  const auto rank = slowest - own.begin();
  const double wait = ranks[static_cast<std::size_t>(rank)].data_wait_ms;
  std::string text = "rank " + std::to_string(rank) + " is slow: its part of a step takes " + milliseconds(*slowest) +
                     ", the median rank's " + milliseconds(usual) + "; the others wait for it";
  if (wait > (*slowest - usual) / 2) text += ". It waits " + milliseconds(wait) + " of that for data";
  return Straggler{.rank = rank, .text = std::move(text)};
}

RankWatch::Window RankWatch::take_window(const Pace::Window& pace) {
  constexpr std::int64_t kNumbers = 4;
  const CommunicationTime time = group_.take_communication_time();
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

}  // namespace trainctl
