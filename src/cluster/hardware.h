// What is known of devices and of what joins them: the entries of devices.yaml, networks.yaml and kernels.yaml.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cluster/layout.h"
#include "config/field.h"

namespace trainctl::cluster {

/// TFLOP/s by the values that products read.
struct Rates {
  double bf16 = 1;
  std::optional<double> fp8;
  std::optional<double> mxfp8;
  std::optional<double> nvfp4;

  static constexpr auto fields() {
    using config::field;
    return config::Fields{
        field<&Rates::bf16>("TFLOP/s in bf16 and fp16.", config::positive & config::required),
        field<&Rates::fp8>("TFLOP/s in fp8; without: those of bf16.", config::positive),
        field<&Rates::mxfp8>("TFLOP/s in fp8 with a scale for each block of 32; without: those of fp8.",
                             config::positive),
        field<&Rates::nvfp4>("TFLOP/s in NVFP4; without: those of bf16.", config::positive)};
  }

  double at(Precision precision, Quantization quantization = Quantization::none) const {
    if (precision == Precision::fp8 && quantization == Quantization::mx) return mxfp8.value_or(fp8.value_or(bf16));
    if (precision == Precision::fp8) return fp8.value_or(bf16);
    if (precision == Precision::nvfp4) return nvfp4.value_or(bf16);
    return bf16;
  }
};

struct Device {
  std::string name;
  std::int64_t num_multiprocessors = 1;
  double power_watts = 1;
  double memory_gbs = 1;
  double memory_gib = 1;
  Rates peak;
  Rates clock;
  std::optional<Rates> sustained;
  std::string sustained_of;
  std::string surface = "a100";
  std::string network;
  std::string source;

  static constexpr auto fields() {
    using config::field;
    using config::positive;
    using config::required;
    using C = Device;
    return config::Fields{
        field<&C::name>("Name, as --device takes it.", config::non_empty & required),
        field<&C::num_multiprocessors>("Multiprocessors; tiles of a product are dealt to them.",
                                       config::at_least(1) & required),
        field<&C::power_watts>("Power limit.", positive & required),
        field<&C::memory_gbs>("Bandwidth of the device's memory, GB/s.", positive & required),
        field<&C::memory_gib>("Memory that a process can allocate, GiB.", positive & required),
        field<&C::peak>("Data sheet, without sparsity.", required),
        field<&C::clock>("Best that short products attain.", required),
        field<&C::sustained>("What long products attain within the power limit, on random data."),
        field<&C::sustained_of>("Device whose sustained rates, times the ratio of the power limits, are this one's."),
        field<&C::surface>("Efficiency surface of the kernels."),
        field<&C::network>("Network that such devices usually have.", config::non_empty & required),
        field<&C::source>("Where the figures are from.", config::non_empty & required),
    };
  }
};

/// Bus bandwidth of the fast link for groups that use a part of it.
struct SmallGroup {
  std::int64_t ranks = 2;
  double link_gbs = 1;

  static constexpr auto fields() {
    using config::field;
    using C = SmallGroup;
    return config::Fields{
        field<&C::ranks>("Most ranks of the group within a node.", config::at_least(1) & config::required),
        field<&C::link_gbs>("GB/s per device.", config::positive & config::required)};
  }
};

/// Devices of a node, or of a rack, are joined by a fast link; nodes by one network port for each device.
struct Network {
  std::string name;
  std::int64_t domain = 8;
  double link_gbs = 1;
  std::vector<SmallGroup> small_groups;
  std::optional<double> gather_gbs;
  std::optional<double> gather_step_us;
  double port_gbs = 1;
  double port_efficiency = 0.92;
  double multiprocessor_share = 0.12;
  std::string source;

  static constexpr auto fields() {
    using config::field;
    using config::positive;
    using config::required;
    using C = Network;
    return config::Fields{
        field<&C::name>("Name.", config::non_empty & required),
        field<&C::domain>("Devices that the fast link joins: those of a node.", config::at_least(1) & required),
        field<&C::link_gbs>("Bus bandwidth of collectives within a node, GB/s per device.", positive & required),
        field<&C::small_groups>("Bandwidths of groups that have few ranks within a node."),
        field<&C::gather_gbs>("Bus bandwidth of gathers and reduce-scatters, if it is below link_gbs.", positive),
        field<&C::gather_step_us>("Microseconds of their ring's step within a node; without: latencies.step_within_us.",
                                  config::non_negative),
        field<&C::port_gbs>("Bandwidth between nodes, GB/s per device.", positive & required),
        field<&C::port_efficiency>("Share of port_gbs that collectives attain.", config::fraction & positive),
        field<&C::multiprocessor_share>("Share of the device that a collective takes from kernels that run beside it.",
                                        config::fraction),
        field<&C::source>("Where the figures are from.", config::non_empty & required),
    };
  }
};

/// What a message costs beside its bytes, and how unequal devices are.
struct Latencies {
  double base_us = 25;
  double step_within_us = 5;
  double step_between_us = 14;
  double tree_level_us = 28;
  double straggler_sigma = 0.02;
  std::string source;

