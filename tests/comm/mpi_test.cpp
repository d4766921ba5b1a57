// Ranks that mpirun starts, over MPI.
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <unistd.h>

#include <array>
#include <catch2/catch.hpp>
#include <cstdio>
#include <filesystem>
#include <numeric>
#include <thread>

#include "comm/world.h"
#include "core/error.h"
#include "support/skip.h"

namespace trainctl::comm {
namespace {

using namespace std::chrono_literals;

/// What a command prints, and how it ends.
std::pair<std::string, int> output_of(const std::string& command) {
  FILE* const pipe = ::popen((command + " 2>&1").c_str(), "r");
  REQUIRE(pipe != nullptr);
  std::string text;
  std::array<char, 4096> buffer{};
  while (const std::size_t size = std::fread(buffer.data(), 1, buffer.size(), pipe)) text.append(buffer.data(), size);
  return {text, ::pclose(pipe)};
}

WorldOptions mpi_options() {
  WorldOptions options;
  options.launch = *read_launch(process_environment);
  options.backend = Backend::mpi;
  options.timeout = 30s;
  return options;
}

TEST_CASE("a rank over MPI", "[.mpi_rank]") {
  const std::unique_ptr<World> world = join(mpi_options());
  Group& group = world->group();
  const std::int64_t n = group.size();
  const std::int64_t rank = group.rank();

  const at::Tensor sum =
      at::arange(10'000, at::kDouble).mul(0.37).add(static_cast<double>(rank) * 1.1).sin().to(at::kFloat);
  group.all_reduce(sum, Reduce::sum)->wait();
  const at::Tensor all_sums = at::empty({n, 10'000});
  group.all_gather(all_sums, sum)->wait();
  for (std::int64_t i = 0; i < n; ++i) REQUIRE(at::equal(all_sums[i], sum));  // the same bits everywhere

  const at::Tensor shorts = at::full({4}, rank == 0 ? 256.0 : 1.0, at::kBFloat16);
  group.all_reduce(shorts, Reduce::sum)->wait();
  REQUIRE(shorts[1].item<float>() == at::full({}, 255.0 + static_cast<double>(n)).to(at::kBFloat16).item<float>());
  const at::Tensor largest = at::full({3}, rank, at::kLong);
  group.all_reduce(largest, Reduce::max)->wait();
  REQUIRE(largest[2].item<std::int64_t>() == n - 1);
  const at::Tensor part = at::empty({2}, at::kLong);
  group.reduce_scatter(part, at::arange(2 * n, at::kLong))->wait();
  REQUIRE(part[1].item<std::int64_t>() == (2 * rank + 1) * n);
  const at::Tensor flag = at::full({}, rank == n - 1, at::kBool);
  group.broadcast(flag, n - 1)->wait();
  REQUIRE(flag.item<bool>());

  std::vector<at::Tensor> many;
  std::vector<std::unique_ptr<Work>> pending;
  for (int i = 0; i < 20; ++i) {
    many.push_back(at::full({1000}, static_cast<double>(i)));
    pending.push_back(group.all_reduce(many.back(), Reduce::sum));
  }
  for (const auto& one : pending) one->wait();
  REQUIRE(many[7][5].item<float>() == 7.0F * static_cast<float>(n));
  std::vector<std::int64_t> all(static_cast<std::size_t>(n));
  std::iota(all.begin(), all.end(), 0);
  const std::unique_ptr<Group> same = group.split("same", all);
  REQUIRE(same->size() == n);
  same->barrier();
  const at::Tensor parts = at::empty({n, 2}, at::kLong);
  same->all_to_all(parts, at::full({n, 2}, rank, at::kLong))->wait();
  REQUIRE(parts[n - 1][1].item<std::int64_t>() == n - 1);
  if (n > 1) {
    const at::Tensor received = at::empty({3}, at::kHalf);
    const std::unique_ptr<Work> receiving = same->irecv(received, (rank + n - 1) % n);
    same->isend(at::full({3}, static_cast<double>(rank), at::kHalf), (rank + 1) % n)->wait();
    receiving->wait();
    REQUIRE(received[2].item<double>() == static_cast<double>((rank + n - 1) % n));
  }
  group.barrier();
}

TEST_CASE("a rank over MPI whose peer never comes", "[.mpi_absent]") {
  WorldOptions options = mpi_options();
  options.timeout = 8s;
  const std::unique_ptr<World> world = join(options);
  if (world->launch().rank == 1) {
    std::this_thread::sleep_for(1h);  // mpirun ends it when rank 0 has failed
    ::_exit(core::kExitFailed);
  }
  try {
    world->group().all_reduce(at::ones({4}), Reduce::sum)->wait();
  } catch (const std::exception& error) {
    std::printf("root cause: %s\n", text_of(world->root_cause(error.what())).c_str());
    std::fflush(stdout);
    ::_exit(core::kExitFailed);
  }
}

TEST_CASE("collectives over MPI give what they should, with the same bits on all ranks", "[comm]") {
  const std::string self = std::filesystem::read_symlink("/proc/self/exe").string();
  if (!std::filesystem::exists(std::filesystem::path(self).parent_path() / "../lib/libtrainctl_mpi.so") ||
      output_of("mpirun --version").second != 0)
    testing::skip("no MPI here (libopenmpi-dev, openmpi-bin)");
  const std::string mpirun = std::string("mpirun --oversubscribe") + (::geteuid() == 0 ? " --allow-run-as-root" : "") +
                             " -x OMP_NUM_THREADS=1 -n ";
  for (const char* ranks : {"1", "2", "3", "4"}) {
    const auto [text, status] = output_of(mpirun + ranks + " '" + self + "' '[.mpi_rank]'");
    INFO(text);
    REQUIRE(status == 0);
  }
  const auto [text, status] = output_of(mpirun + "2 '" + self + "' '[.mpi_absent]'");
  INFO(text);
  REQUIRE(status != 0);
  REQUIRE_THAT(
      text, Catch::Contains("root cause: rank 1 on ") && Catch::Contains("never came to all_reduce #1 of all ranks"));
}

}  // namespace
}  // namespace trainctl::comm
