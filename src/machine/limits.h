// Cores and memory that the machine, or the container around this process, lets the process use.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>

namespace trainctl::machine {

/// Directories of the kernel's files. Tests name others.
struct KernelDirectories {
  std::filesystem::path proc = "/proc";
  std::filesystem::path cgroup = "/sys/fs/cgroup";
};

/// A limit of a control group and the file that sets it.
struct GroupLimit {
  double value = 0;
  std::filesystem::path file;
};

/// Returns the least CPU quota, in cores, of this process's control group and the groups above it (versions 1 and 2).
std::optional<GroupLimit> group_cpu_quota(const KernelDirectories& directories = {});

/// Returns the least memory limit, in bytes, of this process's control group and the groups above it.
std::optional<GroupLimit> group_memory_limit(const KernelDirectories& directories = {});

/// Returns the number of cores in the process's affinity mask.
std::int64_t cores_in_affinity();

/// Returns the number of cores by affinity and control-group quota, at least one.
std::int64_t usable_cores();

/// Returns the machine's bytes of memory with swap, or the control group's limit if that is less.
std::size_t usable_memory();

/// Returns the part of usable_memory() that is left for tensors. The kernel ends a process without a message if it
/// passes its control group's limit. The memory that this process already holds, and 64 MiB for threads and generated
/// code, are therefore subtracted from such a limit. At least a quarter of the limit remains.
std::size_t memory_for_tensors(const KernelDirectories& directories = {});

/// Throws Error where `ulimit -s` leaves the process less stack than loading LibTorch takes: it would end there with a
/// segmentation fault.
void require_stack();

/// Lets this process open as many files as the hard limit allows: each shard of a dataset is one, and shells give
/// 1,024.
void allow_many_files();

/// Throws Error where `ulimit -v` leaves the process less address space than loading LibTorch takes: its initialisers
/// would end the process with words of their own. Where there is a limit, a segmentation fault ends the process with a
/// word about it: oneDNN runs kernels for which it found no memory.
void require_address_space();

}  // namespace trainctl::machine
