// ZeRO (https://arxiv.org/abs/1910.02054): each rank keeps and updates its part of the optimizer's state (stage 1), of
// the gradients (2) and of the parameters (3), block by block.
#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_zero.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/error.h"
#include "distributed/kinds.h"
#include "distributed/offload.h"
#include "distributed/replica.h"
#include "distributed/sharded_state.h"
#include "distributed/units.h"
#include "optimizer/optimizer.h"

namespace trainctl::distributed {
namespace {

/// Gathers the gradients unit by unit. Each rank changes those parameters of which it has a stretch, so that nothing is
/// sent back (https://arxiv.org/abs/2502.16982, distributed Muon).
class GatheredGradients final : public optimizer::WholeGradients {
 public:
  /// `wanted`: names of parameters. `units` and `shards`, the ranks that share a parameter, outlive this object.
  GatheredGradients(const std::vector<Unit>& units, std::set<std::string> wanted, comm::Group& shards,
                    c10::Device device)
      : units_(units), wanted_(std::move(wanted)), shards_(shards), device_(device) {}

  c10::Device device() const override { return device_; }
  void change(std::optional<at::ScalarType> dtype,
              const std::function<void(const std::string& name, at::Tensor& whole)>& change) override;

 private:
  struct Gathering {
    const Unit* unit = nullptr;
    at::Tensor mine;   // [shard]
    at::Tensor whole;  // [numel]
    std::unique_ptr<comm::Work> work;
  };

  bool is_wanted(const Unit& unit) const;
  Gathering start(const Unit& unit, std::optional<at::ScalarType> dtype) const;

  const std::vector<Unit>& units_;
  std::set<std::string> wanted_;
  comm::Group& shards_;
  c10::Device device_;
};

bool GatheredGradients::is_wanted(const Unit& unit) const {
  return unit.trained && unit.sum.defined() &&
         std::ranges::any_of(unit.trained->entries(), [&](const auto& entry) { return wanted_.contains(entry.name); });
}

GatheredGradients::Gathering GatheredGradients::start(const Unit& unit, std::optional<at::ScalarType> dtype) const {
  const at::TensorOptions options = unit.sum.options().device(device_).dtype(dtype.value_or(unit.sum.scalar_type()));
  Gathering gathering{.unit = &unit,
                      .mine = unit.sum.to(options),
                      .whole = at::empty({unit.trained->numel()}, options),
                      .work = nullptr};
  gathering.work = shards_.all_gather(gathering.whole, gathering.mine);
  return gathering;
}

void GatheredGradients::change(std::optional<at::ScalarType> dtype,
                               const std::function<void(const std::string& name, at::Tensor& whole)>& change) {
  std::vector<const Unit*> wanted;
  for (const Unit& unit : units_)
    if (is_wanted(unit)) wanted.push_back(&unit);
  Gathering next;
  if (!wanted.empty()) next = start(*wanted.front(), dtype);
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const Gathering here = std::exchange(next, {});
    here.work->wait();
    if (i + 1 < wanted.size()) next = start(*wanted[i + 1], dtype);  // while this unit's are changed
    const FlatParameters& trained = *here.unit->trained;
    const std::int64_t begin = shards_.rank() * trained.shard_size();
    for (const FlatParameters::Entry& entry : trained.entries()) {
      const std::int64_t first = std::max(entry.offset, begin);
      const std::int64_t last = std::min(entry.offset + entry.numel, begin + trained.shard_size());
      if (first >= last || !wanted_.contains(entry.name)) continue;
      at::Tensor whole = trained.view(here.whole, entry);
      change(entry.name, whole);
      trained.view(here.whole, entry).copy_(whole);
      here.unit->sum.narrow(0, first - begin, last - first).copy_(here.whole.narrow(0, first, last - first));
    }
  }
}

/// The memories of offloaded state. Null: the state is on the device, or in the host's memory if the device is the CPU.
struct OffloadMemories {
  std::unique_ptr<OffloadMemory> host;
  std::unique_ptr<OffloadMemory> disk;

