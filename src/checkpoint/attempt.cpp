#include "checkpoint/attempt.h"

#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <unistd.h>

#include <chrono>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "checkpoint/step_directory.h"
#include "core/error.h"
#include "core/file.h"
#include "core/text.h"

namespace trainctl::checkpoint {
namespace {

namespace fs = std::filesystem;

std::int64_t from_first(comm::Group& group, std::int64_t value) {
  const at::Tensor word = at::full({1}, value, at::kLong);
  group.broadcast(word, /*root=*/0)->wait();
  return word.item<std::int64_t>();
}

bool sees(const fs::path& sign, const std::string& text, std::chrono::milliseconds patience) {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  for (;;) {
    std::error_code error;
    if (fs::exists(sign, error) && core::read_file(sign) == text) return true;
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

}  // namespace

std::int64_t agree_on_number(comm::Group& group) {
  std::random_device random;
  const std::uint64_t number = (std::uint64_t{random()} << 32 | random()) >> 1;
  return from_first(group, static_cast<std::int64_t>(number));
}

Attempt agree_on_attempt(const fs::path& directory, comm::Group& group, std::chrono::milliseconds patience) {
  const Attempt attempt{.number = agree_on_number(group), .owner = from_first(group, ::getpid())};
  const fs::path sign = temporary_path(directory / "attempt", attempt.owner);
  const std::string text = std::to_string(attempt.number);
  if (group.rank() == 0) {
    fs::create_directories(directory);
    core::write_file_atomically(sign, text);
  }
  group.barrier();
  const at::Tensor all = at::zeros({group.size()}, at::kLong);
  group.all_gather(all, at::full({1}, sees(sign, text, patience) ? 1 : 0, at::kLong))->wait();
  if (group.rank() == 0) fs::remove(sign);
  std::vector<std::string> blind;
  for (std::int64_t rank = 0; rank < group.size(); ++rank)
    if (all[rank].item<std::int64_t>() == 0) blind.push_back(std::to_string(rank));
  if (!blind.empty())
    throw core::Error((blind.size() == 1 ? "rank " : "ranks ") + core::list_words(blind) +
                      " can't see what rank 0 writes to " + directory.string() +
                      ": every rank writes its part of a checkpoint there")
        .hint("choose a --run-dir on a file system that all nodes share");
  return attempt;
}

}  // namespace trainctl::checkpoint
