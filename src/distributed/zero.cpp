// ZeRO (https://arxiv.org/abs/1910.02054): each rank keeps and updates its part of the optimizer's state (stage 1), of
// the gradients (2) and of the parameters (3), block by block.
#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_zero.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>

#include <unordered_map>

#include "core/error.h"
#include "distributed/kinds.h"
#include "distributed/replica.h"
#include "distributed/units.h"
#include "distributed/whole_state.h"

namespace trainctl {
namespace {

class Zero final : public Parallel {
 public:
  Zero(const ZeroConfig& config, Group& group, Model& model)
      : config_(config),
        group_(group),
        model_(model),
        units_(make_units(model, group, config.stage == 3 ? Whole::gathered : Whole::kept)) {
    for (Unit& unit : units_) prepare(unit);
    if (config.sync_batch_norm) synchronize_batch_norm(model, batch_ranks(group, has_samples_));
    if (config.stage == 3) run_blocks_gathered();
  }
  ~Zero() override {
    if (config_.stage == 3) model_.set_block_runner({});
  }

  Group& group() override { return group_; }
  const std::vector<OptimizedParameter>& optimized() const override { return optimized_; }

  void before_forward(Gradients gradients, std::int64_t samples) override {
    has_samples_ = samples > 0;
    reduces_ = gradients == Gradients::reduce;
  }
  void before_backward(const at::Tensor&) override {
    in_backward_ = true;
    for (Unit& unit : units_) unit.num_ready = 0;
    next_ = units_.size();
  }
  void after_backward() override;
  void after_update() override;
  void zero_grad() override;
  void sum_over_parts(at::Tensor& sum) override { group_.all_reduce(sum, Reduce::sum)->wait(); }
  void max_over_parts(at::Tensor& value) override { group_.all_reduce(value, Reduce::max)->wait(); }
  void share_buffers() override { trainctl::share_buffers(group_, config_.buffers, model_); }
  void visit_state(State& state, Optimizer& optimizer) override {
    visit_whole(state, optimizer, units_, group_, model_);
  }

