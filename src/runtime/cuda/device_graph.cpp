#include "runtime/device_graph.h"

#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>

#include <exception>
#include <memory>

#include "runtime/cuda/plugin.h"

namespace trainctl::runtime {
namespace {

class CudaGraph final : public DeviceGraph {
 public:
  explicit CudaGraph(c10::DeviceIndex device) : device_(device), graph_(std::make_unique<at::cuda::CUDAGraph>()) {}

  void record(const std::function<void()>& work) override {
    const c10::cuda::CUDAGuard on_device(device_);
    c10::cuda::device_synchronize();
    // The graph's memory is its own: what earlier steps left free would be held beside it.
    c10::cuda::CUDACachingAllocator::emptyCache();
    {
      const c10::cuda::CUDAStreamGuard on_stream(c10::cuda::getStreamFromPool(/*isHighPriority=*/false, device_));
      // Other threads go on with page-locked memory and events meanwhile, which is forbidden to this one alone.
      graph_->capture_begin({0, 0}, cudaStreamCaptureModeThreadLocal);
      try {
        work();
      } catch (...) {
        const std::exception_ptr why = std::current_exception();
        try {
          graph_->capture_end();
        } catch (const c10::Error&) {
          // The capture is void already; `why` tells. The allocators go on asking this graph, which must stay.
          static_cast<void>(graph_.release());
          graph_ = std::make_unique<at::cuda::CUDAGraph>();
        }
        std::rethrow_exception(why);
      }
      graph_->capture_end();
    }
    replay();
  }

  void replay() override { graph_->replay(); }

 private:
  c10::DeviceIndex device_;
  std::unique_ptr<at::cuda::CUDAGraph> graph_;
};

}  // namespace
}  // namespace trainctl::runtime

extern "C" __attribute__((visibility("default"))) trainctl::runtime::DeviceGraphFunction trainctl_cuda_graph;

trainctl::runtime::DeviceGraph* trainctl_cuda_graph(int device) {
  return new trainctl::runtime::CudaGraph(static_cast<c10::DeviceIndex>(device));
}
