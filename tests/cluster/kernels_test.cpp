#include "cluster/kernels.h"

#include <catch2/catch.hpp>

#include "cases.h"

namespace trainctl::cluster {
namespace {

double flops(const Product& product) {
  return 2 * product.m * product.n * product.k * product.batch;
}

TEST_CASE("no product is faster than the power limit or the memory allows", "[cluster]") {
  const Cluster cluster = machines("h100", "megatron");
  const Kernels kernels(cluster);
  for (const double size : {128.0, 1024.0, 4096.0, 16384.0}) {
    const Product product{.m = size, .n = size, .k = size};
    const double time = kernels.product(product);
    CHECK(time >= flops(product) / (cluster.device.sustained->bf16 * 1e12));
    CHECK(time >= 3 * size * size * 2 / (cluster.device.memory_gbs * 1e9));
  }
  const Product large{.m = 16384, .n = 16384, .k = 16384};
  CHECK(flops(large) / kernels.product(large) == Approx(cluster.device.sustained->bf16 * 1e12).epsilon(0.01));
}

TEST_CASE("one tile more than the multiprocessors take begins another wave", "[cluster]") {
  Cluster cluster = machines("a100_80", "megatron");
  cluster.surface.kernel_us = 0;
  cluster.device.sustained = Rates{.bf16 = 1e6};
  cluster.device.memory_gbs = 1e6;
  const Kernels kernels(cluster);
  const double full = kernels.product({.m = 108 * 256, .n = 128, .k = 8192});
  CHECK(kernels.product({.m = 107 * 256, .n = 128, .k = 8192}) == Approx(full));
  CHECK(kernels.product({.m = 109 * 256, .n = 128, .k = 8192}) > 1.1 * full);
}

TEST_CASE("rows that are no multiple of 64 features are read at a lower rate", "[cluster]") {
  CHECK(alignment_efficiency(14400) == 1);  // 225 x 64
  CHECK(alignment_efficiency(80) < alignment_efficiency(96));
  CHECK(alignment_efficiency(50257) < alignment_efficiency(50264));
}

TEST_CASE("weight gradients are read along the features of both operands, whatever the number of tokens", "[cluster]") {
  Cluster cluster = machines("a100_80", "megatron");
  cluster.device.sustained = Rates{.bf16 = 1e6};
  cluster.device.memory_gbs = 1e6;
  const Kernels kernels(cluster);
  CHECK(weight_gradient_sizes(4096, 1024 + 8, 2048).aligned_to == 8);
  const double aligned = kernels.weight_gradient(weight_gradient_sizes(8192, 8192, 4096));
  CHECK(kernels.weight_gradient(weight_gradient_sizes(8192, 8192, 4095)) == Approx(aligned).epsilon(0.01));
  CHECK(kernels.weight_gradient(weight_gradient_sizes(8192, 8191, 4096)) > 10 * aligned);
}

TEST_CASE("a stream takes its bytes over the memory's bandwidth", "[cluster]") {
  Cluster cluster = machines("h100", "megatron");
  cluster.surface.memory_efficiency = 1;
  const Kernels kernels(cluster);
  CHECK(kernels.stream(3350e9, 0) == Approx(1));
  CHECK(kernels.stream(0, 2) == Approx(2 * cluster.surface.kernel_us * 1e-6));
}

TEST_CASE("a device with attention rates of its own takes no other device's", "[cluster]") {
  const Cluster gb300 = machines("gb300", "transformer_engine");
  CHECK(gb300.attention_scale == 1);
  CHECK(gb300.attention.forward_128.front() == 1373);
  const Cluster b300 = machines("b300", "transformer_engine");
  CHECK(b300.attention_scale == 2.2);
  CHECK(b300.attention.forward_128.front() == 315);
}

TEST_CASE("attention follows its table, and few heads leave multiprocessors idle", "[cluster]") {
  const Cluster cluster = machines("h100", "transformer_engine");
  const Kernels kernels(cluster);
  const Transformer model = llama3(32, 4096, 32, 14336);
  const double work = 4.0 * 32 * 8192 * 8192 * 128 / 2;
  const double time = kernels.attention(model, 32, 8192, 8192).forward - kernels.kernel_time();
  CHECK(work / time == Approx(644e12));
  CHECK(kernels.attention(model, 1, 1024, 1024).forward > kernels.attention(model, 8, 1024, 1024).forward / 3);
}

}  // namespace
}  // namespace trainctl::cluster