 private:
  void prepare(Unit& unit);
  void parameter_ready(Unit& unit);
  void reduce_ready_units();
  void start_reduce(Unit& unit);
  void finish_reduce(Unit& unit);
  void run_blocks_gathered();
  at::Tensor run_gathered(const Block& block, const at::Tensor& input, const SequenceContext& context);
  ZeroConfig config_;
  Group& group_;
  Model& model_;
  std::vector<Unit> units_;
  std::unordered_map<const Layer*, std::vector<std::size_t>> used_;  // numbers of the units that a block uses
  std::vector<OptimizedParameter> optimized_;
  bool has_samples_ = true;
  bool reduces_ = false;
  bool in_backward_ = false;
  std::size_t next_ = 0;  // units from here on are being reduced, or are
};

/// What the optimizer updates of a unit, and what tells that a gradient of it is there.
void Zero::prepare(Unit& unit) {
  if (!unit.trained) return;
  for (const NamedTensor& piece : unit.trained->pieces(unit.trained->shard())) {
    const at::Tensor leaf = piece.tensor.detach();
    leaf.set_requires_grad(true);
    unit.pieces.push_back(leaf);
    optimized_.push_back({.name = piece.name, .tensor = leaf, .num_dims = unit.trained->num_dims(piece.name)});
  }
  for (const FlatParameters::Entry& entry : unit.trained->entries())
    on_gradient(entry.tensor, [this, &unit] { parameter_ready(unit); });
  if (config_.stage > 1) return;
  const at::NoGradGuard no_grad;
  unit.gradients = at::zeros({unit.trained->numel()}, unit.trained->options());
  for (const FlatParameters::Entry& entry : unit.trained->entries())
    entry.tensor.mutable_grad() = unit.trained->view(unit.gradients, entry);
}

void Zero::parameter_ready(Unit& unit) {
  if (++unit.num_ready < unit.trained->entries().size()) return;
  reduce_ready_units();
}

/// In one order on all ranks, whatever the order in which a rank's gradients are done: from the last unit to the first.
void Zero::reduce_ready_units() {
  while (next_ > 0) {
    Unit& unit = units_[next_ - 1];
    if (unit.trained && unit.num_ready < unit.trained->entries().size()) return;
    --next_;
    if (unit.trained && (reduces_ || config_.stage > 1)) start_reduce(unit);
    unit.release();
  }
}

void Zero::start_reduce(Unit& unit) {
  const at::NoGradGuard no_grad;
  FlatParameters& trained = *unit.trained;
  const std::int64_t begin = group_.rank() * trained.shard_size();
  if (config_.stage == 1) {
    unit.reduced = unit.gradients.narrow(0, begin, trained.shard_size());
  } else {
    for (Unit& other : units_) finish_reduce(other);  // at most one unit's whole gradients at a time
    unit.gradients = at::zeros({trained.numel()}, trained.options());
    for (const FlatParameters::Entry& entry : trained.entries()) {
      at::Tensor& gradient = entry.tensor.mutable_grad();
      if (gradient.defined()) trained.view(unit.gradients, entry).copy_(gradient);
      gradient.reset();
    }
    unit.reduced = at::empty({trained.shard_size()}, trained.options());
  }
  unit.reducing = group_.reduce_scatter(unit.reduced, unit.gradients);
}

void Zero::finish_reduce(Unit& unit) {
  if (!unit.reducing) return;
  const at::NoGradGuard no_grad;
  unit.reducing->wait();
  unit.reducing.reset();
  if (config_.stage > 1) {
    unit.gradients.reset();
    if (unit.sum.defined())
      unit.sum.add_(unit.reduced);
    else
      unit.sum = std::move(unit.reduced);
  } else {
    unit.sum = std::move(unit.reduced);
  }
  unit.reduced.reset();
  const std::vector<NamedTensor> pieces = unit.trained->pieces(unit.sum);
  for (std::size_t i = 0; i < pieces.size(); ++i) unit.pieces[i].mutable_grad() = pieces[i].tensor;
}

void Zero::after_backward() {
  // Units with parameters that took no part in this loss.
  for (Unit& unit : units_)
    if (unit.trained) unit.num_ready = unit.trained->entries().size();
  reduce_ready_units();
  for (Unit& unit : units_) {
    finish_reduce(unit);
    unit.release();
  }
  in_backward_ = false;
}

void Zero::after_update() {
  std::vector<std::unique_ptr<Pending>> gathering;
  for (Unit& unit : units_)
    if (unit.trained) gathering.push_back(unit.trained->update_whole());
  for (const std::unique_ptr<Pending>& one : gathering)
    if (one) one->wait();
}

void Zero::zero_grad() {
  for (Unit& unit : units_) {
    if (config_.stage == 1 && unit.gradients.defined()) unit.gradients.zero_();
    unit.sum.reset();
    for (at::Tensor& piece : unit.pieces) piece.mutable_grad().reset();
  }
}

void Zero::run_blocks_gathered() {
  for (const Block& block : model_.blocks()) used_[block.layer] = units_used(units_, model_, block);
  model_.set_block_runner([this](const Block& block, const at::Tensor& input, const SequenceContext& context) {
    return run_gathered(block, input, context);
  });
}

at::Tensor Zero::run_gathered(const Block& block, const at::Tensor& input, const SequenceContext& context) {
  const std::vector<std::size_t>& used = used_.at(block.layer);
  for (const std::size_t unit : used) units_[unit].gather();
  if (used.empty()) return block.forward(input, context);
  // The block's own unit is the last of them.
  if (!in_backward_ && used.back() + 1 < units_.size()) units_[used.back() + 1].start_gather();
  at::Tensor output = block.forward(input, context);
  if (c10::GradMode::is_enabled() && output.requires_grad() && !in_backward_)
    output.register_hook([this, &used](const at::Tensor& gradient) {
      for (const std::size_t unit : used) units_[unit].gather();
      if (used.back() > 0) units_[used.back() - 1].start_gather();
      return gradient;
    });
  const bool is_needed_again = c10::GradMode::is_enabled() && !config_.reshard_after_forward;
  if (!in_backward_ && !is_needed_again)
    for (const std::size_t unit : used) units_[unit].release();
  return output;
}

}  // namespace

std::unique_ptr<Parallel> build(const ZeroConfig& config, Group& group, Model& model) {
  return std::make_unique<Zero>(config, group, model);
}

}  // namespace trainctl
