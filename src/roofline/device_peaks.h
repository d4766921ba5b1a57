// What a device attains at best, measured here: the roof over everything that runs on it.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <chrono>

#include "core/clock.h"
#include "runtime/device.h"

namespace trainctl::roofline {

/// Returns the seconds that `run` takes, up to the end of its work on the device.
template <class Run>
double time_run(c10::Device device, const Run& run, const core::Clock& now = &core::steady_now) {
  runtime::synchronize(device);
  const core::TimePoint begin = now();
  run();
  runtime::synchronize(device);
  return std::chrono::duration<double>(now() - begin).count();
}

/// Measures floating-point operations per second in large matrix products of this type, the best of a few: about 50 ms.
/// Returns 0 for a type that the CPU emulates.
double measured_peak_flops(c10::Device device, at::ScalarType dtype);

/// Measures bytes per second, read and written, of copies that no cache holds.
double measured_peak_bandwidth(c10::Device device);

}  // namespace trainctl::roofline
