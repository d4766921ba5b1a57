#include "machine_findings.h"

#include <unistd.h>

#include <chrono>
#include <cstdio>

#include "core/text.h"
#include "core/units.h"
#include "machine/child.h"
#include "machine/cpu.h"
#include "machine/kernel_files.h"
#include "machine/limits.h"
#include "machine/storage.h"

namespace trainctl::cli {
namespace {

using Json = nlohmann::ordered_json;
namespace fs = std::filesystem;

/// Least size of /dev/shm: a container has 64 MiB by default.
constexpr std::int64_t kLeastSharedMemory = 65 * core::kMiB;

/// Time limit, so that a hanging disk cannot stop the command.
constexpr std::chrono::seconds kDiskLimit{20};

Json json_of(const std::optional<machine::GroupLimit>& limit) {
  return limit ? Json{{"value", limit->value}, {"file", limit->file.string()}} : Json();
}

/// Returns bytes of a line "MemTotal:  24576 kB" of /proc/meminfo.
double memory_info(const std::string& text, const char* key) {
  constexpr double kKiB = 1024;
  return machine::leading_number(machine::value_of_key(text, key)).value_or(0) * kKiB;
}

std::string free_of(const machine::Space& space) {
  return core::format_bytes(static_cast<double>(space.free_bytes)) + " free of " +
         core::format_bytes(static_cast<double>(space.total_bytes));
}

Json json_of(const machine::Space& space) {
  if (!space.problem.empty()) return {{"total_bytes", nullptr}, {"free_bytes", nullptr}};
  return {{"total_bytes", space.total_bytes}, {"free_bytes", space.free_bytes}};
}

/// Measures in a child process, since a sync to a lost network disk never returns.
machine::WriteRate bounded_write_rate(const fs::path& directory) {
  const machine::ChildOutcome outcome = machine::run_in_child(
      [&] {
        const machine::WriteRate rate = machine::measure_write_rate(directory);
        std::printf("%.0f %s", rate.bytes_per_s, rate.problem.c_str());
        return 0;
      },
      kDiskLimit);
  if (!outcome.problem.empty()) return {.problem = outcome.problem};
  const auto blank = outcome.output.find(' ');
  return {.bytes_per_s = machine::leading_number(outcome.output).value_or(0),
          .problem = outcome.output.substr(blank + 1)};
}

}  // namespace

Finding find_cpu() {
  const machine::CpuFeatures& cpu = machine::cpu_features();
  Finding finding{.key = "cpu", .subject = "CPU", .text = machine::cpu_name()};
  std::vector<std::string> has;
  std::vector<std::string> lacks;
  Json features;
  for (const machine::NamedFeature& feature : machine::named_features()) {
    features[feature.key] = cpu.*feature.member;
    (cpu.*feature.member ? has : lacks).emplace_back(feature.name);
  }
  finding.values = {{"model", machine::cpu_name()}, {"features", features}};
  if (!has.empty()) finding.text += "\nhas " + core::list_words(has);
  if (!lacks.empty()) finding.text += "\nlacks " + core::list_words(lacks);
  return finding;
}

Finding find_cores() {
  const std::int64_t logical = ::sysconf(_SC_NPROCESSORS_ONLN);
  const auto quota = machine::group_cpu_quota();
  const std::int64_t usable = machine::usable_cores();
  Finding finding{.key = "cores", .subject = "Cores"};
  finding.values = {{"logical", logical},
                    {"affinity", machine::cores_in_affinity()},
                    {"group_quota", json_of(quota)},
                    {"threads_of_a_run", usable}};
  finding.text = std::to_string(logical) + " logical, " + std::to_string(machine::cores_in_affinity()) +
                 " in the affinity mask, " +
                 (quota ? "cgroup quota " + core::format_digits(quota->value, 3) + " (" + quota->file.string() + ")"
                        : "no cgroup quota") +
                 "\na run takes " + std::to_string(usable) + (usable == 1 ? " thread" : " threads") +
                 "; ranks on this machine share them";
  return finding;
}

Finding find_memory() {
  const std::string info = machine::text_or_empty("/proc/meminfo");
  const double total = memory_info(info, "MemTotal");
  const double available = memory_info(info, "MemAvailable");
  const double swap = memory_info(info, "SwapTotal");
  const auto limit = machine::group_memory_limit();
  Finding finding{.key = "memory", .subject = "Memory"};
  finding.values = {{"total_bytes", static_cast<std::int64_t>(total)},
                    {"available_bytes", static_cast<std::int64_t>(available)},
                    {"swap_bytes", static_cast<std::int64_t>(swap)},
                    {"group_limit", json_of(limit)},
                    {"usable_bytes", machine::usable_memory()}};
  finding.text = core::format_bytes(total) + ", " + core::format_bytes(available) + " available, " +
                 (swap > 0 ? core::format_bytes(swap) + " of swap, " : "no swap, ") +
                 (limit ? "cgroup limit " + core::format_bytes(limit->value) + " (" + limit->file.string() + ")"
                        : "no cgroup limit");
  return finding;
}

Finding find_shared_memory() {
  const fs::path path = "/dev/shm";
  const machine::Space space = machine::space_of(path);
  Finding finding{.key = "shared_memory", .subject = "/dev/shm", .values = json_of(space)};
  finding.text = space.problem.empty() ? free_of(space) : "missing";
  if (!space.problem.empty())
    finding.problem = space.problem;
  else if (space.total_bytes < kLeastSharedMemory)
    finding.problem = "too small for the ranks' shared cache of images and for snapshots in memory";
  if (!finding.problem.empty())
    finding.hint = "mount -o remount,size=50% /dev/shm; in a container, docker run --shm-size";
  return finding;
}

Finding find_run_directory(const fs::path& run_directory) {
  const fs::path directory = machine::nearest_directory(run_directory);
  const machine::Space space = machine::space_of(directory);
  const machine::WriteRate rate = bounded_write_rate(directory);
  Finding finding{.key = "run_directory", .subject = "Run directory", .text = directory.string()};
  finding.values = {{"path", directory.string()}};
  finding.values.update(json_of(space));
  finding.values["write_bytes_per_s"] = rate.problem.empty() ? Json(rate.bytes_per_s) : Json();
  finding.text += "\n" + (space.problem.empty() ? free_of(space) : space.problem);
  if (rate.problem.empty()) {
    finding.text += ", writes " + core::format_bytes(rate.bytes_per_s) + "/s";
  } else {
    finding.problem = "cannot write: " + rate.problem;
    finding.hint = "--run-dir DIR names a directory on another disk";
  }
  return finding;
}

}  // namespace trainctl::cli
