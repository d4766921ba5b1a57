#include "runtime/fake_tensor.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/empty_strided.h>
#include <c10/core/Allocator.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/library.h>

#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/error.h"
#include "runtime/meta_operators.h"
#include "runtime/operator_arguments.h"

namespace trainctl::runtime {
namespace {

// Dispatch keys that LibTorch defines but does not use. kFactories is above autograd, for operators that create
// tensors. kOperators is right above the backends' kernels, for all other operators.
constexpr c10::DispatchKey kFactories = c10::DispatchKey::DeferredInit;
constexpr c10::DispatchKey kOperators = c10::DispatchKey::CustomRNGKeyId;

constexpr std::int64_t kTiny = 64;  // elements

struct ThreadState {
  c10::Device device{c10::DeviceType::CPU};
  std::shared_ptr<FakeTensorAccount> account;
  HollowScratch scratch{};
  int in_kernel = 0;  // inside a kernel, fake tensors are meta tensors
  int uncounted = 0;
  int tiny_too = 0;
};

/// Global, since the dispatcher and the registry of allocators call plain functions.
thread_local ThreadState* current = nullptr;

bool in_kernel() {
  return current != nullptr && current->in_kernel > 0;
}

class Counted {
 public:
  explicit Counted(int& counter) : counter_(counter) { ++counter_; }
  ~Counted() { --counter_; }
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;

 private:
  int& counter_;
};

struct Piece {
  std::shared_ptr<FakeTensorAccount> account;
  std::int64_t number;
};

void release(void* context) {
  if (context == nullptr) return;
  const std::unique_ptr<Piece> piece(static_cast<Piece*>(context));
  piece->account->give_back(piece->number);
}

/// Allocator of the meta device. LibTorch's own would do, but this one reports each fake tensor's bytes to the account.
class HollowAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) override {
    void* context = nullptr;
    if (bytes > 0 && current != nullptr && current->uncounted == 0)
      context = new Piece{current->account, current->account->take(static_cast<std::int64_t>(bytes))};
    return {nullptr, context, &release, c10::Device(c10::DeviceType::Meta)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void*, const void*, std::size_t) const override {}
};

void on_operator(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack);

/// Registers kernels for operators made of other operators. The dispatcher takes our key for a backend's key, so such
/// an operator's own kernel would precede our fallback.
void intercept_composed() {
  static torch::Library* const library = [] {  // lives as long as the process
    auto* made = new torch::Library(torch::Library::IMPL, "aten", kOperators, __FILE__, __LINE__);
    std::set<std::string> names;
    for (const c10::DispatchKey composed :
         {c10::DispatchKey::CompositeExplicitAutograd, c10::DispatchKey::CompositeExplicitAutogradNonFunctional})
      for (const c10::OperatorName& name : c10::Dispatcher::singleton().getRegistrationsForDispatchKey(composed))
        if (name.getNamespace() == "aten" && !name.overload_name.ends_with("out"))
          names.insert(name.name.substr(6) + (name.overload_name.empty() ? "" : "." + name.overload_name));
    for (const std::string& name : names)
      made->impl(name.c_str(), torch::CppFunction::makeFromBoxedFunction<&on_operator>());
    return made;
  }();
  (void)library;
}

void install_allocator() {
  static HollowAllocator* const allocator = [] {  // LibTorch's registry needs it as long as the process lives
    auto* made = new HollowAllocator;
    c10::SetAllocator(c10::DeviceType::Meta, made, /*priority=*/1);
    return made;
  }();
  (void)allocator;
}

class FakeTensor final : public c10::TensorImpl {
 public:
  FakeTensor(const c10::TensorImpl& like, c10::Device device)
      : TensorImpl(c10::Storage(like.storage()), keys_of(like, device), like.dtype()), device_(device) {
    copy_layout(like);
    set_custom_device(true);
  }

