// What a device attains at best, measured here: the roof over everything that runs on it.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

namespace trainctl::kernels {

/// Floating-point operations a second in large matrix products of this type; the best of a few: about 50 ms. 0 where
/// they aren't worth measuring: types that the CPU emulates.
double measured_peak_flops(c10::Device device, at::ScalarType dtype);

/// Bytes a second, read and written, of copies that no cache holds.
double measured_peak_bandwidth(c10::Device device);

}  // namespace trainctl::kernels