  OffloadMemory* of(Offload place) const {
    return place == Offload::disk ? disk.get() : place == Offload::cpu ? host.get() : nullptr;
  }
};

OffloadMemories make_memories(const OffloadConfig& config, c10::Device device) {
  OffloadMemories memories;
  if (!device.is_cpu()) memories.host = host_offload_memory(device);
  if (config.optimizer == Offload::disk || config.parameters == Offload::disk)
    memories.disk = disk_offload_memory(config.path);
  return memories;
}

c10::Device device_of(model::Model& model) {
  const std::vector<model::NamedTensor> parameters = model::named_parameters(model);
  return parameters.empty() ? c10::Device(c10::kCPU) : parameters.front().tensor.device();
}

/// The numbers of the units that a block uses.
struct UsedUnits {
  std::vector<std::size_t> all;
  std::optional<std::size_t> own;  // none: the block has no parameters of its own, as a tied head
};

class Zero final : public Parallel {
 public:
  Zero(const ZeroConfig& config, comm::DeviceMesh& mesh, model::Model& model, const model::FirstValues& first_values)
      : config_(config),
        gradients_(mesh.gradients()),
        shards_(mesh.over({comm::Axis::shard, comm::Axis::context})),
        copies_(mesh.over({comm::Axis::data})),
        model_(model),
        device_(device_of(model)),
        memories_(make_memories(config.offload, device_)),
        facts_(model::parameter_facts(model)),
        units_(make_units(model, layout(first_values))) {
    for (Unit& unit : units_) prepare(unit);
    if (config.sync_batch_norm) model::synchronize_batch_norm(model, batch_ranks(gradients_, has_samples_));
    if (config.stage == 3) run_blocks_gathered();
  }
  ~Zero() override {
    if (config_.stage == 3) model_.set_block_runner({});
  }

  const std::vector<optimizer::OptimizedParameter>& optimized() const override { return optimized_; }
  c10::Device update_device() const override {
    return config_.offload.optimizer == Offload::none ? device_ : c10::Device(c10::kCPU);
  }
  std::unique_ptr<optimizer::Optimizer> make_optimizer(const optimizer::OptimizerConfig& config) override;

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
  void with_whole(const at::Tensor& parameter, const std::function<void()>& use) override;
  void sum_over_parts(at::Tensor& sum) override { shards_.all_reduce(sum, comm::Reduce::sum)->wait(); }
  void max_over_parts(at::Tensor& value) override { shards_.all_reduce(value, comm::Reduce::max)->wait(); }
  void share_buffers() override { trainctl::distributed::share_buffers(gradients_, config_.sync_buffers, model_); }
  void visit_state(runtime::State& state, optimizer::Optimizer& optimizer) override {
    visit_sharded(state, optimizer, units_, holder(), model_);
  }
  void visit_averages(runtime::State& state, optimizer::Ema& ema) override {
    visit_sharded(state, ema, units_, holder());
  }

 private:
  ShardHolder holder() const { return {.shard = shards_.rank(), .copy = copies_.rank(), .num_copies = copies_.size()}; }
  ShardLayout layout(const model::FirstValues& first_values) const;
  void prepare(Unit& unit);
  void reduce_ready_units();
  void start_reduce(Unit& unit);
  void finish_reduce(Unit& unit);
  void finish_crossing(Unit& unit);
  void give_gradients(Unit& unit);
  void run_blocks_gathered();
  at::Tensor run_gathered(const model::Block& block, const at::Tensor& input, const model::SequenceContext& context);
  void start_gather(std::size_t unit);

