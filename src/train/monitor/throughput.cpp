#include "train/monitor/throughput.h"

#include <algorithm>
#include <utility>

#include "core/median.h"

namespace trainctl::train {
namespace {

constexpr std::int64_t kMaxSteps = 20'000;
constexpr std::int64_t kMaxWarmup = 10;

void add(Work& sum, const Work& work) {
  sum.samples += work.samples;
  sum.tokens += work.tokens;
}

double per_second(std::int64_t count, double ms) {
  return static_cast<double>(count) / (ms / 1e3);
}

}  // namespace

void Throughput::start() {
  last_ = now_();
}

void Throughput::pause_done() {
  last_ = now_();
}

void Throughput::step_done(const Work& work, double data_wait_ms) {
  const core::TimePoint now = now_();
  const StepTime step{std::chrono::duration<double, std::milli>(now - last_).count(), data_wait_ms, work};
  last_ = now;
  ++num_steps_;
  ++window_steps_;
  window_.ms += step.ms;
  window_.wait_ms += step.wait_ms;
  add(window_.work, work);
  if (static_cast<std::int64_t>(steps_.size()) < kMaxSteps)
    steps_.push_back(step);
  else
    steps_[next_++ % kMaxSteps] = step;
}

Throughput::Window Throughput::take_window() {
  if (window_steps_ == 0) return {};
  const double steps = static_cast<double>(window_steps_);
  const Window window{window_.ms / steps, per_second(window_.work.samples, window_.ms),
                      per_second(window_.work.tokens, window_.ms), window_.wait_ms / steps, window_.ms};
  window_ = {};
  window_steps_ = 0;
  return window;
}

Throughput::Summary Throughput::summary() const {
  const std::int64_t warmup = num_steps_ > kMaxSteps ? 0 : std::min(kMaxWarmup, num_steps_ / 10);
  if (num_steps_ == warmup) return {};
  std::vector<double> times;
  StepTime total;
  for (auto step = steps_.begin() + warmup; step != steps_.end(); ++step) {
    times.push_back(step->ms);
    total.ms += step->ms;
    total.wait_ms += step->wait_ms;
    add(total.work, step->work);
  }
  return {core::median(std::move(times)), per_second(total.work.samples, total.ms),
          per_second(total.work.tokens, total.ms), total.wait_ms / total.ms};
}

}  // namespace trainctl::train
