// Programs that a run starts beside itself.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace trainctl::tracking {

/// Starts a program with these descriptors as its standard input, and its output and errors. Signals of the terminal
/// and of a job's end don't reach the child. Returns its process id.
pid_t spawn_child(const std::string& program, std::vector<std::string> words, int input, int output);

/// Returns the path of the program that runs in this process. If the file was replaced since, as by an upgrade, the
/// link of the kernel to the old file stands for it.
std::string own_program();

}  // namespace trainctl::tracking
