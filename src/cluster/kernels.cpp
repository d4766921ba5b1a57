#include "cluster/kernels.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>

namespace trainctl::cluster {
namespace {

struct Tile {
  double rows;
  double columns;
};

constexpr std::array<Tile, 8> kTiles{
    {{256, 128}, {128, 256}, {128, 128}, {256, 64}, {64, 256}, {128, 64}, {64, 128}, {64, 64}}};
constexpr double kLargestTile = 256 * 128;
constexpr double kShortestSplit = 512;  // inputs of a tile below which k is not split

double bytes_of(Precision precision) {
  if (precision == Precision::fp8) return 1;
  if (precision == Precision::nvfp4) return 0.5625;  // with a scale for each 16 values
  return 2;
}

/// The time that a tile takes to begin counts in inputs, of which narrower values take more.
double values_per_word(Precision precision) {
  if (precision == Precision::fp8) return 2;
  if (precision == Precision::nvfp4) return 4;
  return 1;
}

double tile_efficiency(const Surface& surface, double area) {
  if (area == kLargestTile) return 1;
  if (area == kLargestTile / 2) return surface.tile_128_efficiency;
  if (area == kLargestTile / 4) return surface.tile_64_efficiency;
  return surface.tile_32_efficiency;
}

/// Returns the rate between the lengths of a table, in TFLOP/s.
double rate_at(const std::vector<double>& lengths, const std::vector<double>& rates, double length) {
  if (length <= lengths.front()) return rates.front() * std::max(0.2, length / lengths.front());
  for (std::size_t i = 0; i + 1 < lengths.size(); ++i) {
    if (length > lengths[i + 1]) continue;
    const double share = std::log(length / lengths[i]) / std::log(lengths[i + 1] / lengths[i]);
    return rates[i] * (1 - share) + rates[i + 1] * share;
  }
  return rates.back();
}

}  // namespace

double alignment_efficiency(double features) {
  constexpr std::array<double, 7> by_bits{0.085, 0.17, 0.33, 0.67, 0.87, 0.95, 1};
  const auto size = static_cast<std::uint64_t>(features);
  return size == 0 ? 1 : by_bits[static_cast<std::size_t>(std::min(6, std::countr_zero(size)))];
}

Product weight_gradient_sizes(double outputs, double inputs, double tokens) {
  const std::uint64_t shared = std::gcd(static_cast<std::uint64_t>(outputs), static_cast<std::uint64_t>(inputs));
  return {.m = outputs, .n = inputs, .k = tokens, .aligned_to = static_cast<double>(shared)};
}

double Kernels::tiled_time(const Product& product) const {
  const Surface& surface = cluster_.surface;
  const double processors = static_cast<double>(cluster_.device.num_multiprocessors);
  const double rate =
      cluster_.device.clock.at(product.precision, product.quantization) * 1e12 * surface.clock_share / processors;
  const double fixed_k = surface.fixed_k * values_per_word(product.precision);
  double best = std::numeric_limits<double>::infinity();
  for (const Tile& tile : kTiles) {
    const double area = tile.rows * tile.columns;
    const double efficiency = tile_efficiency(surface, area);
    const double tiles = std::ceil(product.m / tile.rows) * std::ceil(product.n / tile.columns) * product.batch;
    for (const double splits : {1.0, 2.0, 4.0, 8.0}) {
      if (splits > 1 && (tiles * splits > 2 * processors || product.k / splits < kShortestSplit)) break;
      double time =
          std::ceil(tiles * splits / processors) * 2 * area * (product.k / splits + fixed_k) / rate / efficiency;
      if (splits > 1) time += 2 * splits * product.m * product.n * 4 * product.batch / memory_rate();
      best = std::min(best, time);
    }
  }
  return best;
}

double Kernels::product(const Product& sizes) const {
  Product product = sizes;
  product.m = std::max(1.0, product.m);
  product.n = std::max(1.0, product.n);
  product.k = std::max(1.0, product.k);
  const double aligned = product.aligned_to > 0
                             ? alignment_efficiency(product.aligned_to)
                             : std::min(alignment_efficiency(product.n), alignment_efficiency(product.k));
  const double flops = 2 * product.m * product.n * product.k * product.batch;
  const double bytes = (product.m + product.n) * product.k * bytes_of(product.precision) * product.batch +
                       product.m * product.n * product.output_bytes * product.batch;
  const double sustained = cluster_.device.sustained->at(product.precision, product.quantization) * 1e12;
  return std::max({tiled_time(product) / aligned, flops / sustained, bytes / memory_rate()}) + kernel_time();
}

double Kernels::weight_gradient(const Product& sizes) const {
  const bool narrow = sizes.precision == Precision::fp8 || sizes.precision == Precision::nvfp4;
  return product(sizes) / (narrow ? 1 : cluster_.surface.weight_gradient_efficiency);
}

double Kernels::stream(double bytes, double num_kernels) const {
  const KernelHabits& habits = cluster_.software.kernels;
  if (habits.stream_efficiency > 0)
    return bytes / (cluster_.device.memory_gbs * 1e9 * habits.stream_efficiency) +
           num_kernels * habits.stream_kernel_us * 1e-6;
  return bytes / memory_rate() + num_kernels * kernel_time();
}

ForwardBackward Kernels::attention(const Transformer& model, double heads, double length, double kv_length) const {
  const AttentionKernel& table = cluster_.attention;
  const bool small = model.size_of_head() <= 64;
  const double flops =
      4 * heads * length * kv_length * static_cast<double>(model.size_of_head()) * (model.causal ? 0.5 : 1.0);
  const double blocks = std::ceil(heads * std::ceil(length / 128));
  const double used = std::min(1.0, blocks / static_cast<double>(cluster_.device.num_multiprocessors));
  const double scale = cluster_.attention_scale * 1e12 * used;
  const double forward = rate_at(table.lengths, small ? table.forward_64 : table.forward_128, length) * scale;
  const double backward = rate_at(table.lengths, small ? table.backward_64 : table.backward_128, length) * scale;
  return {.forward = flops / forward + kernel_time(), .backward = 2.5 * flops / backward + 3 * kernel_time()};
}

}  // namespace trainctl::cluster
