// What an operator has to do, by its name and inputs: floating-point operations and bytes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace trainctl::profiler {

struct OperatorInput {
  std::vector<std::int64_t> sizes;    // of a tensor
  std::int64_t element_bytes = 0;     // 0: not a tensor
  std::vector<std::int64_t> numbers;  // of a list, or one number
  std::int64_t num_elements() const;
};

/// Multiply-adds count as two. 0: not known, or left to what the operator calls.
double operator_flops(const std::string& name, const std::vector<OperatorInput>& inputs);

/// Each input once, and what is written: `allocated` bytes of results, or the first input where it is changed in place.
/// 0 for views.
double operator_bytes(const std::string& name, const std::vector<OperatorInput>& inputs, double allocated);

}  // namespace trainctl::profiler