  ZeroConfig config_;
  comm::Group& gradients_;
  comm::Group& shards_;  // who share a parameter
  comm::Group& copies_;  // who have the same part of it
  model::Model& model_;
  c10::Device device_;
  OffloadMemories memories_;
  std::map<std::string, model::ParameterFacts> facts_;
  std::vector<Unit> units_;
  std::unordered_map<const model::Layer*, UsedUnits> used_;  // by the block's layer
  std::vector<optimizer::OptimizedParameter> optimized_;
  std::unique_ptr<GatheredGradients> whole_gradients_;  // for the optimizer
  bool has_samples_ = true;
  bool reduces_ = false;
  bool in_backward_ = false;
  std::size_t next_ = 0;  // units from here on are being reduced, or are
};

ShardLayout Zero::layout(const model::FirstValues& first_values) const {
  // On a CPU parts are in the host's memory, and need no copy there to be updated.
  OffloadMemory* const parts = memories_.of(config_.offload.parameters);
  const bool has_masters = parts == nullptr && !device_.is_cpu();
  return {.all = gradients_,
          .shards = shards_,
          .whole = config_.stage == 3 ? Whole::gathered : Whole::kept,
          .parts = parts,
          .masters = has_masters ? memories_.of(config_.offload.optimizer) : nullptr,
          .first_values = &first_values};
}

std::unique_ptr<optimizer::Optimizer> Zero::make_optimizer(const optimizer::OptimizerConfig& config) {
  std::set<std::string> whole;
  for (const auto& [name, facts] : facts_)
    if (trainctl::optimizer::updates_whole(config, name, facts.role == model::ParameterRole::hidden))
      whole.insert(name);
  whole_gradients_ = std::make_unique<GatheredGradients>(units_, std::move(whole), shards_, device_);
  if (!memories_.disk) return trainctl::optimizer::build(config, optimized_, whole_gradients_.get());
  std::vector<OptimizedUnit> units;
  for (const Unit& unit : units_)
    if (!unit.pieces.empty()) units.push_back(unit.pieces);
  return config_.offload.optimizer == Offload::disk ? build_offloaded(config, units, *memories_.disk)
                                                    : build_over_offloaded(config, units, *memories_.disk);
}

/// Makes the tensors of a unit that the optimizer updates, and the hooks that report its gradients.
void Zero::prepare(Unit& unit) {
  if (!unit.trained) return;
  for (const model::NamedTensor& piece : unit.trained->pieces(unit.trained->shard())) {
    const at::Tensor leaf = piece.tensor.detach();
    leaf.set_requires_grad(true);
    const model::ParameterFacts& facts = facts_.at(piece.name);
    unit.pieces.push_back({.name = piece.name,
                           .tensor = leaf,
                           .num_dims = unit.trained->num_dims(piece.name),
                           .is_copy = piece.is_copy,
                           .blocks_after = facts.blocks_after,
                           .lr_scale = facts.lr_scale,
                           .is_hidden_matrix = facts.role == model::ParameterRole::hidden});
    optimized_.push_back(unit.pieces.back());
  }
  for (const FlatParameters::Entry& entry : unit.trained->entries())
    on_gradient(entry.tensor, [this, &unit] {
      if (++unit.num_ready >= unit.trained->entries().size()) reduce_ready_units();
    });
  if (config_.stage > 1) return;
  const at::NoGradGuard no_grad;
  unit.gradients = at::zeros({unit.trained->numel()}, unit.trained->options());
  for (const FlatParameters::Entry& entry : unit.trained->entries())
    entry.tensor.mutable_grad() = unit.trained->view(unit.gradients, entry);
}

/// Reduces from the last unit to the first: all ranks need one order, whatever the order of their gradients.
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
  for (Unit& other : units_) finish_reduce(other);  // a reduction may take as much memory again as what it reduces
  if (config_.stage == 1) {
    const std::int64_t begin = shards_.rank() * trained.shard_size();
    unit.reduced = unit.gradients.narrow(0, begin, trained.shard_size());
  } else {
    unit.gradients = at::zeros({trained.numel()}, trained.options());
    for (const FlatParameters::Entry& entry : trained.entries()) {
      at::Tensor& gradient = entry.tensor.mutable_grad();
      if (gradient.defined()) trained.view(unit.gradients, entry).copy_(gradient);
      gradient.reset();
    }
    unit.reduced = at::empty({trained.shard_size()}, trained.options());
  }
  unit.reducing = shards_.reduce_scatter(unit.reduced, unit.gradients);
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
  if (!reduces_) return;
  if (copies_.size() > 1)
    unit.crossing = copies_.all_reduce(unit.sum, comm::Reduce::sum);
  else
    give_gradients(unit);
}

void Zero::finish_crossing(Unit& unit) {
  if (!unit.crossing) return;
  unit.crossing->wait();
  unit.crossing.reset();
  give_gradients(unit);
}

