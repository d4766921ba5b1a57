// Rates of fp32 matrix products on one core of this CPU, by library and shape: the three products of a linear layer's
// training step. Prints a Markdown table of GFLOP/s. Counts the thread's CPU time, so that other processes disturb
// little. OpenBLAS, which trainctl does not use, is compared where `--openblas /path/to/libopenblas.so.0` names it.
#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/randn.h>
#include <dlfcn.h>
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <string_view>
#include <vector>

#include "kernels/matrix_product.h"
#include "runtime/memory.h"

namespace {

using trainctl::kernels::ProductLibrary;

struct Shape {
  const char* of;
  std::int64_t rows, in, out;
};
constexpr Shape kShapes[] = {{"attention", 1024, 384, 384},
                             {"feed-forward, up", 1024, 384, 1536},
                             {"feed-forward, down", 1024, 1536, 384},
                             {"cnn's first linear layer", 128, 1568, 128},
                             {"cnn's first linear layer", 128, 6272, 256},
                             {"vocabulary", 512, 384, 30522},
                             {"wide feed-forward", 2048, 768, 3072}};

double cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

/// Lower quartile of the runs within a quarter of a second.
template <class Work>
double seconds_of(const Work& work) {
  work();
  std::vector<double> seconds;
  const double end = cpu_seconds() + 0.25;
  while (cpu_seconds() < end || seconds.size() < 5) {
    const double begin = cpu_seconds();
    work();
    seconds.push_back(cpu_seconds() - begin);
  }
  std::sort(seconds.begin(), seconds.end());
  return seconds[seconds.size() / 4];
}

/// cblas_sgemm of cblas.h: order, transpose A, transpose B, M, N, K, alpha, A, lda, B, ldb, beta, C, ldc.
using Sgemm = void (*)(int, int, int, int, int, int, float, const float*, int, const float*, int, float, float*, int);
constexpr int kRowMajor = 101, kAsItIs = 111, kTransposed = 112;

Sgemm load_openblas(int argc, char** argv) {
  if (argc != 3 || std::string_view(argv[1]) != "--openblas") return nullptr;
  void* library = dlopen(argv[2], RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) std::fprintf(stderr, "%s\n", dlerror());
  return library == nullptr ? nullptr : reinterpret_cast<Sgemm>(dlsym(library, "cblas_sgemm"));
}

/// left · right by OpenBLAS; a transposed side lies as its transpose.
void multiply(Sgemm sgemm, const at::Tensor& left, const at::Tensor& right, at::Tensor& product) {
  const bool left_turned = !left.is_contiguous(), right_turned = !right.is_contiguous();
  const auto m = static_cast<int>(left.size(0)), k = static_cast<int>(left.size(1)),
             n = static_cast<int>(right.size(1));
  sgemm(kRowMajor, left_turned ? kTransposed : kAsItIs, right_turned ? kTransposed : kAsItIs, m, n, k, 1,
        left.const_data_ptr<float>(), left_turned ? m : k, right.const_data_ptr<float>(), right_turned ? k : n, 0,
        product.mutable_data_ptr<float>(), n);
}

void print_rates(const Shape& shape, const char* product, const at::Tensor& left, const at::Tensor& right,
                 Sgemm sgemm) {
  const double gflop = 2e-9 * static_cast<double>(left.size(0) * left.size(1) * right.size(1));
  at::Tensor out = at::empty({left.size(0), right.size(1)});
  const auto rate = [&](const auto& work) { return gflop / seconds_of(work); };
  std::printf("| %s, %lld x %lld -> %lld | %s | %.0f | %.0f | %.0f |", shape.of, static_cast<long long>(shape.rows),
              static_cast<long long>(shape.in), static_cast<long long>(shape.out), product,
              rate([&] { at::mm_out(out, left, right); }),
              rate([&] { trainctl::kernels::matrix_product(left, right, kernels::ProductLibrary::mkl); }),
              rate([&] { trainctl::kernels::matrix_product(left, right, kernels::ProductLibrary::onednn); }));
  if (sgemm != nullptr) std::printf(" %.0f |", rate([&] { multiply(sgemm, left, right, out); }));
  std::printf("\n");
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  const at::NoGradGuard no_grad;
  at::set_num_threads(1);
  trainctl::runtime::install_host_allocator(trainctl::runtime::HostMemory::cached);
  Sgemm sgemm = load_openblas(argc, argv);
  std::printf("LibTorch computes with %s; this CPU's library is %s\n\n", at::get_cpu_capability().c_str(),
              trainctl::kernels::product_library() == kernels::ProductLibrary::onednn ? "oneDNN" : "MKL");
  std::printf("| layer | product | at::mm (MKL) | trainctl with MKL | trainctl with oneDNN |%s\n",
              sgemm ? " OpenBLAS |" : "");
  std::printf("| --- | --- | --- | --- | --- |%s\n", sgemm ? " --- |" : "");
  for (const Shape& shape : kShapes) {
    const at::Tensor input = at::randn({shape.rows, shape.in}), weight = at::randn({shape.out, shape.in});
    const at::Tensor gradient = at::randn({shape.rows, shape.out});
    print_rates(shape, "forward", input, weight.t(), sgemm);
    print_rates(shape, "input's gradient", gradient, weight, sgemm);
    print_rates(shape, "weight's gradient", gradient.t(), input, sgemm);
  }
}
