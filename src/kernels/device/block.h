// Kernels for GPUs are functors over a block of threads: NVIDIA's where nvcc compiles them, and elsewhere one whose
// threads run in turn. Both run the same source, so that tests without a GPU see every thread's reads and writes.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#if defined(__CUDACC__)
#define TRAINCTL_DEVICE __device__ __forceinline__
#define TRAINCTL_UNROLL _Pragma("unroll")
#else
#define TRAINCTL_DEVICE inline
#define TRAINCTL_UNROLL
#endif

namespace trainctl::kernels::device {

/// Threads that step together; a block has a multiple of them.
constexpr int kWarp = 32;
/// So that each thread may have 128 registers.
constexpr int kMostThreads = 512;

/// How a kernel is started.
struct Launch {
  std::int64_t blocks = 0;
  int threads = 0;
};

/// Returns enough threads for this much work, in whole warps, up to kMostThreads.
inline int threads_for(std::int64_t work) {
  const std::int64_t whole = (work + kWarp - 1) / kWarp * kWarp;
  return static_cast<int>(std::clamp<std::int64_t>(whole, kWarp, kMostThreads));
}

/// Numbers that are summed together over the threads.
template <int kCount>
struct Sums {
  float values[kCount];
};

#if defined(__CUDACC__)

/// NVIDIA's block, for the thread that has it.
class GpuBlock {
 public:
  /// A variable of each thread, zero at first: a register.
  template <class T>
  class PerThread {
   public:
    __device__ explicit PerThread(const GpuBlock&) : value_{} {}
    __device__ T& operator[](int) { return value_; }
    __device__ const T& operator[](int) const { return value_; }

   private:
    T value_;
  };

  /// Elements that all threads see: one such array of a type and size in a kernel.
  template <class T, int kSize>
  class Shared {
   public:
    __device__ explicit Shared(const GpuBlock&) {
      __shared__ T values[kSize];
      values_ = values;
    }
    __device__ T& operator[](int at) const { return values_[at]; }

   private:
    T* values_;
  };

  __device__ std::int64_t index() const { return blockIdx.x; }
  __device__ std::int64_t count() const { return gridDim.x; }
  __device__ int threads() const { return static_cast<int>(blockDim.x); }

  /// Calls work(thread) for every thread. What one writes, another may read only after meet().
  template <class Work>
  __device__ __forceinline__ void each(const Work& work) const {
    work(static_cast<int>(threadIdx.x));
  }

  /// Waits for all threads.
  __device__ void meet() const { __syncthreads(); }

  /// Returns the sums over all threads, to each. The order of additions depends on the number of threads alone.
  template <int kCount>
  __device__ __forceinline__ Sums<kCount> sum(const PerThread<Sums<kCount>>& values) const {
    __shared__ float of_warps[kCount][kWarp];
    Sums<kCount> total = values[0];
    add_lanes(total);
    const int warps = threads() / kWarp;
    if (warps == 1) return total;
    const int lane = static_cast<int>(threadIdx.x) % kWarp;
    __syncthreads();  // the sums before these have been read
    if (lane == 0)
      for (int i = 0; i < kCount; ++i) of_warps[i][threadIdx.x / kWarp] = total.values[i];
    __syncthreads();
    for (int i = 0; i < kCount; ++i) total.values[i] = lane < warps ? of_warps[i][lane] : 0.0F;
    add_lanes(total);
    return total;
  }

 private:
  template <int kCount>
  __device__ __forceinline__ static void add_lanes(Sums<kCount>& sums) {
    TRAINCTL_UNROLL
    for (int i = 0; i < kCount; ++i) TRAINCTL_UNROLL
    for (int offset = kWarp / 2; offset > 0; offset /= 2)
      sums.values[i] += __shfl_xor_sync(0xffffffffU, sums.values[i], offset);
  }
};

using Block = GpuBlock;

#else

/// A block whose threads run one after another. Sums are added in the order of the GPU's.
class SteppedBlock {
 public:
  template <class T>
  class PerThread {
   public:
    explicit PerThread(const SteppedBlock& block) : values_(static_cast<std::size_t>(block.threads())) {}
    T& operator[](int thread) { return values_[static_cast<std::size_t>(thread)]; }
    const T& operator[](int thread) const { return values_[static_cast<std::size_t>(thread)]; }

   private:
    std::vector<T> values_;
  };

  template <class T, int kSize>
  class Shared {
   public:
    explicit Shared(const SteppedBlock&) : values_(kSize) {}
    T& operator[](int at) { return values_.at(static_cast<std::size_t>(at)); }

   private:
    std::vector<T> values_;
  };

  SteppedBlock(std::int64_t index, const Launch& launch) : index_(index), launch_(launch) {}

  std::int64_t index() const { return index_; }
  std::int64_t count() const { return launch_.blocks; }
  int threads() const { return launch_.threads; }

  template <class Work>
  void each(const Work& work) const {
    for (int thread = 0; thread < threads(); ++thread) work(thread);
  }

  void meet() const {}

  template <int kCount>
  Sums<kCount> sum(const PerThread<Sums<kCount>>& values) const {
    Sums<kCount> total{};
    for (int i = 0; i < kCount; ++i) {
      float of_warps[kWarp] = {};
      for (int warp = 0; warp < threads() / kWarp; ++warp) {
        float lanes[kWarp];
        for (int lane = 0; lane < kWarp; ++lane) lanes[lane] = values[warp * kWarp + lane].values[i];
        of_warps[warp] = add_lanes(lanes);
      }
      total.values[i] = threads() == kWarp ? of_warps[0] : add_lanes(of_warps);
    }
    return total;
  }

 private:
  static float add_lanes(float (&lanes)[kWarp]) {
    for (int offset = kWarp / 2; offset > 0; offset /= 2)
      for (int lane = 0; lane < offset; ++lane) lanes[lane] += lanes[lane + offset];
    return lanes[0];
  }

  std::int64_t index_;
  Launch launch_;
};

using Block = SteppedBlock;

#endif

/// A reading or writing of kWidth neighbours at once; their address is a multiple of their size.
template <class T, int kWidth>
struct alignas(sizeof(T) * kWidth) Chunk {
  T values[kWidth];
};

/// Reads chunk number `at` as floats.
template <int kWidth, class T>
TRAINCTL_DEVICE void read(const T* data, std::int64_t at, float (&values)[kWidth]) {
  const Chunk<T, kWidth> chunk = reinterpret_cast<const Chunk<T, kWidth>*>(data)[at];
  for (int i = 0; i < kWidth; ++i) values[i] = static_cast<float>(chunk.values[i]);
}

template <int kWidth, class T>
TRAINCTL_DEVICE void write(T* data, std::int64_t at, const float (&values)[kWidth]) {
  Chunk<T, kWidth> chunk;
  for (int i = 0; i < kWidth; ++i) chunk.values[i] = static_cast<T>(values[i]);
  reinterpret_cast<Chunk<T, kWidth>*>(data)[at] = chunk;
}

}  // namespace trainctl::kernels::device