/// Moves the reduced gradients to the device of the updated tensors, and attaches them.
void Zero::give_gradients(Unit& unit) {
  const at::NoGradGuard no_grad;
  unit.sum = unit.sum.to(unit.trained->shard().device());
  const std::vector<model::NamedTensor> pieces = unit.trained->pieces(unit.sum);
  for (std::size_t i = 0; i < pieces.size(); ++i) unit.pieces[i].tensor.mutable_grad() = pieces[i].tensor;
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
  for (Unit& unit : units_) finish_crossing(unit);
  in_backward_ = false;
}

void Zero::after_update() {
  for (Unit& unit : units_) unit.release();  // a whole that was gathered before has the old values
  std::unique_ptr<comm::Work> before;        // as in start_reduce: no more than two under way
  for (Unit& unit : units_) {
    if (!unit.trained) continue;
    std::unique_ptr<comm::Work> gathering = unit.trained->publish();
    if (before) before->wait();
    before = std::move(gathering);
  }
  if (before) before->wait();
}

void Zero::zero_grad() {
  for (Unit& unit : units_) {
    if (config_.stage == 1 && unit.gradients.defined()) unit.gradients.zero_();
    unit.sum.reset();
    for (const optimizer::OptimizedParameter& piece : unit.pieces) piece.tensor.mutable_grad().reset();
  }
}

void Zero::with_whole(const at::Tensor& parameter, const std::function<void()>& use) {
  const auto has_it = [&](const std::unique_ptr<FlatParameters>& parameters) {
    return parameters &&
           std::any_of(parameters->entries().begin(), parameters->entries().end(),
                       [&](const FlatParameters::Entry& entry) { return entry.tensor.is_same(parameter); });
  };
  const auto found = std::find_if(units_.begin(), units_.end(),
                                  [&](const Unit& unit) { return has_it(unit.trained) || has_it(unit.frozen); });
  if (found == units_.end()) return use();  // frozen, and whole everywhere
  found->gather();
  use();
  found->release();
}

void Zero::run_blocks_gathered() {
  std::size_t num_owned = 0;  // units are in the order of the blocks that own them
  for (const model::Block& block : model_.blocks()) {
    UsedUnits& used = used_[block.layer];
    used.all = units_used(units_, model_, block);
    if (used.all.empty() || used.all.back() < num_owned) continue;
    used.own = used.all.back();
    num_owned = used.all.back() + 1;
  }
  model_.set_block_runner(
      [this](const model::Block& block, const at::Tensor& input, const model::SequenceContext& context) {
        return run_gathered(block, input, context);
      });
}

/// Starts to gather a unit, and reads the parts of the next unit ahead.
void Zero::start_gather(std::size_t unit) {
  units_[unit].start_gather();
  const bool goes_back = in_backward_;
  if (goes_back ? unit > 0 : unit + 1 < units_.size()) units_[goes_back ? unit - 1 : unit + 1].bring();
}

at::Tensor Zero::run_gathered(const model::Block& block, const at::Tensor& input,
                              const model::SequenceContext& context) {
  const UsedUnits& used = used_.at(block.layer);
  for (const std::size_t unit : used.all) units_[unit].gather();
  if (used.all.empty()) return block.forward(input, context);
  if (!in_backward_ && used.own && *used.own + 1 < units_.size()) start_gather(*used.own + 1);
  at::Tensor output = block.forward(input, context);
  if (c10::GradMode::is_enabled() && output.requires_grad() && !in_backward_)
    output.register_hook([this, &used](const at::Tensor& gradient) {
      for (const std::size_t unit : used.all) units_[unit].gather();
      if (used.own && *used.own > 0) start_gather(*used.own - 1);
      return gradient;
    });
  const bool is_needed_again = c10::GradMode::is_enabled() && !config_.reshard_after_forward;
  if (!in_backward_ && !is_needed_again)
    for (const std::size_t unit : used.all) units_[unit].release();
  return output;
}

}  // namespace

std::unique_ptr<Parallel> build(const ZeroConfig& config, comm::DeviceMesh& mesh, model::Model& model,
                                const model::FirstValues& first_values) {
  return std::make_unique<Zero>(config, mesh, model, first_values);
}

}  // namespace trainctl::distributed
