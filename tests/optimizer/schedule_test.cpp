#include "optimizer/schedule.h"

#include <catch2/catch.hpp>

#include <cmath>
#include <map>

#include "support/map_state.h"
#include "support/reference.h"

namespace trainctl::optimizer::schedule_test {
namespace {

constexpr double kLr = 0.4;

struct Case {
  ScheduleConfig config;
  RunLength run;
};

Case in_steps(ScheduleShapeConfig shape, std::int64_t total_steps, std::int64_t warmup = 0, double start = 0) {
  return {.config = {.shape = std::move(shape), .warmup = warmup, .warmup_start_factor = start},
          .run = {.total_steps = total_steps, .steps_per_epoch = 3}};
}

Case in_epochs(ScheduleShapeConfig shape, RunLength run, std::int64_t warmup = 0, double start = 0) {
  return {.config = {.shape = std::move(shape),
                     .warmup = warmup,
                     .warmup_start_factor = start,
                     .interval = LrInterval::epoch},
          .run = run};
}

/// As in tests/reference/optimizers.py.
std::map<std::string, Case> cases() {
  const OneCycleScheduleConfig linear_cycle{
      .pct_start = 0.17, .div_factor = 10, .final_div_factor = 100, .anneal = Anneal::linear};
  const WsdScheduleConfig wsd_sqrt{.decay_ratio = 0.3, .decay = DecayShape::sqrt, .min_factor = 0.05};
  const WsdScheduleConfig wsd_cosine{.decay_ratio = 0.5, .decay = DecayShape::cosine, .min_factor = 0.1};
  return {
      {"constant", in_steps(ConstantScheduleConfig{}, 10)},
      {"step", in_steps(StepScheduleConfig{.step_size = 7, .gamma = 0.3}, 40)},
      {"step_epochs", in_epochs(StepScheduleConfig{.step_size = 2, .gamma = 0.5}, {37, 5})},
      {"step_warmup", in_steps(StepScheduleConfig{.step_size = 7, .gamma = 0.3}, 40, 6, 0.1)},
      {"multistep", in_steps(MultistepScheduleConfig{.milestones = {5, 5, 20, 31}, .gamma = 0.2}, 40)},
      {"multistep_epochs", in_epochs(MultistepScheduleConfig{.milestones = {2, 5}, .gamma = 0.1}, {43, 6})},
      {"linear", in_steps(LinearScheduleConfig{}, 40)},
      {"linear_floor", in_steps(LinearScheduleConfig{.end_factor = 0.25}, 33)},
      {"linear_warmup", in_steps(LinearScheduleConfig{.end_factor = 0.1}, 40, 8, 0.25)},
      {"cosine", in_steps(CosineScheduleConfig{}, 50)},
      {"cosine_floor", in_steps(CosineScheduleConfig{.min_lr = 0.01}, 1000)},
      {"cosine_warmup", in_steps(CosineScheduleConfig{.min_lr = 0.001}, 100, 10, 0.01)},
      {"cosine_warmup_zero", in_steps(CosineScheduleConfig{}, 100, 10)},
      {"cosine_epochs_warmup", in_epochs(CosineScheduleConfig{}, {68, 7}, 2, 0.1)},
      {"polynomial", in_steps(PolynomialScheduleConfig{.power = 0.9}, 30)},
      {"polynomial_square", in_steps(PolynomialScheduleConfig{.power = 2}, 30)},
      {"polynomial_warmup", in_steps(PolynomialScheduleConfig{}, 30, 5, 0.2)},
      {"one_cycle", in_steps(OneCycleScheduleConfig{}, 60)},
      {"one_cycle_linear", in_steps(linear_cycle, 47)},
      {"one_cycle_falling", in_steps(OneCycleScheduleConfig{.pct_start = 0}, 20)},
      {"one_cycle_epochs", in_epochs(OneCycleScheduleConfig{}, {43, 5})},
      {"wsd_linear", in_steps(WsdScheduleConfig{}, 50)},
      {"wsd_sqrt", in_steps(wsd_sqrt, 100, 10)},
      {"wsd_cosine", in_steps(wsd_cosine, 33)},
  };
}

std::map<std::string, PlateauScheduleConfig> plateau_cases() {
  return {
      {"lower", {.factor = 0.5, .patience = 2}},
      {"cooldown", {.factor = 0.1, .patience = 0, .cooldown = 3, .min_lr = 1e-3}},
      {"higher", {.better = Better::higher, .factor = 0.3, .patience = 1, .threshold = 0.05, .min_lr = 1e-6}},
  };
}

void check_close(double value, double expected) {
  CHECK_THAT(value, Catch::WithinAbs(expected, 1e-12 * std::max(1.0, std::abs(expected))));
  if (expected != 0 && std::abs(expected) > 1e-9) CHECK_THAT(value / expected, Catch::WithinAbs(1, 1e-12));
}

TEST_CASE("learning rates are those of stock PyTorch's schedulers", "[optimizer]") {
  const auto expected = testing::reference("optimizers.py", "schedules");
  for (const auto& [name, one] : cases()) {
    const at::Tensor rates = expected.at(name);
    REQUIRE(rates.numel() == one.run.total_steps);
    for (std::int64_t step = 0; step < rates.numel(); ++step) {
      INFO(name << " at step " << step);
      check_close(lr_at(one.config, kLr, step, one.run), rates[step].item<double>());
    }
  }
  const at::Tensor metrics = expected.at("plateau.metrics");
  for (const auto& [name, config] : plateau_cases()) {
    const at::Tensor rates = expected.at("plateau." + name);
    Plateau plateau(config, kLr);
    for (std::int64_t i = 0; i < metrics.numel(); ++i) {
      INFO(name << " at evaluation " << i);
      plateau.observe(metrics[i].item<double>());
      check_close(kLr * plateau.factor(), rates[i].item<double>());
      Plateau restored(config, kLr);  // goes on as if it had seen everything
      testing::MapState::of(plateau).restore_into(restored);
      plateau = restored;
    }
  }
}

TEST_CASE("warm-up and one cycle compose: the shape begins where the warm-up ends", "[optimizer]") {
  const Case whole = in_steps(OneCycleScheduleConfig{}, 50, 10, 0.5);
  const Case rest = in_steps(OneCycleScheduleConfig{}, 40);
  CHECK(lr_at(whole.config, kLr, 0, whole.run) == 0.5 * kLr);
  CHECK_THAT(lr_at(whole.config, kLr, 5, whole.run), Catch::WithinRel(0.75 * kLr, 1e-14));
  for (std::int64_t step = 0; step < 40; ++step)
    CHECK(lr_at(whole.config, kLr, step + 10, whole.run) == lr_at(rest.config, kLr, step, rest.run));
}

TEST_CASE("learning rates stay finite and within their bounds at odd lengths, and past the end", "[optimizer]") {
  for (const auto& [name, one] : cases()) {
    for (const std::int64_t total : {1, 2, 3, 10}) {
      const RunLength run{.total_steps = total, .steps_per_epoch = 4};
      for (std::int64_t step = 0; step < 25; ++step) {
        INFO(name << ", " << total << " steps, at " << step);
        const double rate = lr_at(one.config, kLr, step, run);
        CHECK(std::isfinite(rate));
        CHECK(rate >= 0);
        CHECK(rate <= kLr * (1 + 1e-12));
      }
    }
  }
  for (const auto& [name, one] : cases()) {
    if (name.starts_with("step") || name.starts_with("multistep")) continue;  // counted in units, not over the run
    INFO(name);
    const std::int64_t end = 2 * one.run.total_steps;
    CHECK(lr_at(one.config, kLr, end, one.run) == lr_at(one.config, kLr, end + 100, one.run));
  }
}

TEST_CASE("a plateau needs a gain beyond its threshold, in either direction", "[optimizer]") {
  const auto reduced_by = [](Better better, std::vector<double> metrics) {
    Plateau plateau({.better = better, .factor = 0.5, .patience = 0, .threshold = 0.1}, 1.0);
    for (const double metric : metrics) plateau.observe(metric);
    return plateau.factor();
  };
  for (const double flat : {0.5, 0.48, 0.52, 0.549}) CHECK(reduced_by(Better::higher, {0.5, flat}) == 0.5);
  CHECK(reduced_by(Better::higher, {0.5, 0.56}) == 1);
  for (const double flat : {0.5, 0.52, 0.48, 0.451}) CHECK(reduced_by(Better::lower, {0.5, flat}) == 0.5);
  CHECK(reduced_by(Better::lower, {0.5, 0.44}) == 1);
}

TEST_CASE("a first metric that isn't finite is no improvement, as in ReduceLROnPlateau", "[optimizer][regression]") {
  for (const Better better : {Better::lower, Better::higher})
    for (const double first : {better == Better::lower ? INFINITY : -INFINITY, NAN}) {
      Plateau plateau({.better = better, .factor = 0.5, .patience = 0}, 1.0);
      plateau.observe(first);
      CHECK(plateau.factor() == 0.5);
      plateau.observe(0.5);
      CHECK(plateau.factor() == 0.5);
    }
}

}  // namespace
}  // namespace trainctl::optimizer::schedule_test
