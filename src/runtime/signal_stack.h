// Where a signal's handler runs while a thread computes.
#pragma once

namespace trainctl::runtime {

/// This thread and those that compute for it (OpenMP's) get stacks of their own for handlers with SA_ONSTACK. oneDNN's
/// AVX-512 sgemm has data where a signal's frame would else be written: a SIGTERM in it left a damaged heap. Call it
/// again after the number of threads has grown.
void use_signal_stacks();

}  // namespace trainctl::runtime
