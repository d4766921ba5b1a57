// A rank that has a part of the model: some of its blocks, as a stage of a pipeline or several, or a part of each
// layer.
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros_like.h>

#include <map>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "comm/device_mesh.h"
#include "distributed/kinds.h"
#include "distributed/pipeline_stages.h"
#include "distributed/sharded_state.h"
#include "model/model.h"

namespace trainctl::distributed {
namespace {

/// The weight that a head on the last stage shares with the embedding on another
/// (https://arxiv.org/abs/2104.04473, section 4). Each step its gradient goes to the rank that has the embedding, and
/// its new values come back.
class BorrowedWeight {
 public:
  /// `row`: the ranks along the pipeline axis. Called by the two ranks of the loan, once the model has its parameters.
  BorrowedWeight(const WeightLoan& loan, comm::Group& row, model::Model& model);
  BorrowedWeight(const BorrowedWeight&) = delete;
  BorrowedWeight& operator=(const BorrowedWeight&) = delete;
  ~BorrowedWeight();

  bool is_owner() const { return is_owner_; }
  const at::Tensor& weight() const { return weight_; }
  /// The owner's next backward pass adds what the borrower sends.
  void expect_gradient() { expects_ = true; }
  /// The borrower's gradient of the step, which is complete.
  void send_gradient();
  /// The owner's values to the borrower. The owner's weight is whole.
  void share_values();

 private:
  at::Tensor with_borrowers(const at::Tensor& gradient);

  bool is_owner_;
  at::Tensor weight_;
  std::unique_ptr<comm::Group> pair_;  // rank 0: the owner
  unsigned hook_ = 0;
  bool expects_ = false;
  at::Tensor sent_;
  std::unique_ptr<comm::Work> sending_;
};

BorrowedWeight::BorrowedWeight(const WeightLoan& loan, comm::Group& row, model::Model& model)
    : is_owner_(row.rank() == loan.owner),
      weight_(is_owner_ ? model.shared_head_weight()->value : model.borrowed_weight()->value),
      pair_(row.split("tied weight", {loan.owner, loan.borrower})) {
  if (is_owner_ && weight().requires_grad())
    hook_ = weight().register_hook([this](const at::Tensor& gradient) { return with_borrowers(gradient); });
}

BorrowedWeight::~BorrowedWeight() {
  if (is_owner_ && weight().requires_grad()) weight().remove_hook(hook_);
}

at::Tensor BorrowedWeight::with_borrowers(const at::Tensor& gradient) {
  if (!expects_) return gradient;
  expects_ = false;
  const at::Tensor other = at::empty_like(gradient, at::MemoryFormat::Contiguous);
  pair_->irecv(other, 1)->wait();
  return gradient.add(other);
}

void BorrowedWeight::send_gradient() {
  const at::Tensor& gradient = weight().grad();
  if (!weight().requires_grad()) return;
  sent_ = gradient.defined() ? gradient : at::zeros_like(weight());
  sending_ = pair_->isend(sent_, 0);
}

void BorrowedWeight::share_values() {
  const at::NoGradGuard no_grad;
  if (sending_) sending_->wait();
  sending_.reset();
  sent_.reset();
  at::Tensor values = weight().detach();
  if (is_owner_)
    pair_->isend(values, 1)->wait();
  else
    pair_->irecv(values, 0)->wait();
}

/// Shows tensors that this rank has, and others don't, as parts.
class PartState final : public runtime::State {
 public:
  PartState(runtime::State& inner, comm::DeviceMesh& mesh, const std::map<std::string, model::Shard>& shards)
      : inner_(inner), mesh_(mesh), shards_(shards) {}

  void tensor(const std::string& name, at::Tensor& value) override {
    const auto shard = name.starts_with(kModel) ? shards_.find(name.substr(kModel.size())) : shards_.end();
    show(name, value, place_of(value, shard));
  }
  void slot(const runtime::SlotKey& key, at::Tensor& value) override {
    const auto shard = value.dim() == 0 ? shards_.end() : shards_.find(key.parameter);
    runtime::PartOf place = place_of(value, shard);
    place.slot = key;
    if (key.first_values.defined()) place.slot->first_values = in_memory(key.first_values);
    show(key.name(), value, place);
  }
  void part(const std::string& name, at::Tensor& stretch, const runtime::PartOf& whole) override {
    runtime::PartOf place = whole;
    // What isn't split is on all ranks that share layers, which ZeRO may cut at other elements: the first saves it.
    if (whole.runs.length == 0 && mesh_.place(comm::Axis::tensor) > 0) place.copy = place.num_copies;
    inner_.part(name, stretch, place);
  }
  bool has(const std::string& name) override { return inner_.has(name); }
  void integer(const std::string& name, std::int64_t& value) override { inner_.integer(name, value); }
  void number(const std::string& name, double& value) override { inner_.number(name, value); }
  void text(const std::string& name, std::string& value) override { inner_.text(name, value); }

 private:
  static constexpr std::string_view kModel = "model.";

  using Shards = std::map<std::string, model::Shard>;

  runtime::PartOf place_of(const at::Tensor& value, Shards::const_iterator shard) const {
    runtime::PartOf place =
        place_of_parameter(value, shard == shards_.end() ? std::nullopt : std::optional(shard->second));
    place.copy = mesh_.gradients().rank();
    place.num_copies = mesh_.gradients().size();
    return place;
  }

