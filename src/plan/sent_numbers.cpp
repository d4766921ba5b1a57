#include "plan/sent_numbers.h"

#include <algorithm>

#include "core/error.h"
#include "runtime/fake_tensor.h"

namespace trainctl::plan {
namespace {

bool is_numbers(const at::Tensor& tensor) {
  return tensor.is_cpu() && tensor.scalar_type() == at::kLong && !runtime::is_fake(tensor);
}

}  // namespace

void SentNumbers::keep(const at::Tensor& sent) {
  if (!is_numbers(sent)) return;
  const auto* numbers = sent.const_data_ptr<std::int64_t>();
  numbers_.assign(numbers, numbers + sent.numel());
}

bool SentNumbers::give(const at::Tensor& received) const {
  if (!is_numbers(received)) return false;
  core::ensure(static_cast<std::int64_t>(numbers_.size()) == received.numel(),
               "a rank receives numbers like those that another sent");
  std::copy(numbers_.begin(), numbers_.end(), received.mutable_data_ptr<std::int64_t>());
  return true;
}

}  // namespace trainctl::plan
