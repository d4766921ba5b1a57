// Copies of matrices that lie transposed, against LibTorch's.
#include "kernels/copy_by_rows.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/randn.h>

#include <catch2/catch.hpp>
#include <cstdint>
#include <limits>

namespace trainctl::kernels::copy_by_rows_test {
namespace {

TEST_CASE("a copy by rows has the same values, whatever the extents", "[kernels]") {
  for (const std::int64_t rows : {0, 1, 7, 64, 129, 1030})
    for (const std::int64_t columns : {0, 1, 5, 64, 130, 1024}) {
      INFO(rows << " rows, " << columns << " columns");
      const at::Tensor matrix = at::randn({columns, rows}).t();
      if (matrix.numel() > 0) matrix[rows / 2][columns / 2] = std::numeric_limits<float>::infinity();
      const at::Tensor copy = copy_by_rows(matrix);
      CHECK(copy.is_contiguous());
      CHECK(at::equal(copy, matrix));
    }
}

TEST_CASE("a copy by rows of a matrix without values has its shape", "[kernels]") {
  const at::Tensor matrix = at::empty({3, 5}, at::TensorOptions(at::kMeta)).t();
  const at::Tensor copy = copy_by_rows(matrix);
  CHECK(copy.is_meta());
  CHECK(copy.is_contiguous());
  CHECK(copy.sizes() == matrix.sizes());
}

}  // namespace
}  // namespace trainctl::kernels::copy_by_rows_test
