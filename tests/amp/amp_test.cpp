#include "amp/amp.h"

#include <ATen/Context.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/full.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <catch2/catch.hpp>

#include <map>

#include "core/error.h"
#include "support/map_state.h"
#include "support/reference.h"

namespace trainctl::amp {
namespace {

using testing::MapState;

using LossScaling = config::OneOf<DynamicScalingConfig, StaticScalingConfig>;

AmpConfig fp16(LossScaling scaling) {
  return {.mode = Precision::fp16, .loss_scaling = std::move(scaling)};
}

/// As in tests/reference/optimizers.py.
std::map<std::string, AmpConfig> scaling_cases() {
  return {
      {"growing", fp16(DynamicScalingConfig{.init_scale = 16, .growth_interval = 3})},
      {"falling", fp16(DynamicScalingConfig{
                      .init_scale = 65536, .growth_factor = 3, .backoff_factor = 0.25, .growth_interval = 2})},
      {"at_the_limit", fp16(DynamicScalingConfig{.init_scale = 0x1p125, .growth_interval = 1})},
  };
}

/// What Step does around backward, on one weight: scaled loss, unscaled gradient, scale moved.
at::Tensor scaled_step(LossScaler& scaler, double slope) {
  const at::Tensor weight = at::ones({2}).requires_grad_();
  scaler.scale(weight.mul(slope).sum()).backward();
  const at::Tensor found_inf = scaler.unscale({weight.grad(), at::Tensor()});
  scaler.update(found_inf);
  if (found_inf.item<float>() == 0) CHECK(weight.grad().allclose(at::full({2}, slope), 1e-6));
  return found_inf;
}

TEST_CASE("the scale goes where torch.amp.GradScaler's goes for the same overflows", "[amp]") {
  const auto expected = testing::reference("optimizers.py", "scaling");
  for (const auto& [name, config] : scaling_cases()) {
    const at::Tensor overflows = expected.at(name + ".overflows");
    const at::Tensor scales = expected.at(name + ".scales");
    auto scaler = std::make_unique<LossScaler>(config, at::kCPU);
    std::int64_t num_overflows = 0;
    for (std::int64_t step = 0; step < scales.numel(); ++step) {
      INFO(name << " at step " << step);
      const bool overflow = overflows.eq(step).any().item<bool>();
      const double slope = overflow ? INFINITY : 1e-3 * static_cast<double>(step + 1);
      const bool found = scaled_step(*scaler, slope).item<float>() != 0;
      num_overflows += found;
      CHECK(found >= overflow);
      CHECK(scaler->current_scale() == scales[step].item<double>());
      CHECK(scaler->num_overflows() == num_overflows);
      MapState saved = MapState::of(*scaler);  // a resumed run goes on the same way
      scaler = std::make_unique<LossScaler>(config, at::kCPU);
      saved.restore_into(*scaler);
    }
  }
}

TEST_CASE("a static scale stays, and its overflows are still found and counted", "[amp]") {
  LossScaler scaler(fp16(StaticScalingConfig{.scale = 128}), at::kCPU);
  CHECK(scaler.scale(at::ones({})).item<float>() == 128);
  for (const double slope : {1.0, static_cast<double>(INFINITY), 2.0, static_cast<double>(NAN)})
    CHECK((scaled_step(scaler, slope).item<float>() != 0) == !std::isfinite(slope));
  CHECK(scaler.current_scale() == 128);
  CHECK(scaler.num_overflows() == 2);
}

TEST_CASE("a resumed run has the scale of its config, unless a dynamic one goes on", "[amp][regression]") {
  const auto resumed = [](const LossScaling& before, const LossScaling& after) {
    LossScaler first(fp16(before), at::kCPU);
    scaled_step(first, INFINITY);
    MapState saved = MapState::of(first);
    LossScaler second(fp16(after), at::kCPU);
    saved.restore_into(second);
    CHECK(second.num_overflows() == 1);
    return second.current_scale();
  };
  CHECK(resumed(StaticScalingConfig{.scale = 128}, StaticScalingConfig{.scale = 64}) == 64);
  CHECK(resumed(DynamicScalingConfig{.init_scale = 128}, StaticScalingConfig{.scale = 64}) == 64);
  CHECK(resumed(StaticScalingConfig{.scale = 128}, DynamicScalingConfig{.init_scale = 1024}) == 1024);
  CHECK(resumed(DynamicScalingConfig{.init_scale = 128}, DynamicScalingConfig{.init_scale = 1024}) == 64);
}

TEST_CASE("a shorter growth interval at a resume lets the scale grow at once", "[amp][regression]") {
  LossScaler first(fp16(DynamicScalingConfig{.init_scale = 128, .growth_interval = 10}), at::kCPU);
  for (int step = 0; step < 5; ++step) scaled_step(first, 1.0);
  MapState saved = MapState::of(first);
  LossScaler second(fp16(DynamicScalingConfig{.init_scale = 128, .growth_interval = 3}), at::kCPU);
  saved.restore_into(second);
  scaled_step(second, 1.0);
  CHECK(second.current_scale() == 256);
}

TEST_CASE("loss scaling is the identity for every other precision", "[amp]") {
  for (const Precision mode : {Precision::fp32, Precision::bf16}) {
    LossScaler scaler({.mode = mode, .loss_scaling = {}}, at::kCPU);
    const at::Tensor loss = at::ones({});
    CHECK_FALSE(scaler.is_active());
    CHECK(scaler.scale(loss).is_same(loss));
    CHECK_FALSE(scaler.unscale({loss}).defined());
    scaler.update({});
    CHECK(scaler.current_scale() == 1);
    CHECK(scaler.num_overflows() == 0);
    CHECK(MapState::of(scaler).tensors.empty());
  }
}

TEST_CASE("operators compute in the config's type inside the scope alone", "[amp]") {
  const at::Tensor input = at::ones({2, 3}), weight = at::ones({4, 3}).requires_grad_();
  const auto dtype = [&] { return at::linear(input, weight).scalar_type(); };
  for (const auto& [mode, expected] : {std::pair{Precision::fp32, at::kFloat},
                                       {Precision::bf16, at::kBFloat16},
                                       {Precision::fp16, at::kHalf},
                                       {Precision::fp8, at::kBFloat16}}) {
    const AmpConfig config{.mode = mode, .loss_scaling = {}};
    {
      const Autocast autocast(config, at::kCPU);
      CHECK(dtype() == expected);
      CHECK(kernels::Float8Products::are_wanted() == (mode == Precision::fp8));
      {
        const Autocast inner({.mode = Precision::bf16, .loss_scaling = {}}, at::kCPU);
        CHECK(dtype() == at::kBFloat16);
        CHECK(!kernels::Float8Products::are_wanted());
      }
      CHECK(dtype() == expected);
    }
    CHECK(dtype() == at::kFloat);
    CHECK(!kernels::Float8Products::are_wanted());
  }
  weight.mutable_grad().reset();
  {
    const Autocast autocast({.mode = Precision::bf16, .loss_scaling = {}}, at::kCPU);
    at::linear(input, weight).sum().backward();
  }
  CHECK(weight.grad().scalar_type() == at::kFloat);
}

TEST_CASE("a weight updated between two steps is seen by the second", "[amp]") {
  const AmpConfig config{.mode = Precision::bf16, .loss_scaling = {}};
  const at::Tensor input = at::ones({1, 3}), weight = at::ones({1, 3}).requires_grad_();
  const auto output = [&] {
    const Autocast autocast(config, at::kCPU);
    return at::linear(input, weight).item<float>();
  };
  CHECK(output() == 3);
  {
    const at::NoGradGuard no_grad;
    weight.zero_();
  }
  CHECK(output() == 0);
}

TEST_CASE("tf32 is refused on a CPU, and emulated types are announced", "[amp]") {
  CHECK_THROWS_AS(precision_warning({.mode = Precision::tf32, .loss_scaling = {}}, at::kCPU), core::Error);
  CHECK_THROWS_AS(apply_precision({.mode = Precision::tf32, .loss_scaling = {}}, at::kCPU), core::Error);
  CHECK(precision_warning({.mode = Precision::fp32, .loss_scaling = {}}, at::kCPU).empty());
  CHECK(precision_warning({.mode = Precision::bf16, .loss_scaling = {}}, c10::Device(at::kCUDA, 0)).empty());
  for (const Precision mode : {Precision::bf16, Precision::fp16, Precision::fp8}) {
    CHECK(precision_warning({.mode = mode, .loss_scaling = {}}, at::kCPU) ==
          slow_on_cpu(mode, machine::onednn_features(), machine::is_intel()));
    CHECK_THAT(slow_on_cpu(mode, {.avx512f = true}, true), Catch::Contains("emulated") && Catch::Contains("fp32"));
  }
}

TEST_CASE("bf16 without AMX is announced as slow on Intel's processors", "[amp]") {
  CHECK_THAT(slow_on_cpu(Precision::bf16, {.avx512_bf16 = true}, true),
             Catch::Contains("without AMX") && Catch::Contains("fp32"));
  CHECK(slow_on_cpu(Precision::bf16, {.avx512_bf16 = true}, false).empty());
  CHECK(slow_on_cpu(Precision::bf16, {.avx512_bf16 = true, .amx_bf16 = true}, true).empty());
  CHECK(slow_on_cpu(Precision::fp32, {}, true).empty());
}

TEST_CASE("tf32 is allowed where it is asked for, and forbidden elsewhere", "[amp]") {
  const c10::Device gpu(at::kCUDA, 0);
  apply_precision({.mode = Precision::tf32, .loss_scaling = {}}, gpu);
  CHECK(at::globalContext().allowTF32CuBLAS());
  CHECK(at::globalContext().allowTF32CuDNN());
  apply_precision({.mode = Precision::bf16, .loss_scaling = {}}, gpu);
  CHECK_FALSE(at::globalContext().allowTF32CuBLAS());
  CHECK_FALSE(at::globalContext().allowTF32CuDNN());
}

}  // namespace
}  // namespace trainctl::amp
