#include "task/mixing.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/randn.h>

#include <catch2/catch.hpp>

#include <cmath>

namespace trainctl::task::mixing_test {
namespace {

TEST_CASE("Beta(alpha, alpha) has its mean and variance, for small alpha too", "[task]") {
  for (const double alpha : {0.01, 0.2, 1.0, 4.0}) {
    runtime::Random random(runtime::mix(3, static_cast<std::uint64_t>(alpha * 100)));
    constexpr int kDraws = 40'000;
    double sum = 0;
    double squares = 0;
    for (int i = 0; i < kDraws; ++i) {
      const double value = draw_beta(alpha, random);
      REQUIRE((value >= 0 && value <= 1));
      sum += value;
      squares += (value - 0.5) * (value - 0.5);
    }
    const double variance = 1 / (4 * (2 * alpha + 1));
    INFO("alpha " << alpha);
    CHECK(sum / kDraws == Approx(0.5).margin(5 * std::sqrt(variance / kDraws)));
    CHECK(squares / kDraws == Approx(variance).epsilon(0.03));
  }
}

TEST_CASE("roll_by_one shifts the batch and keeps its layout", "[task]") {
  const at::Tensor images = at::randn({4, 3, 5, 6}).contiguous(at::MemoryFormat::ChannelsLast);
  const at::Tensor rolled = roll_by_one(images);
  CHECK(rolled.equal(images.roll(1, 0)));
  CHECK(rolled.is_contiguous(at::MemoryFormat::ChannelsLast));
  CHECK(roll_by_one(images.slice(0, 0, 1)).equal(images.slice(0, 0, 1)));
}

TEST_CASE("mixup blends each image with the one before, by its share", "[task]") {
  const at::Tensor images = at::randn({5, 3, 4, 4}).contiguous(at::MemoryFormat::ChannelsLast);
  runtime::Random random(11);
  const Mixed mixed = mixup(images, 0.4, random);
  const at::Tensor expected = images.roll(1, 0).mul(1 - mixed.share).add(images, mixed.share);
  CHECK(mixed.images.sub(expected).abs().max().item<double>() < 1e-6);
  CHECK(mixed.images.is_contiguous(at::MemoryFormat::ChannelsLast));
  runtime::Random again(11);
  CHECK(mixup(images, 0.4, again).images.equal(mixed.images));
}

TEST_CASE("cutmix pastes a rectangle of the image before, and its share is the area that is left", "[task]") {
  // Pixels tell which image they come from.
  const at::Tensor images = at::arange(4, at::kFloat).view({4, 1, 1, 1}).expand({4, 2, 7, 9}).contiguous();
  bool some_box = false;
  for (std::uint64_t key = 0; key < 60; ++key) {
    runtime::Random random(key);
    const Mixed mixed = cutmix(images, 1.0, random);
    const at::Tensor pasted = mixed.images.ne(images);  // [4, 2, 7, 9]
    CHECK(mixed.images.eq(images.roll(1, 0)).logical_or(pasted.logical_not()).all().item<bool>());
    CHECK(pasted.eq(pasted.slice(0, 0, 1).slice(1, 0, 1)).all().item<bool>());  // the same box everywhere
    const at::Tensor box = pasted.select(0, 0).select(0, 0).to(at::kDouble);    // [7, 9]
    CHECK(1 - box.mean().item<double>() == Approx(mixed.share));
    const double rows = box.amax(1).sum().item<double>();
    const double columns = box.amax(0).sum().item<double>();
    CHECK(box.sum().item<double>() == rows * columns);  // a full rectangle
    some_box = some_box || rows * columns > 0;
  }
  CHECK(some_box);
  CHECK(images.select(0, 2).eq(2).all().item<bool>());  // the input is as it was
}

}  // namespace
}  // namespace trainctl::task::mixing_test
