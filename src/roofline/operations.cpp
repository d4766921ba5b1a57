#include "roofline/operations.h"

#include <ATen/core/ivalue.h>
#include <ATen/record_function.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include <algorithm>
#include <mutex>
#include <optional>
#include <unordered_map>

#include "roofline/op_cost.h"

namespace trainctl::roofline {
namespace {

constexpr c10::DebugInfoKind kSlot = c10::DebugInfoKind::PRODUCER_INFO;  // nobody's in LibTorch's open source
constexpr double kOwnWork = 0.25;  // of an operator's bytes: what it calls and moves less is incidental

std::optional<Pass> pass_of_span(std::string_view name) {
  if (name == "forward") return Pass::forward;
  if (name == "backward") return Pass::backward;
  for (const std::string_view update : {"optimizer", "unscale", "clip", "ema"})
    if (name == update) return Pass::optimizer;
  return std::nullopt;
}

TensorUse use_of(const at::Tensor& tensor) {
  TensorUse use;
  use.shape.assign(tensor.sizes().begin(), tensor.sizes().end());
  use.dtype = tensor.scalar_type();
  use.tensor = tensor.unsafeGetTensorImpl();
  use.bytes = static_cast<double>(tensor.element_size());
  const bool is_strided = tensor.layout() == at::kStrided;
  for (std::int64_t dim = 0; dim < tensor.dim(); ++dim)
    if (!is_strided || tensor.stride(dim) != 0) use.bytes *= static_cast<double>(tensor.size(dim));
  if (!is_strided || !tensor.has_storage()) return use;
  use.strides.assign(tensor.strides().begin(), tensor.strides().end());
  use.storage = tensor.storage().unsafeGetStorageImpl();
  if (tensor.dim() == 4 && tensor.size(1) > 1 && tensor.stride(1) == 1 && tensor.is_non_overlapping_and_dense())
    use.order = PixelOrder::channels_last;
  return use;
}

/// `see` is called with every tensor of a value.
template <class See>
void for_each_tensor(const c10::IValue& value, const See& see) {
  if (value.isTensor()) {
    if (value.toTensor().defined()) see(value.toTensor());
  } else if (value.isTensorList()) {
    for (const at::Tensor& tensor : value.toTensorVector())
      if (tensor.defined()) see(tensor);
  } else if (value.isList()) {
    for (const c10::IValue& item : value.toListRef())
      if (item.isTensor() && item.toTensor().defined()) see(item.toTensor());
  }
}

struct OpenCall;
/// What is dispatched on this thread: the innermost of the open calls.
thread_local OpenCall* innermost = nullptr;

/// A call that has begun. Its callback may throw, so that its end is never heard: then it ends with its memory.
struct OpenCall final : at::ObserverContext {
  OpenCall() : outer(std::exchange(innermost, this)) {}
  ~OpenCall() override { close(); }
  OpenCall(const OpenCall&) = delete;
  OpenCall& operator=(const OpenCall&) = delete;
  void close() {
    if (innermost == this) innermost = outer;
  }

  OpenCall* outer;
  OpCostRule rule;
  std::uint32_t name = 0;
  Pass pass = Pass::forward;
  std::optional<Pass> former_span;  // of a Span that names a pass
  bool is_span = false;
  bool is_counted = true;  // no operator around it accounts for it
  double inner_bytes = 0;  // moved by what it called
  DispatchedOperator call;
};

/// What a recorder has heard so far; autograd's threads find it too.
class Log final : public c10::DebugInfoBase {
 public:
  void begin(const at::RecordFunction& function, OpenCall& open);
  void end(const at::RecordFunction& function, OpenCall& open);
  Operations take() {
    const std::lock_guard lock(mutex_);
    Operations taken{.list = std::move(operations_.list),
                     .names = operations_.names,
                     .num_calls = std::exchange(operations_.num_calls, {})};
    operations_.list.clear();
    return taken;
  }

 private:
  struct Known {
    std::uint32_t name;
    OpCostRule rule;
  };
  Known known(const char* name);
  void begin_span(const char* name, OpenCall& open);
  static void account(OpenCall& open, double bytes);

