// Adam in one pass against LibTorch's in double precision: on a CPU, as the GPU's kernel thread by thread, on a GPU.
#include "kernels/adam.h"

#include <ATen/Parallel.h>
#include <ATen/ops/_fused_adam.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/full.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randn.h>

#include <catch2/catch.hpp>

#include "kernels/cuda_grid.h"
#include "kernels/device/emulated_grid.h"
#include "kernels/device/operators.h"
#include "kernels/exactness.h"
#include "support/gpu.h"

namespace trainctl::kernels::adam_test {
namespace {

struct Case {
  bool is_decoupled = true;
  bool has_largest = false;
  bool is_smoothed = false;
  double weight_decay = 0.1;
  double factor = 1;  // 1: none is given
  bool found_inf = false;
  double beta1 = 0.9;
  bool reads_lr = false;  // from the device
};

using Update = std::function<void(const AdamLists& lists, const AdamRule& rule, const at::Tensor& factor,
                                  const at::Tensor& found_inf)>;

AdamLists drawn(const std::vector<std::int64_t>& sizes, const Case& one, std::int64_t offset) {
  AdamLists lists;
  const auto list = [&](const auto& draw) {
    std::vector<at::Tensor> tensors;
    for (const std::int64_t size : sizes) tensors.push_back(draw(size + offset).narrow(0, offset, size));
    return tensors;
  };
  const auto normal = [](std::int64_t size) { return at::randn({size}); };
  const auto uniform = [](std::int64_t size) { return at::rand({size}); };
  lists.parameters = list(normal);
  lists.gradients = list(normal);
  lists.averages = list(normal);
  lists.squares = list(uniform);
  if (one.has_largest) lists.largest = list(uniform);
  if (one.is_smoothed) lists.smoothed = list(normal);
  for (std::size_t i = 0; i < sizes.size(); ++i)
    lists.steps.push_back(at::full({}, static_cast<double>(1 + 7 * i), at::kFloat));
  lists.smoothing = one.is_smoothed ? 0.01 : 0;
  return lists;
}

std::vector<at::Tensor> in_double(const std::vector<at::Tensor>& tensors) {
  std::vector<at::Tensor> doubles;
  for (const at::Tensor& tensor : tensors) doubles.push_back(tensor.to(at::kDouble).clone());
  return doubles;
}

std::vector<at::Tensor> on(c10::Device device, std::vector<at::Tensor> tensors) {
  for (at::Tensor& tensor : tensors) tensor = tensor.to(device);
  return tensors;
}

void compare(const char* what, const std::vector<at::Tensor>& actual, const std::vector<at::Tensor>& exact) {
  for (std::size_t i = 0; i < actual.size(); ++i) {
    INFO(what << " of tensor " << i << ", " << actual[i].numel() << " elements");
    if (actual[i].numel() > 0) CHECK(error_of(actual[i].cpu(), exact[i], 0.1) <= 2e-6);
  }
}

void check(const std::vector<std::int64_t>& sizes, const Case& one, const Update& update,
           c10::Device device = c10::kCPU, std::int64_t offset = 0) {
  CAPTURE(one.is_decoupled, one.has_largest, one.is_smoothed, one.weight_decay, one.factor, one.found_inf, offset);
  AdamLists lists = drawn(sizes, one, offset);
  std::vector<at::Tensor> parameters = in_double(lists.parameters), gradients = in_double(lists.gradients);
  std::vector<at::Tensor> averages = in_double(lists.averages), squares = in_double(lists.squares);
  std::vector<at::Tensor> largest = in_double(lists.largest), smoothed = in_double(lists.smoothed);
  for (const at::Tensor& gradient : gradients) gradient.mul_(one.factor);
  const AdamRule rule{.lr = 0.01,
                      .beta1 = one.beta1,
                      .beta2 = 0.999,
                      .epsilon = 1e-8,
                      .weight_decay = one.weight_decay,
                      .is_decoupled = one.is_decoupled};
  const auto plainly = [&](const auto& step) {
    step(parameters, gradients, averages, squares, largest, lists.steps, rule.lr, rule.beta1, rule.beta2,
         rule.weight_decay, rule.epsilon, one.has_largest, /*maximize=*/false, std::nullopt, std::nullopt);
  };
  if (!one.found_inf)
    one.is_decoupled ? plainly([](auto&&... arguments) { at::_fused_adamw_(arguments...); })
                     : plainly([](auto&&... arguments) { at::_fused_adam_(arguments...); });
  for (std::size_t i = 0; i < smoothed.size(); ++i) smoothed[i].lerp_(parameters[i], lists.smoothing);

  lists = {.parameters = on(device, lists.parameters),
           .gradients = on(device, lists.gradients),
           .averages = on(device, lists.averages),
           .squares = on(device, lists.squares),
           .largest = on(device, lists.largest),
           .smoothed = on(device, lists.smoothed),
           .steps = on(device, lists.steps),
           .smoothing = lists.smoothing};
  const std::vector<at::Tensor> before = in_double(lists.gradients);
  AdamRule told = rule;
  if (one.reads_lr) told.device_lr = at::full({}, 4 * rule.lr, at::kDouble).to(device), told.lr = 0.25;
  update(lists, told, one.factor == 1 ? at::Tensor() : at::full({}, one.factor, at::kFloat).to(device),
         one.found_inf ? at::full({1}, 1, at::kFloat).to(device) : at::Tensor());
  compare("the parameter", lists.parameters, parameters);
  compare("the average", lists.averages, averages);
  compare("the square", lists.squares, squares);
  compare("the largest square", lists.largest, largest);
  compare("the moving average", lists.smoothed, smoothed);
  compare("the gradient", lists.gradients, before);
}

void check_all(const Update& update, c10::Device device = c10::kCPU) {
  const std::vector<std::int64_t> sizes{1, 3, 4, 100, 0, 1021, 40000};
  for (const bool is_decoupled : {true, false})
    for (const bool has_largest : {false, true})
      for (const bool is_smoothed : {false, true})
        for (const bool found_inf : {false, true})
          check(sizes,
                {.is_decoupled = is_decoupled,
                 .has_largest = has_largest,
                 .is_smoothed = is_smoothed,
                 .factor = has_largest ? 1 : 0.37,
                 .found_inf = found_inf},
                update, device);
  check(sizes, {.weight_decay = 0, .beta1 = 0}, update, device);
  for (const bool is_decoupled : {true, false})
    check(sizes, {.is_decoupled = is_decoupled, .reads_lr = true}, update, device);
  check({5, 64, 16385}, {.is_smoothed = true}, update, device, /*offset=*/1);
  check(std::vector<std::int64_t>(100, 17), {}, update, device);  // more tensors than one start takes
}

Update on_grid(const device::Grid& grid) {
  return [&grid](const AdamLists& lists, const AdamRule& rule, const at::Tensor& factor, const at::Tensor& found_inf) {
    device::adam(grid, lists.parameters, lists.gradients, lists.averages, lists.squares, lists.largest, lists.smoothed,
                 lists.steps, rule, lists.smoothing, factor, found_inf);
  };
}

TEST_CASE("Adam in one pass is LibTorch's with the factor before it and the moving average behind", "[kernels]") {
  check_all(&update_by_adam);
}

TEST_CASE("the GPU's Adam, thread by thread, is LibTorch's", "[kernels]") {
  check_all(on_grid(device::EmulatedGrid(1)));
}

TEST_CASE("a GPU's Adam is LibTorch's", "[kernels][gpu]") {
  testing::need_gpu();
  check_all(&update_by_adam, c10::Device(c10::kCUDA, 0));
}

TEST_CASE("Adam's bits don't depend on the number of threads, nor on where an element lies", "[kernels]") {
  const std::int64_t size = 100003;
  const AdamLists lists = drawn({size}, {.is_smoothed = true}, 0);
  const AdamRule rule{.lr = 0.01, .beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8, .weight_decay = 0.1};
  const auto copy = [&](std::int64_t begin, std::int64_t count) {
    AdamLists part = lists;
    for (auto* list : {&part.parameters, &part.gradients, &part.averages, &part.squares, &part.smoothed})
      list->front() = list->front().narrow(0, begin, count).clone();
    return part;
  };
  const AdamLists alone = copy(0, size), together = copy(0, size), part = copy(12345, 777);
  const int threads = at::get_num_threads();
  at::set_num_threads(1);
  update_by_adam(alone, rule, {}, {});
  at::set_num_threads(threads);
  update_by_adam(together, rule, {}, {});
  update_by_adam(part, rule, {}, {});
  CHECK(alone.parameters[0].equal(together.parameters[0]));
  CHECK(alone.smoothed[0].equal(together.smoothed[0]));
  CHECK(part.parameters[0].equal(alone.parameters[0].narrow(0, 12345, 777)));
}

TEST_CASE("Adam in one pass is for dense floats", "[kernels]") {
  const auto lists = [](const at::Tensor& parameter, const at::Tensor& gradient) {
    AdamLists made;
    made.parameters = {parameter};
    made.gradients = {gradient};
    return made;
  };
  const at::Tensor floats = at::randn({4, 6});
  CHECK(has_adam_kernel(lists(floats, floats)));
  CHECK(has_adam_kernel(lists(floats.t(), floats.t())));
  CHECK(!has_adam_kernel(lists(floats.to(at::kDouble), floats)));
  CHECK(!has_adam_kernel(lists(floats, floats.to(at::kBFloat16))));
  CHECK(!has_adam_kernel(lists(floats.slice(1, 0, 6, 2), floats)));
}

}  // namespace
}  // namespace trainctl::kernels::adam_test
