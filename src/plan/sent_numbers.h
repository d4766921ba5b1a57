// What a rank of a pipeline told another, kept until that one is run: its ranks are run one after the other.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace trainctl::plan {

/// Numbers of the host, not values of the model: the form of a stage's output.
class SentNumbers {
 public:
  /// Keeps what is sent, if it is such numbers.
  void keep(const at::Tensor& sent);
  /// Gives the numbers that were last sent. Returns false if `received` is for values of the model.
  bool give(const at::Tensor& received) const;

 private:
  std::vector<std::int64_t> numbers_;
};

}  // namespace trainctl::plan