  c10::Device device_custom() const override { return in_kernel() ? c10::Device(c10::DeviceType::Meta) : device_; }
  c10::intrusive_ptr<TensorImpl> shallow_copy_and_detach(const c10::VariableVersion& version,
                                                         bool allow_change) const override {
    return copied(version, allow_change);
  }
  c10::intrusive_ptr<TensorImpl> shallow_copy_and_detach(c10::VariableVersion&& version,
                                                         bool allow_change) const override {
    return copied(version, allow_change);
  }

 private:
  static c10::DispatchKeySet keys_of(const c10::TensorImpl& like, c10::Device device) {
    const c10::DispatchKey autocast = device.is_cuda() ? c10::DispatchKey::AutocastCUDA : c10::DispatchKey::AutocastCPU;
    return like.key_set() | c10::DispatchKeySet({kOperators, autocast});
  }
  void copy_layout(const c10::TensorImpl& like) {
    set_sizes_and_strides(like.sizes(), like.strides());
    set_storage_offset(like.storage_offset());
    if (like.is_wrapped_number()) set_wrapped_number(true);
  }
  c10::intrusive_ptr<TensorImpl> copied(const c10::VariableVersion& version, bool allow_change) const {
    auto copy = c10::make_intrusive<FakeTensor>(*this, device_);
    copy->set_version_counter(version);
    copy->set_allow_tensor_metadata_change(allow_change);
    return copy;
  }

  c10::Device device_;
};

bool has_hollow_impl(const at::Tensor& tensor) {
  return dynamic_cast<const FakeTensor*>(tensor.unsafeGetTensorImpl()) != nullptr;
}

bool wants_hollow(const at::Tensor& result) {
  return result.defined() && result.key_set().has_backend(c10::BackendComponent::MetaBit) && !has_hollow_impl(result);
}

at::Tensor hollowed(const at::Tensor& result, c10::Device device) {
  if (!wants_hollow(result)) return result;
  return at::Tensor(c10::make_intrusive<FakeTensor>(*result.unsafeGetTensorImpl(), device));
}

/// Returns a meta tensor with the layout of a real one; its memory is not counted.
at::Tensor stand_in(const at::Tensor& real) {
  const Counted uncounted(current->uncounted);
  at::Tensor alias = at::empty_strided(real.sizes(), real.strides(), real.options().device(at::kMeta));
  if (real.unsafeGetTensorImpl()->is_wrapped_number()) alias.unsafeGetTensorImpl()->set_wrapped_number(true);
  return alias;
}

bool is_real(const at::Tensor& tensor) {
  return tensor.defined() && !tensor.key_set().has_backend(c10::BackendComponent::MetaBit);
}

/// Returns the device of a new tensor, given the operator's device argument.
std::optional<c10::Device> hollow_device(const c10::IValue& value) {
  if (!value.isDevice()) return std::nullopt;
  const c10::Device device = value.toDevice();
  if (device.type() == current->device.type()) return current->device;
  return device.is_cpu() ? std::optional(device) : std::nullopt;
}

/// Guard that stops counting while an operator uses another device, such as the host.
class UncountedElsewhere {
 public:
  explicit UncountedElsewhere(c10::Device device) : is_elsewhere_(device.type() != current->device.type()) {
    if (is_elsewhere_) ++current->uncounted;
  }
  ~UncountedElsewhere() {
    if (is_elsewhere_) --current->uncounted;
  }
  UncountedElsewhere(const UncountedElsewhere&) = delete;
  UncountedElsewhere& operator=(const UncountedElsewhere&) = delete;

