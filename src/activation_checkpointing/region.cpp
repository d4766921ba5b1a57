#include "activation_checkpointing/region.h"

#include <ATen/ops/empty.h>

#include <exception>
#include <mutex>
#include <optional>
#include <vector>

#include "activation_checkpointing/costly_operators.h"
#include "activation_checkpointing/forward_state.h"
#include "activation_checkpointing/saved_tensors.h"
#include "core/error.h"
#include "runtime/recomputation.h"
#include "runtime/span.h"

namespace trainctl::activation_checkpointing {
namespace {

/// The exception that ends a second run when the wanted tensors are there.
class Complete final : public std::exception {};

/// A tensor that autograd saved.
struct Saved {
  at::ScalarType dtype;
  std::int64_t numel;
  at::Tensor value{};  // from the second run
  bool released = false;
};

/// The results of a costly operator.
struct Results {
  struct Result {
    std::shared_ptr<const PackedTensor> tensor;  // null: it's `other`
    c10::IValue other;
  };
  std::vector<Result> results;
  std::size_t saves_before = 0;  // tensors saved before they are needed

  bool is_intact() const {
    for (const Result& result : results)
      if (result.tensor && !result.tensor->is_intact()) return false;
    return true;
  }
};

class Region final : public std::enable_shared_from_this<Region> {
 public:
  Region(const model::Passage& passage, const at::Tensor& input, const model::SequenceContext& context,
         const RegionOptions& options)
      : passage_(passage),
        context_(context),
        packer_(options.packer),
        state_(input.device()),
        input_(keep(input)),
        input_requires_grad_(input.requires_grad()) {}

  at::Tensor run(const at::Tensor& input, Keep what);

  /// Returns the value of the saved tensor number `index`; runs the region again if the value was dropped.
  at::Tensor value(std::size_t index);
  void release(std::size_t index);

 private:
  class FirstRun;
  class SecondRun;
  class Slot;

  std::shared_ptr<const PackedTensor> keep(const at::Tensor& tensor) const {
    return packer_ ? packer_->pack(tensor)
                   : std::make_shared<const PackedTensor>(tensor, ActivationOffload::none, ActivationStorage::none);
  }
  void run_again();

  const model::Passage& passage_;
  model::SequenceContext context_;
  std::shared_ptr<TensorPacker> packer_;
  ForwardState state_;
  std::mutex mutex_;  // guards what follows: nodes of other devices run on other threads
  std::shared_ptr<const PackedTensor> input_;
  bool input_requires_grad_;
  std::vector<Saved> saved_;
  std::vector<std::optional<Results>> costly_;
};

/// The hooks that the graph's node keeps instead of the tensor.
class Region::Slot final : public torch::autograd::SavedVariableHooks {
 public:
  explicit Slot(std::shared_ptr<Region> region) : region_(std::move(region)) {}
  Slot(const Slot&) = delete;
  Slot& operator=(const Slot&) = delete;
  ~Slot() override {
    if (index_) region_->release(*index_);
  }

  void call_pack_hook(const at::Tensor& tensor) override {
    index_ = region_->saved_.size();
    region_->saved_.push_back({.dtype = tensor.scalar_type(), .numel = tensor.numel()});
  }
  at::Tensor call_unpack_hook() override { return region_->value(index_.value()); }

 private:
  std::shared_ptr<Region> region_;
  std::optional<std::size_t> index_;  // none: autograd packed no tensor, as with numbers
};

class Region::FirstRun final : public SavedTensorPolicy, public CostlyOperatorPolicy {
 public:
  explicit FirstRun(Region& region) : region_(region) {}

  std::unique_ptr<torch::autograd::SavedVariableHooks> hooks() override {
    return std::make_unique<Slot>(region_.shared_from_this());
  }

  bool replace(const CostlyCall& call) override {
    input_elements_ = 0;
    for (const c10::IValue& argument : torch::jit::last(call.stack, call.op.schema().arguments().size()))
      if (argument.isTensor() && argument.toTensor().defined()) input_elements_ += argument.toTensor().numel();
    return false;
  }

  void ran(const CostlyCall& call) override {
    const auto results = torch::jit::last(call.stack, call.op.schema().returns().size());
    region_.costly_.emplace_back();
    if (call.worth == Worth::when_smaller_than_inputs && results[0].toTensor().numel() > input_elements_) return;
    Results kept{.results = {}, .saves_before = region_.saved_.size() + static_cast<std::size_t>(call.saves_after)};
    for (const c10::IValue& result : results)
      kept.results.push_back(result.isTensor() && result.toTensor().defined()
                                 ? Results::Result{.tensor = region_.keep(result.toTensor()), .other = {}}
                                 : Results::Result{.tensor = nullptr, .other = result});
    region_.costly_.back() = std::move(kept);
  }

