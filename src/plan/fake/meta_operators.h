// Operators that LibTorch has no meta kernel for in C++ (Python has): what they give, without values.
#pragma once

namespace trainctl::plan {

/// Makes them known to the dispatcher, once; for a scope of hollow tensors (runtime/fake_tensor.h) or meta tensors as
/// such.
void add_meta_operators();

}  // namespace trainctl::plan
