#include "roofline/operations.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/convolution.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>

#include <algorithm>
#include <catch2/catch.hpp>

#include "kernels/swiglu.h"
#include "runtime/span.h"

namespace trainctl::roofline {

namespace {

std::vector<Operation> named(const Operations& operations, const std::string& name) {
  std::vector<Operation> found;
  for (const Operation& operation : operations.list)
    if (operations.name(operation) == name) found.push_back(operation);
  return found;
}

double flops_of_kind(const Operations& operations, WorkKind kind) {
  double sum = 0;
  for (const Operation& operation : operations.list)
    if (operation.kind == kind) sum += operation.flops;
  return sum;
}

at::Tensor leaf(at::IntArrayRef shape, c10::Device device) {
  return at::ones(shape, device).set_requires_grad(true);
}

/// A linear layer's forward and backward pass.
Operations linear_pass(c10::Device device) {
  const at::Tensor input = leaf({8, 32}, device);
  const at::Tensor weight = leaf({64, 32}, device);
  const at::Tensor bias = leaf({64}, device);
  OperationRecorder recorder;
  at::linear(input, weight, bias).mul(2).sum().backward();
  return recorder.take();
}

}  // namespace

TEST_CASE("A matrix product counts once, by its multiply-adds", "[roofline]") {
  const Operations seen = linear_pass(at::kCPU);
  CHECK(seen.flops(Pass::forward) == 2.0 * 8 * 32 * 64);
  CHECK(seen.flops(Pass::backward) == 2 * 2.0 * 8 * 32 * 64);
  const std::vector<Operation> products = named(seen, "aten::addmm");
  REQUIRE(products.size() == 1);
  CHECK(products[0].kind == WorkKind::product);
  CHECK(products[0].least_extent == 8);
  CHECK(products[0].bytes == 4.0 * (64 + 8 * 32 + 32 * 64 + 8 * 64));
}

TEST_CASE("Tensors without values give the same work as those of the CPU", "[roofline]") {
  const Operations real = linear_pass(at::kCPU);
  const Operations abstract = linear_pass(at::kMeta);
  for (const Pass pass : {Pass::forward, Pass::backward}) {
    CHECK(abstract.flops(pass) == real.flops(pass));
    CHECK(abstract.bytes(pass) == Approx(real.bytes(pass)).epsilon(0.02));
  }
}

TEST_CASE("A convolution's passes count, by its window and the order of its pixels", "[roofline]") {
  const at::Tensor image = at::randn({2, 8, 16, 16}).contiguous(at::MemoryFormat::ChannelsLast).set_requires_grad(true);
  const at::Tensor weight = leaf({4, 8, 3, 3}, at::kCPU);
  OperationRecorder recorder;
  at::convolution(image, weight, {}, {1, 1}, {1, 1}, {1, 1}, false, {0, 0}, 1).sum().backward();
  const Operations seen = recorder.take();
  const double forward = 2.0 * 2 * 4 * 16 * 16 * 8 * 9;
  CHECK(flops_of_kind(seen, WorkKind::convolution) == forward);
  CHECK(flops_of_kind(seen, WorkKind::convolution_backward) == 2 * forward);
  REQUIRE(named(seen, "aten::convolution").size() == 1);
  CHECK(named(seen, "aten::convolution")[0].order == PixelOrder::channels_last);
  CHECK(named(seen, "aten::mkldnn_convolution").empty());
}

TEST_CASE("Views and allocations move nothing, but are calls", "[roofline]") {
  const at::Tensor tensor = at::ones({4, 8});
  OperationRecorder recorder;
  const at::Tensor view = tensor.view({8, 4}).transpose(0, 1).unsqueeze(0);
  const Operations seen = recorder.take();
  CHECK(seen.list.empty());
  CHECK(seen.num_calls[static_cast<std::size_t>(Pass::forward)] >= 3);
}

TEST_CASE("A copy into another order is told from one that keeps it", "[roofline]") {
  const at::Tensor tensor = at::ones({64, 32});
  OperationRecorder recorder;
  const at::Tensor same = tensor.clone();
  const at::Tensor turned = tensor.t().contiguous();
  const Operations seen = recorder.take();
  REQUIRE(seen.list.size() == 2);
  CHECK(seen.list[0].kind == WorkKind::stream);
  CHECK(seen.list[1].kind == WorkKind::transposition);
  CHECK(seen.list[1].bytes == 2.0 * 64 * 32 * 4);
}

TEST_CASE("Our own kernels are seen with their bytes", "[roofline]") {
  const at::Tensor gate = leaf({16, 32}, at::kCPU);
  const at::Tensor up = leaf({16, 32}, at::kCPU);
  OperationRecorder recorder;
  kernels::swiglu(gate, up).mul(2).sum().backward();
  const Operations seen = recorder.take();
  REQUIRE(named(seen, "trainctl::swiglu").size() == 1);
  REQUIRE(named(seen, "trainctl::swiglu_backward").size() == 1);
  CHECK(named(seen, "trainctl::swiglu")[0].bytes == 3.0 * 16 * 32 * 4);
  CHECK(named(seen, "trainctl::swiglu_backward")[0].bytes == 5.0 * 16 * 32 * 4);
}

TEST_CASE("Spans tell the passes of a step", "[roofline]") {
  const at::Tensor weight = leaf({4, 4}, at::kCPU);
  OperationRecorder recorder;
  at::Tensor loss;
  {
    const runtime::Span span("forward");
    loss = weight.mul(2).sum();
  }
  {
    const runtime::Span span("backward");
    loss.backward();
  }
  {
    const runtime::Span span("optimizer");
    const at::NoGradGuard no_grad;
    at::Tensor(weight).add_(weight.grad(), -0.1);
  }
  const Operations seen = recorder.take();
  CHECK(seen.bytes(Pass::optimizer) == 3.0 * 16 * 4);
  CHECK(named(seen, "aten::mul").front().pass == Pass::forward);
  CHECK(std::count_if(seen.list.begin(), seen.list.end(),
                      [](const Operation& operation) { return operation.pass == Pass::backward; }) > 0);
}

TEST_CASE("Nothing is listed once a recorder is gone, and take() starts anew", "[roofline]") {
  OperationRecorder recorder;
  at::ones({4}).add(1);
  CHECK_FALSE(recorder.take().list.empty());
  CHECK(recorder.take().list.empty());
}

}  // namespace trainctl::roofline
