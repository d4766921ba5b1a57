#include "plan/memory/kernel_workspaces.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/ones.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "plan/memory/kernel_calls.h"
#include "runtime/memory.h"
#include "support/temporary_directory.h"

namespace trainctl::plan {

using trainctl::testing::TemporaryDirectory;

namespace {

/// The arguments of a convolution's backward pass over images of `size` pixels a side, and the operator.
struct BackwardCall {
  c10::OperatorHandle op;
  torch::jit::Stack stack;
};

/// A convolution of square kernels, with as many outputs as inputs.
struct Kernel {
  std::int64_t groups = 1;
  std::int64_t size = 3;
};

BackwardCall backward_call(std::int64_t batch, std::int64_t channels, std::int64_t size, const Kernel& kernel = {}) {
  const auto images = [&] {
    return at::ones({batch, channels, size, size}).contiguous(at::MemoryFormat::ChannelsLast);
  };
  const at::Tensor weight = at::ones({channels, channels / kernel.groups, kernel.size, kernel.size})
                                .contiguous(at::MemoryFormat::ChannelsLast);
  const std::vector<std::int64_t> padding{kernel.size / 2, kernel.size / 2};
  const std::vector<std::int64_t> one{1, 1};
  const std::vector<std::int64_t> zero{0, 0};
  return {c10::Dispatcher::singleton().findSchemaOrThrow("aten::convolution_backward", ""),
          {images(), images(), weight, c10::IValue(), one, padding, one, false, zero, kernel.groups,
           std::vector<bool>{true, true, false}}};
}

KernelCall kernel_call(std::int64_t batch, std::int64_t channels, std::int64_t size, const Kernel& kernel = {}) {
  const BackwardCall call = backward_call(batch, channels, size, kernel);
  std::optional<KernelCall> found = find_kernel_call(call.op, call.stack);
  REQUIRE(found);
  return *found;
}

/// What the allocator says of the operator itself.
std::int64_t held_by(BackwardCall call) {
  runtime::reset_host_peak();
  const std::int64_t before = runtime::host_memory().current;
  const torch::jit::Stack arguments = call.stack;
  call.op.callBoxed(&call.stack);
  return runtime::host_memory().peak - before - (runtime::host_memory().current - before);
}

}  // namespace

TEST_CASE("A kernel's workspace is what the allocator counts while the operator runs", "[plan]") {
  runtime::install_host_allocator(runtime::HostMemory::cached);
  for (const std::int64_t size : {1, 2, 7, 14}) {
    CAPTURE(size);
    const std::int64_t held = held_by(backward_call(16, 128, size));
    CHECK(KernelWorkspaces().measure(kernel_call(16, 128, size)) == Approx(held).epsilon(0.01).margin(4096));
    CHECK(kernel_call(16, 128, size).bound >= held);
  }
}

TEST_CASE("A group's weights in blocks of vectors are within the bound", "[plan]") {
  runtime::install_host_allocator(runtime::HostMemory::cached);
  for (const Kernel& kernel : {Kernel{96, 3}, Kernel{96, 5}, Kernel{96, 7}, Kernel{48, 5}, Kernel{6, 5}, Kernel{1, 5}})
    for (const std::int64_t size : {3, 12}) {
      CAPTURE(kernel.groups, kernel.size, size);
      const std::int64_t held = held_by(backward_call(16, 96, size, kernel));
      const KernelCall call = kernel_call(16, 96, size, kernel);
      CHECK(KernelWorkspaces().measure(call) == Approx(held).epsilon(0.01).margin(4096));
      CHECK(call.bound >= held);
    }
}

TEST_CASE("A batch that takes too long to run is told by smaller ones", "[plan]") {
  runtime::install_host_allocator(runtime::HostMemory::cached);
  const std::int64_t batch = 192;
  const std::int64_t held = held_by(backward_call(batch, 256, 14));
  CHECK(KernelWorkspaces().measure(kernel_call(batch, 256, 14)) == Approx(held).epsilon(0.01).margin(4096));
}

TEST_CASE("Between two batches each allocation grows in a straight line, and the peak is that of the sum", "[plan]") {
  const KernelTrace one{.events = {10, 100, -100, 50}, .result_bytes = 60};
  const KernelTrace two{.events = {20, 100, -100, 90}, .result_bytes = 110};
  const std::optional<KernelTrace> four = extrapolate(one, two, 2);
  REQUIRE(four);
  CHECK(four->events == std::vector<std::int64_t>{40, 100, -100, 170});
  CHECK(four->result_bytes == 210);
  CHECK(two.workspace() == 10);
  CHECK(KernelTrace{.events = {40, 100, -100, 60}, .result_bytes = 100}.workspace() == 40);
  CHECK_FALSE(extrapolate(one, {.events = {20, 90}, .result_bytes = 110}, 2));
}

TEST_CASE("What was measured is read from the file, and a damaged file is measured again", "[plan]") {
  runtime::install_host_allocator(runtime::HostMemory::cached);
  const TemporaryDirectory directory;
  const KernelCall call = kernel_call(8, 64, 8);
  KernelWorkspaces first(directory.path());
  const std::int64_t measured = first.measure(call);
  first.save();
  const auto file = std::filesystem::directory_iterator(directory.path())->path();
  std::ofstream(file) << R"({")" << call.key() << R"(": {"8": {"events": [1000, 77, -77], "result_bytes": 1000}}})";
  CHECK(KernelWorkspaces(directory.path()).measure(call) == 77);
  CHECK(KernelWorkspaces(directory.path(), KernelWorkspaces::Kept::renew).measure(call) == measured);
  std::ofstream(file) << "{\"aten";
  CHECK(KernelWorkspaces(directory.path()).measure(call) == measured);
}

TEST_CASE("Only kernels that may decide the peak are measured, and the peak is exact", "[plan]") {
  runtime::install_host_allocator(runtime::HostMemory::cached);
  const TemporaryDirectory directory;
  MemoryTracker log;
  KernelWorkspaces workspaces(directory.path());
  KernelCalls calls(log, workspaces);
  const auto run_call = [&](std::int64_t channels) {
    const BackwardCall call = backward_call(4, channels, 8);
    log.give_back(log.take(calls.bound(call.op, call.stack)));
  };
  run_call(16);
  log.take(64 << 20);
  run_call(64);
  calls.settle();
  const std::int64_t held = held_by(backward_call(4, 64, 8));
  CHECK(log.peak(0, log.now()).held.total() == Approx((64 << 20) + held).epsilon(0.001));
  const auto file = std::filesystem::directory_iterator(directory.path())->path();
  std::ifstream text(file);
  const std::string kept{std::istreambuf_iterator<char>(text), {}};
  CHECK_THAT(kept, Catch::Contains("Float[64:") && !Catch::Contains("Float[16:"));
}

}  // namespace trainctl::plan
