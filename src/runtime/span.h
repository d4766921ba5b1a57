// A named stretch of work. One name in the profiler, NVTX and the report; 70 ns when nobody records.
#pragma once

#include <ATen/record_function.h>

namespace trainctl::runtime {

/// `const Span span("backward");` lasts until the end of its scope, on its thread.
class Span {
 public:
  explicit Span(const char* name) : record_(at::RecordScope::USER_SCOPE) {
    if (record_.isActive()) record_.before(name);
  }

 private:
  at::RecordFunction record_;
};

}  // namespace trainctl::runtime
