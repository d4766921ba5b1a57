#include "checkpoint/parts.h"

#include <chrono>
#include <thread>

#include "core/error.h"
#include "core/file.h"

namespace trainctl::checkpoint {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::milliseconds kInterval{20};
constexpr std::chrono::minutes kPatience{30};

bool is_there(const fs::path& path) {
  std::error_code error;
  return fs::exists(path, error);
}

/// None where it isn't there yet, or is another attempt's.
std::optional<Part> part_at(const fs::path& base, std::int64_t index, std::int64_t attempt) {
  const fs::path failure = base.string() + ".failed";
  if (is_there(failure)) throw core::Error("rank " + std::to_string(index) + ": " + core::read_file(failure));
  const fs::path path = base.string() + ".json";
  if (!is_there(path)) return std::nullopt;
  Part part = read_part(path);
  return part.attempt == attempt ? std::optional<Part>(std::move(part)) : std::nullopt;
}

}  // namespace

std::optional<std::vector<Part>> wait_for_parts(const fs::path& directory, std::int64_t count, std::int64_t attempt,
                                                const std::function<bool()>& is_abandoned) {
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  std::vector<Part> parts;
  for (std::int64_t i = 0; i < count;) {
    const bool is_last_look = is_abandoned();
    const fs::path base = directory / part_name(i, count);
    if (std::optional<Part> part = part_at(base, i, attempt)) {
      parts.push_back(*std::move(part));
      ++i;
      continue;
    }
    if (is_last_look) return std::nullopt;
    if (std::chrono::steady_clock::now() > deadline)
      throw core::Error("rank " + std::to_string(i) + "'s part, " + base.string() + ".json, hasn't come")
          .hint("see that rank's log");
    std::this_thread::sleep_for(kInterval);
  }
  return parts;
}

void leave_failure(const fs::path& directory, const std::string& part, const std::string& what) {
  remove_quietly(directory / (part + ".safetensors"));
  try {
    core::write_file_atomically(directory / (part + ".failed"), what);
  } catch (const core::Error&) {  // it is told by this rank too, at its next save
  }
}

Contents merge_parts(const std::vector<Part>& parts) {
  Contents merged{.manifest = {}, .values = parts.front().values};
  merged.manifest.step = parts.front().manifest.step;
  for (const Part& part : parts) {
    merged.manifest.files.insert(part.manifest.files.begin(), part.manifest.files.end());
    merge(merged.manifest.tensors, part.manifest.tensors);
    merged.values.values.insert(part.values.values.begin(), part.values.values.end());
  }
  const std::int64_t covered = covered_elements(merged.manifest.tensors);
  if (covered != parts.front().elements)
    throw core::Error("the parts hold " + std::to_string(covered) + " elements, the state has " +
                      std::to_string(parts.front().elements));
  return merged;
}

void remove_quietly(const fs::path& path) {
  std::error_code ignored;
  fs::remove_all(path, ignored);
}

}  // namespace trainctl::checkpoint