 private:
  bool is_elsewhere_;
};

/// Returns the device of the first fake tensor among the arguments.
c10::Device device_of(const Stack& stack, std::size_t first) {
  std::optional<c10::Device> device;
  for (std::size_t i = first; i < stack.size() && !device; ++i)
    visit_tensors(stack[i], [&](const at::Tensor& tensor) {
      if (!device && tensor.defined() && has_hollow_impl(tensor)) device = tensor.device();
    });
  return device.value_or(current->device);
}

/// Whether the call copies real values to the fake device.
bool goes_to_device(const Stack& stack, std::size_t first) {
  if (current->device.is_cpu()) return false;
  for (std::size_t i = first; i < stack.size(); ++i)
    if (stack[i].isDevice() && stack[i].toDevice().type() == current->device.type()) return true;
  return false;
}

/// Scratch memory of a kernel, counted while the kernel runs.
class HeldScratch {
 public:
  HeldScratch(const c10::OperatorHandle& op, const Stack& stack) : account_(*current->account) {
    const std::int64_t bytes = !current->scratch ? 0 : current->scratch(op, stack);
    if (bytes > 0) piece_ = account_.take(bytes);
  }
  ~HeldScratch() {
    if (piece_ >= 0) account_.give_back(piece_);
  }
  HeldScratch(const HeldScratch&) = delete;
  HeldScratch& operator=(const HeldScratch&) = delete;

 private:
  FakeTensorAccount& account_;
  std::int64_t piece_ = -1;
};

void run_hollow(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack) {
  const c10::FunctionSchema& schema = op.schema();
  const std::size_t count = schema.arguments().size();
  const std::size_t first = stack->size() - count;
  std::vector<c10::IValue> given;  // filled only if a replaced argument is returned
  if (any(*stack, first, &is_real)) given.assign(stack->begin() + static_cast<std::ptrdiff_t>(first), stack->end());
  c10::Device device = device_of(*stack, first);
  for (std::size_t i = first; i < stack->size(); ++i) {
    c10::IValue& value = (*stack)[i];
    if (const std::optional<c10::Device> asked = hollow_device(value)) {
      device = *asked;
      value = c10::Device(c10::DeviceType::Meta);
    }
    if (!given.empty())
      value = changed(value, [](const at::Tensor& tensor) { return is_real(tensor) ? stand_in(tensor) : tensor; });
  }
  {
    const UncountedElsewhere uncounted(device);
    const HeldScratch scratch(op, *stack);
    const Counted kernel(current->in_kernel);
    op.redispatchBoxed((keys | c10::DispatchKeySet(c10::DispatchKey::Meta)) &
                           c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, kOperators),
                       stack);
  }
  const std::size_t results = schema.returns().size();
  for (std::size_t i = 0; i < results; ++i) {
    c10::IValue& value = (*stack)[stack->size() - results + i];
    const std::optional<std::size_t> written = given.empty() ? std::nullopt : written_argument(schema, i);
    value =
        written ? given[*written] : changed(value, [&](const at::Tensor& tensor) { return hollowed(tensor, device); });
  }
}

void on_operator(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack) {
  const c10::impl::ExcludeDispatchKeyGuard inner(c10::DispatchKeySet({kOperators, kFactories}));
  const std::size_t first = stack->size() - op.schema().arguments().size();
  if (current != nullptr && (any(*stack, first, &is_fake) || goes_to_device(*stack, first)))
    return run_hollow(op, keys, stack);
  op.redispatchBoxed(keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, kOperators), stack);
}

void on_factory(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack) {
  const c10::impl::ExcludeDispatchKeyGuard inner(c10::DispatchKeySet({kOperators, kFactories}));
  const c10::DispatchKeySet below = keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, kFactories);
  const std::size_t first = stack->size() - op.schema().arguments().size();
  const auto device = op.schema().argumentIndexWithName("device");
  const c10::IValue& where = (*stack)[first + static_cast<std::size_t>(device.value())];
  if (current == nullptr) return op.redispatchBoxed(below, stack);
  if (where.isDevice() && where.toDevice().is_meta()) {
    const Counted uncounted(current->uncounted);
    return op.redispatchBoxed(below, stack);
  }
  const std::optional<c10::Device> asked = where.isDevice() ? hollow_device(where) : c10::Device(c10::DeviceType::CPU);
  if (!asked) return op.redispatchBoxed(below, stack);
  const std::vector<c10::IValue> given(stack->begin() + static_cast<std::ptrdiff_t>(first), stack->end());
  {
    const Counted uncounted(current->uncounted);  // the result may be discarded
    (*stack)[first + static_cast<std::size_t>(*device)] = c10::Device(c10::DeviceType::Meta);
    op.redispatchBoxed(below, stack);
  }
  const at::Tensor outline = stack->back().toTensor();
  stack->pop_back();
  if (asked->is_cpu() && outline.numel() > 0 && outline.numel() <= kTiny && current->tiny_too == 0) {
    stack->insert(stack->end(), given.begin(), given.end());
    return op.redispatchBoxed(below, stack);
  }
  const UncountedElsewhere uncounted(*asked);
  const Counted kernel(current->in_kernel);
  stack->emplace_back(hollowed(at::empty_strided(outline.sizes(), outline.strides(), outline.options()), *asked));
}

