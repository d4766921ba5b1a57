// How the ranks' copies, or parts, of a model act as one. The training step knows this and no more.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <vector>

#include "comm/device_mesh.h"
#include "distributed/config.h"
#include "distributed/pipeline_stages.h"
#include "model/model.h"
#include "optimizer/optimizer.h"
#include "runtime/state.h"

namespace trainctl::distributed {

/// What a micro-batch's backward pass does with gradients.
enum class Gradients { accumulate, reduce };

class Parallel {
 public:
  virtual ~Parallel() = default;
  /// What this rank's optimizer updates: the trained parameters, or this rank's part of each.
  virtual const std::vector<optimizer::OptimizedParameter>& optimized() const = 0;
  /// Where those, and so their gradients, lie.
  virtual c10::Device update_device() const = 0;
  /// Makes an optimizer of optimized().
  virtual std::unique_ptr<optimizer::Optimizer> make_optimizer(const optimizer::OptimizerConfig& config) = 0;

  /// Before a micro-batch's forward pass. `samples`: of this rank; 0 where it computes on a placeholder.
  virtual void before_forward(Gradients gradients, std::int64_t samples) = 0;
  /// Between the two: what the backward pass begins with.
  virtual void before_backward(const at::Tensor& loss) = 0;
  /// After the backward pass of a micro-batch that reduces, .grad of optimized() is the sum over ranks and over the
  /// micro-batches since zero_grad().
  virtual void after_backward() = 0;
  /// After the optimizer, or a loader: all ranks see the new weights.
  virtual void after_update() = 0;
  virtual void zero_grad() = 0;
  /// Calls `use` while the parameter is whole in this rank's memory. Called by all ranks that share it.
  virtual void with_whole(const at::Tensor& parameter, const std::function<void()>& use) = 0;

  /// Where each rank has a part of the gradients: what all of them have together, in place.
  virtual void sum_over_parts(at::Tensor& sum) = 0;
  virtual void max_over_parts(at::Tensor& value) = 0;

  /// Makes running statistics the same on all ranks, by the config's policy, before they are evaluated or saved. Does
  /// so as well with the errors that a lossy compression carries to the next step.
  virtual void share_buffers() = 0;
  /// Shows the model as "model", and the optimizer with its slots as "optimizer"; ddp adds "compression". Tensors are
  /// whole, or this rank's stretches of them, under the same names and with the same shapes in every layout. No rank
  /// waits for another.
  virtual void visit_state(runtime::State& state, optimizer::Optimizer& optimizer) = 0;
  /// Shows the averages of optimized() in the same way.
  virtual void visit_averages(runtime::State& state, optimizer::Ema& ema) = 0;
};

/// Returns how the config lays the ranks out; throws Error if their number doesn't allow it.
comm::MeshShape mesh_shape(const DistributedConfig& config, const comm::Group& world);

/// Returns the ranks that share each layer with this one, for model::split_layers(); null if it has whole layers. They
/// live as long as the mesh.
model::TensorRanksPtr tensor_ranks(const DistributedConfig& config, comm::DeviceMesh& mesh);

/// Returns the ranks that share each sequence with this one, for model::Model::share_sequences(); null if it has whole
/// sequences. They live as long as the mesh.
model::ContextRanksPtr context_ranks(comm::DeviceMesh& mesh);

/// Whether no rank has all parameters in memory at once, so that they shouldn't have any before they are laid out.
/// `gradients`: the ranks whose gradients are summed.
bool shards_parameters(const DistributedConfig& config, const comm::Group& gradients);

/// `mesh` and `model` outlive the result. Of one rank, every kind is the same but for what it offloads.
/// `first_values`: of parameters that have no memory yet, which shards_parameters() allows. `stages`: of the pipeline
/// whose blocks the model has; null: there is none.
std::unique_ptr<Parallel> build(const DistributedConfig& config, comm::DeviceMesh& mesh, model::Model& model,
                                const model::FirstValues& first_values = {}, const PipelineStages* stages = nullptr);

}  // namespace trainctl::distributed
