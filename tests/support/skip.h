// Tests that cannot run on this machine. Catch2 v2 has no SKIP.
#pragma once

#include <string>

namespace trainctl::testing {

/// Ends the current test case, on the thread of the test. The program prints the reason and counts the case as skipped,
/// whatever it has asserted before; a failed assertion still fails it.
[[noreturn]] void skip(const std::string& reason);

}  // namespace trainctl::testing
