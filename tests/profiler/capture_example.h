// Captures written down by hand, in microseconds.
#pragma once

#include <string>
#include <vector>

#include "profiler/record/capture.h"

namespace trainctl::testing {

class CaptureExample {
 public:
  CaptureExample() { capture.threads = {"training thread"}; }

  std::int32_t add(profiler::EventKind kind, const std::string& name, std::int32_t parent, double begin_us,
                   double end_us) {
    profiler::CapturedEvent event{.kind = kind, .name = capture.intern(name), .parent = parent};
    event.begin_ns = ns(begin_us);
    event.end_ns = ns(end_us);
    capture.events.push_back(event);
    const auto index = static_cast<std::int32_t>(capture.events.size()) - 1;
    if (name.starts_with(profiler::kStepSpan))
      capture.steps.push_back({.number = static_cast<std::int64_t>(capture.steps.size()),
                               .event = index,
                               .begin_ns = event.begin_ns,
                               .end_ns = event.end_ns});
    return index;
  }
  std::int32_t step(double begin_us, double end_us) {
    return add(profiler::EventKind::span, std::string(profiler::kStepSpan) + "0", -1, begin_us, end_us);
  }
  std::int32_t span(const std::string& name, std::int32_t parent, double begin_us, double end_us) {
    return add(profiler::EventKind::span, name, parent, begin_us, end_us);
  }
  std::int32_t op(const std::string& name, std::int32_t parent, double begin_us, double end_us) {
    return add(profiler::EventKind::op, name, parent, begin_us, end_us);
  }
  profiler::CapturedEvent& at(std::int32_t index) { return capture.events[static_cast<std::size_t>(index)]; }

  void allocate(double at_us, std::int32_t event, std::uintptr_t address, double mib) {
    now_ += bytes(mib);
    capture.allocations.push_back({.ns = ns(at_us),
                                   .event = event,
                                   .address = address,
                                   .bytes = bytes(mib),
                                   .allocated = now_,
                                   .reserved = 100 << 20});
  }
  void kernel(const std::string& name, std::int32_t event, double begin_us, double end_us,
              profiler::DeviceWork work = profiler::DeviceWork::kernel) {
    profiler::CapturedKernel kernel{
        .work = work, .name = capture.intern(name), .event = event, .grid = {}, .block = {}};
    kernel.begin_ns = ns(begin_us);
    kernel.end_ns = ns(end_us);
    capture.kernels.push_back(kernel);
  }

  profiler::Capture& done() {
    complete_nesting(capture, 0);
    return capture;
  }

  static std::int64_t ns(double us) { return static_cast<std::int64_t>(1e3 * us); }
  static std::int64_t bytes(double mib) { return static_cast<std::int64_t>(mib * (1 << 20)); }

  profiler::Capture capture;

 private:
  std::int64_t now_ = 0;
};

}  // namespace trainctl::testing
