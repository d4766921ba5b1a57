// What each thread of this process is doing at this moment.
#pragma once

#include <string>

namespace trainctl::runtime {

/// The stacks of all threads, the calling one's last: name, state, and a line a
/// function. Threads are interrupted by a signal for it; one that doesn't
/// answer within a fifth of a second is said not to. Takes a second or so where
/// the program's symbols are large. One call at a time.
std::string stacks_of_all_threads();

}  // namespace trainctl::runtime
