// The tables of devices, networks, kernels and frameworks: those built in, and a user's own.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "cluster/hardware.h"
#include "cluster/software.h"
#include "config/problems.h"

namespace trainctl::cluster {

/// Bytes to quantize one value, with the copy that the backward pass reads.
struct QuantizationBytes {
  double current = 7.5;
  double delayed = 4.3;
  double tensorwise = 4;
  double rowwise = 9;
  double rowwise_efficiency = 1;
  double rowwise_rescale_bytes = 0;
  double mx = 6.8;
  double nvfp4 = 8.5;
  std::string source;

  static constexpr auto fields() {
    using config::field;
    using config::non_negative;
    using C = QuantizationBytes;
    return config::Fields{
        field<&C::current>("Scale of the tensor itself.", non_negative),
        field<&C::delayed>("Scale of earlier steps.", non_negative),
        field<&C::tensorwise>("One scale for each tensor.", non_negative),
        field<&C::rowwise>("One scale for each row.", non_negative),
        field<&C::rowwise_efficiency>("Rate of forward products with scales by row against one scale.",
                                      config::fraction & config::positive),
        field<&C::rowwise_rescale_bytes>("Bytes to rescale each value that the backward pass's products write.",
                                         non_negative),
        field<&C::mx>("One scale for each block of 32.", non_negative),
        field<&C::nvfp4>("One scale for each block of 16, four bits.", non_negative),
        field<&C::source>("Where the figures are from."),
    };
  }

  double at(Quantization kind) const;
};

struct FailureRate {
  std::string name;
  double device_hours = 50'000;
  std::string source;

  static constexpr auto fields() {
    using config::field;
    using C = FailureRate;
    return config::Fields{
        field<&C::name>("Name.", config::non_empty & config::required),
        field<&C::device_hours>("Mean hours between interruptions, of one device.",
                                config::positive & config::required),
        field<&C::source>("Where the figure is from.", config::non_empty & config::required),
    };
  }
};

/// What happens after an interruption.
struct Recovery {
  std::string failures = "llama3";
  double restart_s = 600;
  double storage_gbs = 2;
  double repair_hours = 24;
  double state_bytes = 12;
  std::string source;

  static constexpr auto fields() {
    using config::field;
    using config::positive;
    using C = Recovery;
    return config::Fields{
        field<&C::failures>("Entry of failures that is taken.", config::non_empty),
        field<&C::restart_s>("Seconds from an interruption until the run computes again.", config::non_negative),
        field<&C::storage_gbs>("Bandwidth to storage, GB/s for each node.", positive),
        field<&C::repair_hours>("Hours until a node is back.", config::non_negative),
        field<&C::state_bytes>("Bytes of a checkpoint for each parameter.", positive),
        field<&C::source>("Where the figures are from."),
    };
  }
};

/// One file, or all of them together. An entry replaces the one of its name.
struct Tables {
  std::vector<Device> devices;
  std::vector<Network> networks;
  Latencies latencies;
  std::vector<Surface> surfaces;
  std::vector<AttentionKernel> attention;
  QuantizationBytes quantization;
  std::vector<Software> software;
  std::vector<FailureRate> failures;
  Recovery recovery;

  static constexpr auto fields() {
    using config::field;
    using C = Tables;
    return config::Fields{
        field<&C::devices>("Devices."),
        field<&C::networks>("Networks."),
        field<&C::latencies>("Costs of messages."),
        field<&C::surfaces>("Efficiency of kernels by shape."),
        field<&C::attention>("Rates of fused attention."),
        field<&C::quantization>("Bytes to quantize a value."),
        field<&C::software>("Frameworks."),
        field<&C::failures>("Mean times between interruptions."),
        field<&C::recovery>("What happens after an interruption."),
    };
  }
};

/// Returns the tables that are built in.
const Tables& builtin_tables();

/// Adds the entries of a user's file, which has the built-in files' form, and returns the names of its networks.
/// Throws ConfigError with every mistake, each with line and column.
std::vector<std::string> add_file(Tables& tables, const std::filesystem::path& path);

/// Reads one document into `tables`, whose entries it adds or replaces.
void add_text(Tables& tables, std::string_view text, const std::string& name, config::Problems& problems);

/// Return the entry of this name. Throw ConfigError that lists the names, and names the nearest.
const Device& find_device(const Tables& tables, std::string_view name);
const Network& find_network(const Tables& tables, std::string_view name);
const Software& find_software(const Tables& tables, std::string_view name);
const FailureRate& find_failures(const Tables& tables, std::string_view name);

/// All that a prediction takes from the tables.
struct Cluster {
  Device device;  // its sustained rates are known
  Network network;
  Latencies latencies;
  Surface surface;
  Software software;
  AttentionKernel attention;  // of software; empty where attention is not fused
  double attention_scale = 1;
  QuantizationBytes quantization;
};

struct ClusterNames {
  std::string device;
  std::string network = {};  // empty: the device's
  std::string software = "trainctl";
};

/// Throws ConfigError for a name that no table has.
Cluster cluster_of(const Tables& tables, const ClusterNames& names);
/// Returns the cluster with a framework that no table has as it is.
Cluster cluster_of(const Tables& tables, const ClusterNames& names, const Software& software);

}  // namespace trainctl::cluster
