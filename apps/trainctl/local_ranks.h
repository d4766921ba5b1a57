// `trainctl train --nproc N`: starts N ranks of this very command on this machine and looks after them.
#pragma once

#include <cstdint>
#include <string>

namespace trainctl::cli {

/// Whether this process is such a rank; then --nproc means nothing to it.
bool is_local_rank();

/// Throws Error if a launcher has started this process as one of several; `option` starts processes itself.
void refuse_other_launcher(const std::string& option);

/// Runs until all ranks have ended. SIGINT and SIGTERM go on to them; when one fails the others have a second to say
/// what they know. Returns the exit code of the first that failed, 128 + n where signal n ended it.
int run_local_ranks(std::int64_t num_ranks);

}  // namespace trainctl::cli