  static constexpr auto fields() {
    using config::field;
    using config::non_negative;
    using C = Latencies;
    return config::Fields{
        field<&C::base_us>("Microseconds of the first message of a collective.", non_negative),
        field<&C::step_within_us>("Microseconds of a ring's step within a node.", non_negative),
        field<&C::step_between_us>("Microseconds of a ring's step between nodes, and of a transfer.", non_negative),
        field<&C::tree_level_us>("Microseconds of a tree's level between nodes.", non_negative),
        field<&C::straggler_sigma>("Standard deviation of the devices' speeds, relative to their mean.",
                                   config::below_one),
        field<&C::source>("Where the figures are from."),
    };
  }
};

/// What kernels attain, by shape: the constants that benchmarks/fit_plan_surface.py fits.
struct Surface {
  std::string name;
  double clock_share = 1;
  double fixed_k = 0;
  double tile_128_efficiency = 1;
  double tile_64_efficiency = 1;
  double tile_32_efficiency = 0.5;
  double memory_efficiency = 1;
  double kernel_us = 5;
  double launch_us = 5;
  double optimizer_us = 0;
  double weight_gradient_efficiency = 1;
  double synchronization_us = 10;
  std::string source;

  static constexpr auto fields() {
    using config::field;
    using config::non_negative;
    using config::positive;
    using C = Surface;
    return config::Fields{
        field<&C::name>("Name.", config::non_empty & config::required),
        field<&C::clock_share>("Share of the device's `clock` rate that full tiles attain.", positive),
        field<&C::fixed_k>("Inputs' worth of time that each tile takes to begin and to end.", non_negative),
        field<&C::tile_128_efficiency>("Rate of 128 x 128 tiles against 256 x 128.", config::fraction & positive),
        field<&C::tile_64_efficiency>("Rate of 64 x 128 tiles against 256 x 128.", config::fraction & positive),
        field<&C::tile_32_efficiency>("Rate of 64 x 64 tiles against 256 x 128.", config::fraction & positive),
        field<&C::memory_efficiency>("Share of the memory's bandwidth that kernels attain.",
                                     config::fraction & positive),
        field<&C::kernel_us>("Microseconds of a kernel beside its work.", non_negative),
        field<&C::launch_us>("Microseconds of the host for each kernel.", non_negative),
        field<&C::optimizer_us>("Microseconds of the host for an optimizer step.", non_negative),
        field<&C::weight_gradient_efficiency>("Rate of products of weight gradients against the others.", positive),
        field<&C::synchronization_us>("Microseconds of a launch that waits for its kernel.", non_negative),
        field<&C::source>("Where the figures are from.", config::non_empty & config::required),
    };
  }
};

/// TFLOP/s of fused attention on some devices.
struct MeasuredAttention {
  std::vector<std::string> devices;
  std::vector<double> lengths;
  std::vector<double> forward_128;
  std::vector<double> backward_128;
  std::vector<double> forward_64;
  std::vector<double> backward_64;

  static constexpr auto fields() {
    using config::field;
    using config::positive;
    using config::required;
    using C = MeasuredAttention;
    return config::Fields{
        field<&C::devices>("Devices of these rates.", config::non_empty & required),
        field<&C::lengths>("As in the kernel's own table.", config::non_empty & positive & required),
        field<&C::forward_128>("As in the kernel's own table.", config::non_empty & positive & required),
        field<&C::backward_128>("As in the kernel's own table.", config::non_empty & positive & required),
        field<&C::forward_64>("As in the kernel's own table.", config::non_empty & positive & required),
        field<&C::backward_64>("As in the kernel's own table.", config::non_empty & positive & required),
    };
  }
};

/// TFLOP/s of fused attention on one device, and how other devices compare.
struct AttentionKernel {
  struct Scale {
    std::string device;
    double factor = 1;

    static constexpr auto fields() {
      using config::field;
      return config::Fields{
          field<&Scale::device>("Device.", config::non_empty & config::required),
          field<&Scale::factor>("Rate against the table's device.", config::positive & config::required)};
    }
  };

  std::string name;
  std::string device;
  std::vector<double> lengths;
  std::vector<double> forward_128;
  std::vector<double> backward_128;
  std::vector<double> forward_64;
  std::vector<double> backward_64;
  std::vector<Scale> scales;
  std::vector<MeasuredAttention> measured;
  std::string source;

  static constexpr auto fields() {
    using config::field;
    using config::positive;
    using config::required;
    using C = AttentionKernel;
    return config::Fields{
        field<&C::name>("Name.", config::non_empty & required),
        field<&C::device>("Device of the table.", config::non_empty & required),
        field<&C::lengths>("Tokens of a sequence, ascending; rates between them follow their logarithm.",
                           config::non_empty & positive & required),
        field<&C::forward_128>("TFLOP/s of the causal forward pass at these lengths, heads of 128.",
                               config::non_empty & positive & required),
        field<&C::backward_128>("The same of the backward pass.", config::non_empty & positive & required),
        field<&C::forward_64>("TFLOP/s of the causal forward pass at these lengths, heads of 64.",
                              config::non_empty & positive & required),
        field<&C::backward_64>("The same of the backward pass.", config::non_empty & positive & required),
        field<&C::scales>("Other devices; those that are not listed compare as their sustained products do."),
        field<&C::measured>("Devices that have rates of their own."),
        field<&C::source>("Where the figures are from.", config::non_empty & required),
    };
  }
};

}  // namespace trainctl::cluster