 private:
  Region& region_;
  std::int64_t input_elements_ = 0;
};

class Region::SecondRun final : public SavedTensorPolicy, public CostlyOperatorPolicy {
 public:
  explicit SecondRun(Region& region) : region_(region) {}
  std::size_t num_saved() const { return num_saved_; }

  std::unique_ptr<torch::autograd::SavedVariableHooks> hooks() override { return std::make_unique<Recorder>(*this); }

  bool replace(const CostlyCall& call) override {
    const std::size_t index = num_calls_++;
    const auto arguments = torch::jit::last(call.stack, call.op.schema().arguments().size());
    if (call.saves_after > 0 && num_saved_ + static_cast<std::size_t>(call.saves_after) >= region_.saved_.size()) {
      // The backward pass needs what this is computed from, but not the result.
      std::vector<std::int64_t> shape = arguments[0].toTensor().sizes().vec();
      shape.back() = arguments[1].toTensor().size(0);
      const at::Tensor result = at::empty(shape, arguments[0].toTensor().options());
      torch::jit::drop(call.stack, arguments.size());
      torch::jit::push(call.stack, result);
      return true;
    }
    if (index >= region_.costly_.size() || !region_.costly_[index] || !region_.costly_[index]->is_intact())
      return false;
    torch::jit::drop(call.stack, arguments.size());
    for (const Results::Result& result : region_.costly_[index]->results)
      torch::jit::push(call.stack, result.tensor ? c10::IValue(result.tensor->value()) : result.other);
    return true;
  }
  void ran(const CostlyCall&) override {}

 private:
  class Recorder final : public torch::autograd::SavedVariableHooks {
   public:
    explicit Recorder(SecondRun& run) : run_(run) {}
    void call_pack_hook(const at::Tensor& tensor) override { run_.record(tensor); }
    at::Tensor call_unpack_hook() override { throw std::logic_error("the graph of a recomputation is run backward"); }

   private:
    SecondRun& run_;
  };

  void record(const at::Tensor& tensor) {
    core::ensure(num_saved_ < region_.saved_.size(), "a recomputation saves more tensors than the first run");
    Saved& saved = region_.saved_[num_saved_++];
    core::ensure(saved.dtype == tensor.scalar_type() && saved.numel == tensor.numel(),
                 "a recomputation saves other tensors than the first run");
    if (!saved.released) saved.value = tensor.tensor_data();
    if (num_saved_ == region_.saved_.size()) throw Complete();
  }

  Region& region_;
  std::size_t num_saved_ = 0;
  std::size_t num_calls_ = 0;
};

at::Tensor Region::run(const at::Tensor& input, Keep what) {
  FirstRun first(*this);
  const SavedTensorScope saved_tensors(first);
  std::optional<CostlyOperatorScope> operators;
  if (what == Keep::costly_outputs) operators.emplace(first);
  at::Tensor output = passage_(input, context_);
  // The second run ends with the last saved tensor; what comes after isn't asked for.
  for (std::optional<Results>& results : costly_)
    if (results && results->saves_before >= saved_.size()) results.reset();
  return output;
}

at::Tensor Region::value(std::size_t index) {
  const std::lock_guard lock(mutex_);
  if (input_) run_again();
  core::ensure(saved_[index].value.defined(), "a recomputed tensor is gone");
  return saved_[index].value;
}

void Region::release(std::size_t index) {
  const std::lock_guard lock(mutex_);
  if (index >= saved_.size()) return;
  saved_[index].released = true;
  saved_[index].value.reset();
}

void Region::run_again() {
  core::ensure(input_->is_intact(), "the input of recomputed blocks was overwritten");
  const runtime::Span span("recompute");
  const RestoredForwardState state(state_);
  const runtime::Recomputation recomputation;
  SecondRun second(*this);
  const SavedTensorScope saved_tensors(second);
  const CostlyOperatorScope operators(second);
  try {
    passage_(input_->value().requires_grad_(input_requires_grad_), context_);
  } catch (const Complete&) {  // as it should be
  }
  core::ensure(second.num_saved() == saved_.size(), "a recomputation saves fewer tensors than the first run");
  input_.reset();
  costly_.clear();
  context_ = {};
}

}  // namespace

at::Tensor run_recomputed(const model::Passage& passage, const at::Tensor& input, const model::SequenceContext& context,
                          const RegionOptions& options) {
  return std::make_shared<Region>(passage, input, context, options)->run(input, options.keep);
}

}  // namespace trainctl::activation_checkpointing
