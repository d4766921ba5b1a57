#include "kernels/copy_by_rows.h"

#include <ATen/Parallel.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/empty.h>
#include <fbgemm/Utils.h>
#include <torch/library.h>

#include <algorithm>
#include <cstdint>

namespace trainctl::kernels {
namespace {

at::Tensor copy_by_rows_on_cpu(const at::Tensor& matrix) {
  constexpr std::int64_t kSide = 64;  // of a square of which the first cache holds both copies
  at::Tensor copy = at::empty(matrix.sizes(), matrix.options());
  const float* from = matrix.const_data_ptr<float>();
  float* to = copy.mutable_data_ptr<float>();
  const std::int64_t num_rows = matrix.size(0);
  const std::int64_t num_columns = matrix.size(1);
  at::parallel_for(0, num_rows, kSide, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t column = 0; column < num_columns; column += kSide)
      fbgemm::transpose_simd(std::min(kSide, num_columns - column), end - begin, from + column * num_rows + begin,
                             num_rows, to + begin * num_columns + column, num_columns);
  });
  return copy;
}

at::Tensor copy_by_rows_without_values(const at::Tensor& matrix) {
  return at::empty(matrix.sizes(), matrix.options());
}

// An operator, so that a planner's tensors without values pass through it.
TORCH_LIBRARY_FRAGMENT(trainctl, library) {
  library.def("copy_by_rows(Tensor matrix) -> Tensor");
}
TORCH_LIBRARY_IMPL(trainctl, CPU, library) {
  library.impl("copy_by_rows", &copy_by_rows_on_cpu);
}
TORCH_LIBRARY_IMPL(trainctl, Meta, library) {
  library.impl("copy_by_rows", &copy_by_rows_without_values);
}

}  // namespace

at::Tensor copy_by_rows(const at::Tensor& matrix) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("trainctl::copy_by_rows", "")
                             .typed<decltype(copy_by_rows_on_cpu)>();
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  return op.call(matrix);
}

}  // namespace trainctl::kernels