  std::mutex mutex_;
  Operations operations_;
  std::optional<Pass> span_;
  std::unordered_map<const void*, Known> by_place_;  // of the name in memory, which few operators change
  std::unordered_map<std::string, Known> by_name_;
};

Log::Known Log::known(const char* name) {
  const auto place = by_place_.find(name);
  if (place != by_place_.end() && operations_.names[place->second.name] == name) return place->second;
  auto found = by_name_.find(name);
  if (found == by_name_.end()) {
    operations_.names.emplace_back(name);
    found =
        by_name_.emplace(name, Known{static_cast<std::uint32_t>(operations_.names.size() - 1), find_cost_rule(name)})
            .first;
  }
  by_place_[name] = found->second;
  return found->second;
}

void Log::begin_span(const char* name, OpenCall& open) {
  open.is_span = true;
  open.former_span = span_;
  if (const std::optional<Pass> pass = pass_of_span(name)) {
    span_ = pass;
    open.pass = *pass;
  }
}

void Log::begin(const at::RecordFunction& function, OpenCall& open) {
  const std::lock_guard lock(mutex_);
  open.pass = open.outer != nullptr ? open.outer->pass : span_.value_or(Pass::forward);
  if (open.outer != nullptr) open.is_counted = open.outer->is_counted && open.outer->rule.role != OperatorRole::whole;
  if (function.scope() == at::RecordScope::USER_SCOPE) return begin_span(function.name(), open);
  if (function.scope() == at::RecordScope::BACKWARD_FUNCTION) {
    if (!span_) open.pass = Pass::backward;
    open.is_span = true;
    open.former_span = span_;
    return;
  }
  const Known what = known(function.name());
  open.name = what.name;
  open.rule = what.rule;
  if (!open.is_counted) return;  // only what it allocates matters
  ++operations_.num_calls[static_cast<std::size_t>(open.pass)];
  open.call.name = operations_.names[open.name];  // valid until another name is added
  std::size_t place = 0;
  for (const c10::IValue& value : function.inputs()) {
    read_flags(value, place++, open.call);
    for_each_tensor(value, [&](const at::Tensor& tensor) {
      TensorUse use = use_of(tensor);
      open.call.input_bytes += use.bytes;
      if (open.call.inputs.size() < 4) open.call.inputs.push_back(std::move(use));
    });
  }
}

/// To all that are open around it.
void Log::account(OpenCall& open, double bytes) {
  if (open.outer != nullptr) open.outer->inner_bytes += bytes;
}

void Log::end(const at::RecordFunction& function, OpenCall& open) {
  open.close();
  const std::lock_guard lock(mutex_);
  if (open.is_span) {
    if (function.scope() == at::RecordScope::USER_SCOPE) span_ = open.former_span;
    return account(open, open.inner_bytes);
  }
  for (const c10::IValue& value : function.outputs())
    for_each_tensor(value, [&](const at::Tensor& tensor) {
      TensorUse use = use_of(tensor);
      open.call.output_bytes += use.bytes;
      open.call.outputs.push_back(std::move(use));
    });
  if (open.rule.role == OperatorRole::allocation) {
    if (open.outer != nullptr) open.outer->call.allocated_bytes += open.call.output_bytes;
    return;
  }
  if (!open.is_counted) {
    if (open.outer != nullptr) open.outer->call.allocated_bytes += open.call.allocated_bytes;
    return;
  }
  open.call.name = operations_.names[open.name];
  Operation operation = operator_cost(open.call, open.rule);
  const bool is_own = open.rule.role == OperatorRole::whole || open.inner_bytes < kOwnWork * operation.bytes;
  if (operation.bytes > 0 && is_own) {
    operation.name = open.name;
    operation.pass = open.pass;
    operations_.list.push_back(std::move(operation));
    account(open, operations_.list.back().bytes);
  } else {
    account(open, open.inner_bytes);
  }
}

std::unique_ptr<at::ObserverContext> call_begins(const at::RecordFunction& function) {
  auto* log = static_cast<Log*>(c10::ThreadLocalDebugInfo::get(kSlot));
  if (log == nullptr) return nullptr;
  auto open = std::make_unique<OpenCall>();
  log->begin(function, *open);
  return open;
}

void call_ends(const at::RecordFunction& function, at::ObserverContext* context) {
  auto* log = static_cast<Log*>(c10::ThreadLocalDebugInfo::get(kSlot));
  if (log != nullptr && context != nullptr) log->end(function, *static_cast<OpenCall*>(context));
}

}  // namespace

std::string_view name_of(WorkKind kind) {
  constexpr std::array<std::string_view, kNumWorkKinds> kNames{"product",
                                                               "batched_product",
                                                               "convolution",
                                                               "convolution_backward",
                                                               "pointwise",
                                                               "pointwise_backward",
                                                               "stem",
                                                               "stem_backward",
                                                               "depthwise",
                                                               "depthwise_backward",
                                                               "attention",
                                                               "attention_backward",
                                                               "recurrence",
                                                               "recurrence_backward",
                                                               "stream",
                                                               "transposition",
                                                               "transcendental",
                                                               "softmax",
                                                               "reduction",
                                                               "normalization",
                                                               "normalization_backward",
                                                               "batch_norm",
                                                               "batch_norm_backward",
                                                               "pooling",
                                                               "pooling_backward",
                                                               "gather",
                                                               "scatter",
                                                               "random",
                                                               "update"};
  return kNames.at(static_cast<std::size_t>(kind));
}

std::string_view name_of(Pass pass) {
  constexpr std::array<std::string_view, kNumPasses> kNames{"forward", "backward", "optimizer"};
  return kNames.at(static_cast<std::size_t>(pass));
}

double Operations::flops() const {
  return flops(Pass::forward) + flops(Pass::backward) + flops(Pass::optimizer);
}

double Operations::flops(Pass pass) const {
  double sum = 0;
  for (const Operation& operation : list)
    if (operation.pass == pass) sum += operation.flops;
  return sum;
}

double Operations::bytes(Pass pass) const {
  double sum = 0;
  for (const Operation& operation : list)
    if (operation.pass == pass) sum += operation.bytes;
  return sum;
}

struct OperationRecorder::Recording {
  std::shared_ptr<Log> log = std::make_shared<Log>();
  c10::DebugInfoGuard slot{kSlot, log};
  at::CallbackHandle callback = at::addThreadLocalCallback(
      at::RecordFunctionCallback(&call_begins, &call_ends)
          .needsInputs(true)
          .needsOutputs(true)
          .scopes({at::RecordScope::FUNCTION, at::RecordScope::BACKWARD_FUNCTION, at::RecordScope::USER_SCOPE}));
};

OperationRecorder::OperationRecorder() : recording_(std::make_unique<Recording>()) {}

OperationRecorder::~OperationRecorder() {
  at::removeCallback(recording_->callback);
}

Operations OperationRecorder::take() {
  return recording_->log->take();
}

}  // namespace trainctl::roofline
