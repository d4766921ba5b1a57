// The operators of a run as they are dispatched: what each computes and how many bytes it moves. The same list comes of
// tensors on the CPU, on a GPU and on the meta device.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/ScalarType.h>
#include <c10/util/SmallVector.h>

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace trainctl::roofline {

/// Operators whose time follows the same rule.
enum class WorkKind {
  product,                 // matrix products, by FLOPs
  batched_product,         // many small ones
  convolution,             // by FLOPs; windows of more than one pixel
  convolution_backward,    //
  pointwise,               // convolutions of one pixel
  pointwise_backward,      //
  stem,                    // convolutions of images: at most four channels
  stem_backward,           //
  depthwise,               // convolutions of each channel by itself
  depthwise_backward,      //
  attention,               // fused, by FLOPs
  attention_backward,      //
  recurrence,              // LSTM cells, by FLOPs
  recurrence_backward,     //
  stream,                  // element by element at the memory's pace, by bytes; so are all that follow
  transposition,           // copies into another order
  transcendental,          // exponentials and their like
  softmax,                 //
  reduction,               //
  normalization,           // of rows: LayerNorm, RMSNorm
  normalization_backward,  //
  batch_norm,              //
  batch_norm_backward,     //
  pooling,                 //
  pooling_backward,        //
  gather,                  // rows by index
  scatter,                 // sums into rows by index
  random,                  // dropout and its like
  update,                  // fused optimizers
};
inline constexpr std::size_t kNumWorkKinds = static_cast<std::size_t>(WorkKind::update) + 1;
std::string_view name_of(WorkKind kind);

enum class Pass { forward, backward, optimizer };
inline constexpr std::size_t kNumPasses = 3;
std::string_view name_of(Pass pass);

enum class PixelOrder { channels_first, channels_last };

struct Operation {
  using Shape = c10::SmallVector<std::int64_t, 4>;

  std::uint32_t name = 0;  // place in Operations::names
  WorkKind kind = WorkKind::stream;
  Pass pass = Pass::forward;
  at::ScalarType dtype = at::kFloat;
  PixelOrder order = PixelOrder::channels_first;  // of an image's values
  double flops = 0;                               // of products and convolutions; multiply-adds count as two
  double bytes = 0;                               // read and written
  std::int64_t least_extent = 0;                  // of a product's rows, columns and inner dimension
  Shape first;                                    // shapes of the first two tensors that it is given
  Shape second;
};

struct Operations {
  std::vector<Operation> list;
  std::vector<std::string> names;
  /// Number of dispatched calls per pass. Calls that move no bytes (views, allocations) and calls that only call others
  /// count. Calls within an operator that is listed as a whole don't count.
  std::array<std::int64_t, kNumPasses> num_calls{};
  const std::string& name(const Operation& operation) const { return names[operation.name]; }
  double flops() const;
  double flops(Pass pass) const;
  double bytes(Pass pass) const;
};

/// A recorder of the operators that the calling thread, and autograd's threads for it, dispatch while it lives. The
/// step's Spans give the pass of an operator; without them it is backward if the autograd engine runs it. If an
/// operator calls others, the ones that do the work are listed. Our own kernels are listed by their RECORD_FUNCTION. A
/// thread may have one recorder at a time.
class OperationRecorder {
 public:
  OperationRecorder();
  ~OperationRecorder();
  OperationRecorder(const OperationRecorder&) = delete;
  OperationRecorder& operator=(const OperationRecorder&) = delete;

  /// What was seen since the last call.
  Operations take();

 private:
  struct Recording;
  std::unique_ptr<Recording> recording_;
};

}  // namespace trainctl::roofline
