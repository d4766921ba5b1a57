// Operators that LibTorch has no meta kernel for in C++ (Python has): what they give, without values.
#pragma once

namespace trainctl::runtime {

/// Makes them known to the dispatcher, once. A FakeTensorScope does it.
void add_meta_operators();

}  // namespace trainctl::runtime
