// Sums gradients over a group while the backward pass still runs: c10d's Reducer (https://arxiv.org/abs/2006.15704).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "comm/group.h"
#include "runtime/state.h"

namespace trainctl::comm {

/// Sends matrices as products of thin ones: PowerSGD.
struct LowRankOptions {
  std::int64_t rank = 1;
  std::int64_t start_step = 0;      // reductions before this one are exact
  double min_compression_rate = 2;  // of a matrix, or it is sent as it is
};

/// Columns of the thin matrices that a parameter of this shape is sent as; 0: it is sent whole.
std::int64_t columns_sent(at::IntArrayRef shape, const LowRankOptions& options);

enum class UnusedParameters { forbid, find };
enum class GraphShape { varies, is_static };

struct GradientReducerOptions {
  std::int64_t bucket_bytes = 25 << 20;
  std::int64_t first_bucket_bytes = 1 << 20;  // small, so that communication begins early
  std::optional<at::ScalarType> send_as{};    // a 16-bit type
  std::optional<LowRankOptions> low_rank{};
  UnusedParameters unused = UnusedParameters::forbid;
  GraphShape graph = GraphShape::varies;
};

struct NamedParameter {
  std::string name;
  at::Tensor tensor;  // requires grad
};

/// The numbers of the parameters in each bucket, in the order in which buckets are summed. Buckets follow the order in
/// which a backward pass finishes the gradients.
std::vector<std::vector<std::size_t>> reduction_buckets(const std::vector<at::Tensor>& parameters,
                                                        const GradientReducerOptions& options);

/// From its construction on, .grad of the parameters are views of the buckets; they are kept between steps (zeroed, not
/// freed). Gradients are summed, not averaged.
class GradientReducer {
 public:
  virtual ~GradientReducer() = default;
  /// Prepares the sum of gradients over the group; called before the forward pass of a micro-batch. The sum covers that
  /// micro-batch and the micro-batches before it since the last call. Other micro-batches need no call.
  virtual void prepare_forward() = 0;
  /// Prepares the backward pass, which begins with `loss`; called after that forward pass.
  virtual void prepare_backward(const at::Tensor& loss) = 0;
  /// Called after that backward pass, which ends when all sums are there.
  virtual void backward_done() = 0;

  /// What a lossy compression hands from one step to the next; the same on all members after share_state(), which they
  /// call together. The sum over members, which is all that counts, stays as it is.
  virtual void share_state() = 0;
  virtual void visit_state(runtime::State& state) = 0;
};

/// Checks that all members have the same parameters, and copies those of member 0, and the buffers, to the others.
std::unique_ptr<GradientReducer> make_gradient_reducer(Group& group, const std::vector<NamedParameter>& parameters,
                                                       const std::vector<at::Tensor>& buffers,
                                                       const GradientReducerOptions& options);

}  // namespace trainctl::comm
