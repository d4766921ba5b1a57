#include "plan/rehearsal/recorder.h"

#include <utility>

#include "runtime/device.h"

namespace trainctl::plan {

double Recorder::computed() {
  runtime::synchronize(device_);
  const Clock::time_point now = Clock::now();
  const std::chrono::duration<double> since = now - std::exchange(since_, now);
  return std::exchange(computed_s_, 0) + since.count();
}

void Recorder::aside(const std::function<void()>& run) {
  computed_s_ = computed();
  run();
  runtime::synchronize(device_);
  since_ = Clock::now();
}

void Recorder::begin_step(c10::Device device) {
  device_ = device;
  ++step_;
  trace_ = {.rank = rank_, .receipts_queue = device.is_cpu()};
  is_recording_ = true;
  computed();
}

Recorder::Number Recorder::start(replay::Communication what) {
  const Number number{.step = step_, .communication = trace_.communications.size()};
  if (!is_recording_) return number;
  trace_.events.push_back({.compute_s = computed(), .waits = false, .communication = number.communication});
  trace_.communications.push_back(std::move(what));
  since_ = Clock::now();
  return number;
}

void Recorder::wait(const Number& number) {
  if (!is_recording_ || number.step != step_) return;
  trace_.events.push_back({.compute_s = computed(), .waits = true, .communication = number.communication});
  since_ = Clock::now();
}

replay::RankTrace Recorder::end_step() {
  trace_.compute_s_after = computed();
  is_recording_ = false;
  return std::move(trace_);
}

}  // namespace trainctl::plan
