// Times of single kernels on one device.
#pragma once

#include "cluster/tables.h"
#include "cluster/transformer.h"

namespace trainctl::cluster {

/// Sizes of a product [m, k] x [k, n].
struct Product {
  double m = 1;
  double n = 1;
  double k = 1;
  double batch = 1;
  Precision precision = Precision::bf16;
  Quantization quantization = Quantization::none;
  double output_bytes = 2;  // of each element, with what is read to add to it
  double aligned_to = 0;    // features in a row that decide how memory is read; 0: the worst of n and k
};

struct ForwardBackward {
  double forward = 0;
  double backward = 0;
};

/// Computes times in seconds. Keeps references to the cluster, which must outlive it.
class Kernels {
 public:
  explicit Kernels(const Cluster& cluster) : cluster_(cluster) {}

  /// Time of a matrix product: tiles are dealt to the multiprocessors in waves, on several splits of k where few tiles
  /// are. It is no shorter than the power limit and the memory's bandwidth allow.
  double product(const Product& product) const;
  /// Time of a product of weight gradients, whose kernels are slower than those of the other products.
  double weight_gradient(const Product& product) const;
  /// Time of `num_kernels` kernels that move `bytes` and compute little.
  double stream(double bytes, double num_kernels = 1) const;
  /// Times of fused attention of `heads` heads (times samples) for `length` queries and `kv_length` keys.
  ForwardBackward attention(const Transformer& model, double heads, double length, double kv_length) const;
  /// Seconds of a kernel beside its work.
  double kernel_time() const { return cluster_.surface.kernel_us * 1e-6; }
  /// Seconds of the host for each kernel.
  double launch_time() const { return cluster_.surface.launch_us * 1e-6 * cluster_.software.kernels.launch_scale; }

 private:
  double memory_rate() const { return cluster_.device.memory_gbs * 1e9 * cluster_.surface.memory_efficiency; }
  double tiled_time(const Product& product) const;

  const Cluster& cluster_;
};

/// Returns the sizes of a product of weight gradients. Both operands have a token's features in a row.
Product weight_gradient_sizes(double outputs, double inputs, double tokens);

/// Returns the share of a product's rate at which rows of `features` 16-bit values are read. Rows that do not begin on
/// a sector's boundary touch more sectors. Rows of odd sizes need narrow loads.
double alignment_efficiency(double features);

}  // namespace trainctl::cluster
