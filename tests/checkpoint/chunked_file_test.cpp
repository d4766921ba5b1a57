#include "checkpoint/chunked_file.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <vector>

#include "core/error.h"
#include "machine/child.h"
#include "machine/kernel_files.h"
#include "support/temporary_directory.h"

namespace trainctl::checkpoint {
namespace {

enum class PageCache { filled, empty };

/// Some file systems keep everything; then both are the same.
void prepare(const std::filesystem::path& path, PageCache cache) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  REQUIRE(file >= 0);
  ::fsync(file);
  if (cache == PageCache::empty) {
    ::posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
  } else {
    std::vector<char> block(1 << 20);
    while (::read(file, block.data(), block.size()) > 0) {
    }
  }
  ::close(file);
}

std::vector<std::byte> noise(std::size_t size) {
  std::vector<std::byte> bytes(size);
  std::uint32_t state = 1;
  for (std::byte& byte : bytes) byte = static_cast<std::byte>((state = state * 1664525 + 1013904223) >> 24);
  return bytes;
}

#ifndef TRAINCTL_SANITIZED  // a sanitizer takes address space of its own, and ends the process if it gets none
/// Leaves the process less address space than a chunk takes.
void limit_address_space() {
  const double pages = machine::leading_number(machine::text_or_empty("/proc/self/statm")).value_or(0);
  const auto bytes = static_cast<rlim_t>(pages) * static_cast<rlim_t>(::sysconf(_SC_PAGESIZE)) + kChunk / 4;
  const rlimit limit{.rlim_cur = bytes, .rlim_max = bytes};
  ::setrlimit(RLIMIT_AS, &limit);
}

TEST_CASE("[in a new process] a chunk is written without room for it", "[.]") {
  const testing::TemporaryDirectory directory;
  const std::vector<std::byte> bytes(1000);
  limit_address_space();
  CHECK_THROWS_WITH(write_chunked(directory.path() / "file", {bytes}, core::Durability::process),
                    Catch::Contains("cannot allocate 16.0 MiB"));
}

// In a new process, since malloc keeps address space for threads of earlier tests.
TEST_CASE("a chunk that cannot be allocated is an error, not a crash", "[checkpoint][regression]") {
  const machine::ChildOutcome outcome = machine::run_in_child(
      [] {
        ::execl("/proc/self/exe", "test_checkpoint", "*a chunk is written without room for it", nullptr);
        return 1;
      },
      std::chrono::seconds(60));
  CHECK(outcome.problem.empty());
  CHECK_THAT(outcome.output, Catch::Contains("1 passed"));
}
#endif

TEST_CASE("ranges come back whatever of the file is in the page cache", "[checkpoint]") {
  const testing::TemporaryDirectory directory;
  const std::filesystem::path path = directory.path() / "file";
  const std::vector<std::byte> bytes = noise(2 * kChunk + 12'345);
  const FileSums sums = write_chunked(path, {bytes}, core::Durability::disk);
  const auto cache = GENERATE(PageCache::filled, PageCache::empty);
  prepare(path, cache);

  std::vector<std::byte> whole(bytes.size());
  read_chunked({{path, sums, {{.begin = 0, .size = bytes.size(), .into = whole.data()}}}});
  CHECK(whole == bytes);

  prepare(path, cache);
  std::vector<std::byte> middle(kChunk);
  read_chunked({{path, sums, {{.begin = kChunk + 777, .size = middle.size(), .into = middle.data()}}}});
  CHECK(std::equal(middle.begin(), middle.end(), bytes.begin() + kChunk + 777));
}

TEST_CASE("a byte that changed is found whatever of the file is in the page cache", "[checkpoint]") {
  const testing::TemporaryDirectory directory;
  const std::filesystem::path path = directory.path() / "file";
  const FileSums sums = write_chunked(path, {noise(kChunk + 4'097)}, core::Durability::disk);
  {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(kChunk) + 4'096);
    file.put('\x7f');
  }
  prepare(path, GENERATE(PageCache::filled, PageCache::empty));
  CHECK_THROWS_WITH(verify_chunked({{path, sums, {}}}),
                    Catch::Contains("is damaged: the checksum of bytes 16777216 to"));
}

TEST_CASE("a byte that changed is found however the ranges lie in the chunk", "[checkpoint]") {
  const testing::TemporaryDirectory directory;
  const std::filesystem::path path = directory.path() / "file";
  const FileSums sums = write_chunked(path, {noise(kChunk + 100)}, core::Durability::disk);
  {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(1000);
    file.put('\x7f');
  }
  prepare(path, GENERATE(PageCache::filled, PageCache::empty));
  // The whole chunk, a part around the byte, and parts that don't have it.
  for (const auto& [begin, size] :
       {std::pair{std::size_t{0}, kChunk}, {std::size_t{0}, kChunk + 100}, {990, 20}, {5000, 100}}) {
    std::vector<std::byte> into(size);
    CHECK_THROWS_WITH(read_chunked({{path, sums, {{.begin = begin, .size = size, .into = into.data()}}}}),
                      Catch::Contains("is damaged: the checksum of bytes 0 to"));
  }
}

}  // namespace
}  // namespace trainctl::checkpoint
