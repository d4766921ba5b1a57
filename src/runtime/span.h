// A named stretch of work. One name in the profiler, NVTX and the report; 70 ns when nobody records.
#pragma once

#include <ATen/record_function.h>

#include <string>
#include <string_view>
#include <utility>

namespace trainctl::runtime {

/// A computation of a pipeline's schedule is a span of this name with the action behind it: "pipeline 1F0".
inline constexpr std::string_view kActionSpan = "pipeline ";

/// `const Span span("backward");` lasts until the end of its scope, on its thread.
class Span {
 public:
  explicit Span(const char* name) : record_(at::RecordScope::USER_SCOPE) {
    if (record_.isActive()) record_.before(name);
  }
  explicit Span(std::string name) : record_(at::RecordScope::USER_SCOPE) {
    if (record_.isActive()) record_.before(std::move(name));
  }

 private:
  at::RecordFunction record_;
};

}  // namespace trainctl::runtime
