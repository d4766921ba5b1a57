#include "machine/limits.h"

#include <sched.h>
#include <catch2/catch.hpp>
#include <string>

#include "support/temporary_directory.h"

namespace trainctl::machine {
namespace {

namespace fs = std::filesystem;

KernelDirectories directories_in(const testing::TemporaryDirectory& files) {
  return {.proc = files / "proc", .cgroup = files / "cgroup"};
}

TEST_CASE("limits of version 2 are the least of the group and those above", "[machine]") {
  const testing::TemporaryDirectory files;
  files.write("proc/self/cgroup", "0::/outer/inner\n");
  files.write("cgroup/outer/cpu.max", "150000 100000\n");
  files.write("cgroup/outer/inner/cpu.max", "max 100000\n");
  files.write("cgroup/outer/memory.max", "max\n");
  files.write("cgroup/outer/inner/memory.max", "536870912\n");
  const auto quota = group_cpu_quota(directories_in(files));
  REQUIRE(quota);
  CHECK(quota->value == 1.5);
  CHECK(quota->file == files.path() / "cgroup/outer/cpu.max");
  const auto memory = group_memory_limit(directories_in(files));
  REQUIRE(memory);
  CHECK(memory->value == 512.0 * (1 << 20));
  CHECK(memory->file == files.path() / "cgroup/outer/inner/memory.max");
}

TEST_CASE("limits of version 1 come from the controller's own hierarchy", "[machine]") {
  const testing::TemporaryDirectory files;
  files.write("proc/self/cgroup", "5:memory:/job\n4:cpu,cpuacct:/job\n1:name=systemd:/other\n");
  files.write("cgroup/cpu/job/cpu.cfs_quota_us", "50000\n");
  files.write("cgroup/cpu/job/cpu.cfs_period_us", "100000\n");
  files.write("cgroup/memory/job/memory.limit_in_bytes", "1073741824\n");
  REQUIRE(group_cpu_quota(directories_in(files)));
  CHECK(group_cpu_quota(directories_in(files))->value == 0.5);
  REQUIRE(group_memory_limit(directories_in(files)));
  CHECK(group_memory_limit(directories_in(files))->value == 1073741824.0);
}

TEST_CASE("version 1 writes that no limit is set as -1 and as a huge number", "[machine]") {
  const testing::TemporaryDirectory files;
  files.write("proc/self/cgroup", "5:memory:/\n4:cpu,cpuacct:/\n");
  files.write("cgroup/cpu/cpu.cfs_quota_us", "-1\n");
  files.write("cgroup/cpu/cpu.cfs_period_us", "100000\n");
  files.write("cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  CHECK_FALSE(group_cpu_quota(directories_in(files)));
  CHECK_FALSE(group_memory_limit(directories_in(files)));
}

TEST_CASE("a container sees its group's limits at the root", "[machine]") {
  const testing::TemporaryDirectory files;
  files.write("proc/self/cgroup", "0::/not/visible/here\n");
  files.write("cgroup/memory.max", "268435456\n");
  REQUIRE(group_memory_limit(directories_in(files)));
  CHECK(group_memory_limit(directories_in(files))->value == 268435456.0);
}

TEST_CASE("missing and damaged files set no limit", "[machine]") {
  const testing::TemporaryDirectory files;
  CHECK_FALSE(group_cpu_quota(directories_in(files)));
  CHECK_FALSE(group_memory_limit(directories_in(files)));
  files.write("proc/self/cgroup", "no colons\n0:one\n0::/\n");
  files.write("cgroup/cpu.max", "100000 0\n");
  files.write("cgroup/memory.max", "words\n");
  CHECK_FALSE(group_cpu_quota(directories_in(files)));
  CHECK_FALSE(group_memory_limit(directories_in(files)));
}

TEST_CASE("what the process holds is taken from a group's limit on memory", "[machine]") {
  const testing::TemporaryDirectory files;
  CHECK(memory_for_tensors(directories_in(files)) == usable_memory());
  files.write("proc/self/cgroup", "0::/\n");
  files.write("proc/self/status", "Name:\ttrainctl\nRssAnon:\t   40960 kB\n");
  files.write("cgroup/memory.max", "536870912\n");
  constexpr std::size_t kMiB = 1 << 20;
  CHECK(memory_for_tensors(directories_in(files)) == (512 - 40 - 64) * kMiB);
  files.write("cgroup/memory.max", "104857600\n");
  CHECK(memory_for_tensors(directories_in(files)) == 25 * kMiB);
}

TEST_CASE("usable cores follow the affinity mask", "[machine]") {
  cpu_set_t all;
  REQUIRE(::sched_getaffinity(0, sizeof all, &all) == 0);
  CHECK(cores_in_affinity() == CPU_COUNT(&all));
  int first = 0;
  while (!CPU_ISSET(first, &all)) ++first;
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(first, &one);
  REQUIRE(::sched_setaffinity(0, sizeof one, &one) == 0);
  CHECK(cores_in_affinity() == 1);
  CHECK(usable_cores() == 1);
  ::sched_setaffinity(0, sizeof all, &all);
  CHECK(usable_cores() >= 1);
  CHECK(usable_cores() <= cores_in_affinity());
}

}  // namespace
}  // namespace trainctl::machine