  /// Returns a dense tensor as one row, in the order of its memory.
  static at::Tensor in_memory(const at::Tensor& dense) { return dense.as_strided({dense.numel()}, {1}); }

  void show(const std::string& name, const at::Tensor& value, const runtime::PartOf& place) {
    at::Tensor flat = in_memory(value);
    part(name, flat, place);
  }

  runtime::State& inner_;
  comm::DeviceMesh& mesh_;
  const Shards& shards_;
};

std::map<std::string, model::Shard> shards_of(model::Model& model) {
  std::map<std::string, model::Shard> shards;
  model.visit_parameters([&](const std::string& name, model::TensorDecl& decl) {
    if (decl.shard) shards.emplace(name, *decl.shard);
  });
  return shards;
}

class ModelPart final : public Parallel {
 public:
  ModelPart(std::unique_ptr<Parallel> part, const PipelineStages* stages, comm::DeviceMesh& mesh, model::Model& model)
      : part_(std::move(part)),
        mesh_(mesh),
        others_(mesh.over({comm::Axis::pipeline, comm::Axis::tensor})),
        row_(mesh.over({comm::Axis::pipeline})),
        shards_(shards_of(model)) {
    model.visit_parameters([&](const std::string&, model::TensorDecl& decl) {
      if (decl.sums_gradient && decl.value.requires_grad()) sum_gradient(decl.value);
    });
    if (stages == nullptr || !stages->loan) return;
    const std::int64_t place = row_.rank();
    if (place != stages->loan->owner && place != stages->loan->borrower) return;
    borrowed_ = std::make_unique<BorrowedWeight>(*stages->loan, row_, model);
    share_weight();
  }

  ~ModelPart() override {
    for (const auto& [parameter, hook] : hooks_) parameter.remove_hook(hook);
  }

  const std::vector<optimizer::OptimizedParameter>& optimized() const override { return part_->optimized(); }
  c10::Device update_device() const override { return part_->update_device(); }
  std::unique_ptr<optimizer::Optimizer> make_optimizer(const optimizer::OptimizerConfig& config) override {
    return part_->make_optimizer(config);
  }

  void before_forward(Gradients gradients, std::int64_t samples) override {
    is_last_ = gradients == Gradients::reduce;
    part_->before_forward(gradients, samples);
  }
  void before_backward(const at::Tensor& loss) override {
    if (is_last_ && borrowed_ && borrowed_->is_owner()) borrowed_->expect_gradient();
    part_->before_backward(loss);
  }
  void after_backward() override {
    part_->after_backward();
    if (is_last_ && borrowed_ && !borrowed_->is_owner()) borrowed_->send_gradient();
  }
  void after_update() override {
    part_->after_update();
    share_weight();
  }
  void zero_grad() override {
    part_->zero_grad();
    if (borrowed_ && !borrowed_->is_owner()) borrowed_->weight().mutable_grad().reset();
  }
  void with_whole(const at::Tensor& parameter, const std::function<void()>& use) override {
    part_->with_whole(parameter, use);
  }

  void sum_over_parts(at::Tensor& sum) override {
    part_->sum_over_parts(sum);
    others_.all_reduce(sum, comm::Reduce::sum)->wait();
  }
  void max_over_parts(at::Tensor& value) override {
    part_->max_over_parts(value);
    others_.all_reduce(value, comm::Reduce::max)->wait();
  }

  void share_buffers() override { part_->share_buffers(); }
  void visit_state(runtime::State& state, optimizer::Optimizer& optimizer) override {
    PartState own(state, mesh_, shards_);
    part_->visit_state(own, optimizer);
  }
  void visit_averages(runtime::State& state, optimizer::Ema& ema) override {
    PartState own(state, mesh_, shards_);
    part_->visit_averages(own, ema);
  }

 private:
  /// Sums the parameter's gradient over the ranks that share tokens, in each backward pass before `part_` has it.
  void sum_gradient(const at::Tensor& parameter) {
    comm::Group& group = mesh_.over({comm::Axis::tensor});
    hooks_.emplace_back(parameter, parameter.register_hook([&group](const at::Tensor& gradient) {
      at::Tensor sum = gradient.clone(at::MemoryFormat::Contiguous);
      group.all_reduce(sum, comm::Reduce::sum)->wait();
      return sum;
    }));
  }

  void share_weight() {
    if (!borrowed_) return;
    if (!borrowed_->is_owner()) return borrowed_->share_values();
    part_->with_whole(borrowed_->weight(), [&] { borrowed_->share_values(); });
  }

  std::unique_ptr<Parallel> part_;
  comm::DeviceMesh& mesh_;
  comm::Group& others_;  // who have the rest of the model
  comm::Group& row_;     // of those, who have other blocks
  std::map<std::string, model::Shard> shards_;
  std::vector<std::pair<at::Tensor, unsigned>> hooks_;
  std::unique_ptr<BorrowedWeight> borrowed_;
  bool is_last_ = false;
};

}  // namespace

std::unique_ptr<Parallel> build_model_part(std::unique_ptr<Parallel> part, const PipelineStages* stages,
                                           comm::DeviceMesh& mesh, model::Model& model) {
  return std::make_unique<ModelPart>(std::move(part), stages, mesh, model);
}

}  // namespace trainctl::distributed