TORCH_LIBRARY_IMPL(_, DeferredInit, library) {
  library.fallback(torch::CppFunction::makeFallthrough());
}

TORCH_LIBRARY_IMPL(aten, DeferredInit, library) {
  for (const char* name : {"empty.memory_format",
                           "empty_strided",
                           "zeros",
                           "ones",
                           "full",
                           "scalar_tensor",
                           "arange",
                           "arange.start",
                           "arange.start_step",
                           "linspace",
                           "eye",
                           "eye.m",
                           "rand",
                           "rand.generator",
                           "randn",
                           "randn.generator",
                           "randint",
                           "randint.low",
                           "randperm",
                           "randperm.generator",
                           "tril_indices",
                           "triu_indices"})
    library.impl(name, torch::CppFunction::makeFromBoxedFunction<&on_factory>());
}

TORCH_LIBRARY_IMPL(_, CustomRNGKeyId, library) {
  library.fallback(torch::CppFunction::makeFromBoxedFunction<&on_operator>());
}

}  // namespace

FakeTensorScope::FakeTensorScope(c10::Device device, std::shared_ptr<FakeTensorAccount> account, HollowScratch scratch)
    : outer_factories_(c10::impl::tls_is_dispatch_key_included(kFactories)),
      outer_operators_(c10::impl::tls_is_dispatch_key_included(kOperators)) {
  core::ensure(current == nullptr, "a thread has one HollowScope");
  install_allocator();
  intercept_composed();
  add_meta_operators();
  current = new ThreadState{.device = device, .account = std::move(account), .scratch = std::move(scratch)};
  c10::impl::tls_set_dispatch_key_included(kFactories, true);
  c10::impl::tls_set_dispatch_key_included(kOperators, true);
}

FakeTensorScope::~FakeTensorScope() {
  c10::impl::tls_set_dispatch_key_included(kFactories, outer_factories_);
  c10::impl::tls_set_dispatch_key_included(kOperators, outer_operators_);
  delete std::exchange(current, nullptr);
}

bool FakeTensorScope::is_active() {
  return current != nullptr;
}

RealScope::RealScope() : was_hollow_(c10::impl::tls_is_dispatch_key_included(kFactories)) {
  c10::impl::tls_set_dispatch_key_included(kFactories, false);
}

RealScope::~RealScope() {
  c10::impl::tls_set_dispatch_key_included(kFactories, was_hollow_);
}

FakeTinyTensors::FakeTinyTensors() {
  if (current != nullptr) ++current->tiny_too;
}

FakeTinyTensors::~FakeTinyTensors() {
  if (current != nullptr) --current->tiny_too;
}

at::Tensor hollow_elsewhere(const at::Tensor& like) {
  core::ensure(current != nullptr, "hollow tensors are made within a HollowScope");
  const Counted uncounted(current->uncounted);
  return at::empty_strided(like.sizes(), like.strides(), like.options());
}

bool is_fake(const at::Tensor& tensor) {
  return tensor.defined() && tensor.key_set().has_backend(c10::BackendComponent::MetaBit);
}

std::int64_t hollow_piece(const at::Tensor& tensor) {
  if (!is_fake(tensor) || !tensor.has_storage()) return -1;
  const void* context = tensor.storage().data_ptr().get_context();
  return context == nullptr ? -1 : static_cast<const Piece*>(context)->number;
}

}  // namespace trainctl::runtime
