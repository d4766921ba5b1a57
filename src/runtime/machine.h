// What this machine, or the container around us, lets the process use.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace trainctl {

/// Bytes of memory: the machine's with its swap, or the control group's limit where that is less.
std::size_t machine_memory();

/// Cores by affinity and control-group quota, at least one.
std::int64_t usable_cores();

/// "AMD EPYC".
std::string cpu_name();

/// Whether /proc/cpuinfo lists the instruction set.
bool cpu_has(const std::string& flag);

}  // namespace trainctl
