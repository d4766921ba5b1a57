#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/ones.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <deque>

#include "comm/backend/backends.h"
#include "comm/world.h"
#include "support/environment_variable.h"
#include "support/gpu.h"

namespace trainctl::comm {
namespace {

TEST_CASE("NCCL's part of LibTorch ends no process, unless the user's environment says so", "[comm]") {
  std::deque<testing::EnvironmentVariable> former;
  for (const auto& [name, value] : nccl_environment("eth0")) former.emplace_back(name, nullptr);
  const testing::EnvironmentVariable users("TORCH_NCCL_DUMP_ON_TIMEOUT", "1");
  set_nccl_environment("eth0");
  CHECK(std::string(std::getenv("TORCH_NCCL_ENABLE_MONITORING")) == "0");
  CHECK(std::string(std::getenv("TORCH_NCCL_RETHROW_CUDA_ERRORS")) == "0");
  CHECK(std::string(std::getenv("NCCL_SOCKET_IFNAME")) == "=eth0");  // not eth01
  CHECK(std::string(std::getenv("TORCH_NCCL_DUMP_ON_TIMEOUT")) == "1");
}

TEST_CASE("an environment in which NCCL doesn't tell of a collective's end is refused", "[comm]") {
  const testing::EnvironmentVariable blocking("TORCH_NCCL_BLOCKING_WAIT", "1");
  CHECK_THROWS_WITH(set_nccl_environment(""), Catch::Contains("TORCH_NCCL_BLOCKING_WAIT=1 is set"));
}

TEST_CASE("NCCL with one rank gives back what it is given, and a world without it lives on", "[comm][gpu]") {
  testing::need_gpu();
  WorldOptions options;
  options.launch = {.launcher = "test"};
  options.device = c10::Device(c10::kCUDA, 0);
  for (const Backend backend : {Backend::auto_, Backend::nccl}) {
    options.backend = backend;
    const std::unique_ptr<World> world = join(options);
    Group& group = world->group();
    const at::Tensor expected = at::arange(1000, at::TensorOptions(options.device).dtype(at::kFloat));
    const at::Tensor tensor = expected.clone();
    group.all_reduce(tensor, Reduce::sum)->wait();
    group.broadcast(tensor, 0)->wait();
    const at::Tensor all = at::empty({1000}, tensor.options());
    group.all_gather(all, tensor)->wait();
    const at::Tensor part = at::empty({1000}, tensor.options());
    group.reduce_scatter(part, all)->wait();
    const at::Tensor on_host = at::ones({3});  // small values travel by Gloo
    group.all_reduce(on_host, Reduce::max)->wait();
    group.barrier();
    world->check_consistent({{"config", "one"}});
    REQUIRE(at::equal(part, expected));
    REQUIRE_THAT(world->collectives(), Catch::Contains("all_reduce #1 of all ranks (3.9 KiB)"));
  }
}

}  // namespace
}  // namespace trainctl::comm
