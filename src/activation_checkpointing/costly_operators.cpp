#include "activation_checkpointing/costly_operators.h"

#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/library.h>

namespace trainctl::activation_checkpointing {
namespace {

/// The policy of this thread. The dispatcher calls a function, which finds the policy here.
thread_local CostlyOperatorPolicy* current_policy = nullptr;

// A key right below autograd that LibTorch itself doesn't use: with it on, calls that autograd has recorded come here
// on their way to the device's kernel.
constexpr c10::DispatchKey kKey = c10::DispatchKey::Fake;

void intercept(const CostlyCall& call, c10::DispatchKeySet keys) {
  CostlyOperatorPolicy* policy = current_policy;
  // What the operator is made of is not seen.
  const c10::impl::ExcludeDispatchKeyGuard inner(kKey);
  if (policy != nullptr && policy->replace(call)) return;
  call.op.redispatchBoxed(keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, kKey), &call.stack);
  if (policy != nullptr) policy->ran(call);
}

void intercept_any(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  intercept({.op = op, .stack = *stack}, keys);
}

void intercept_batched(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  intercept({.op = op, .stack = *stack, .worth = Worth::when_smaller_than_inputs}, keys);
}

/// Intercepts our own product (kernels/matrix_product.cpp), which saves its input and weight after the call.
void intercept_own(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  intercept({.op = op, .stack = *stack, .saves_after = 2}, keys);
}

TORCH_LIBRARY_IMPL(_, Fake, library) {
  library.fallback(torch::CppFunction::makeFallthrough());
}

TORCH_LIBRARY_IMPL(aten, Fake, library) {
  for (const char* name : {"mm", "addmm", "_addmm_activation", "convolution",
                           "_scaled_dot_product_flash_attention_for_cpu", "_scaled_dot_product_flash_attention",
                           "_scaled_dot_product_efficient_attention", "_scaled_dot_product_cudnn_attention"})
    library.impl(name, torch::CppFunction::makeFromBoxedFunction<&intercept_any>());
  for (const char* name : {"bmm", "baddbmm"})
    library.impl(name, torch::CppFunction::makeFromBoxedFunction<&intercept_batched>());
}

TORCH_LIBRARY_IMPL(trainctl, Fake, library) {
  for (const char* name : {"short_attention", "winograd_convolution"})
    library.impl(name, torch::CppFunction::makeFromBoxedFunction<&intercept_any>());
}

TORCH_LIBRARY_IMPL(mkldnn, Fake, library) {
  library.impl("_linear_pointwise", torch::CppFunction::makeFromBoxedFunction<&intercept_own>());
}

}  // namespace

CostlyOperatorScope::CostlyOperatorScope(CostlyOperatorPolicy& policy)
    : outer_(current_policy), outer_key_(c10::impl::tls_is_dispatch_key_included(kKey)) {
  current_policy = &policy;
  c10::impl::tls_set_dispatch_key_included(kKey, true);
}

CostlyOperatorScope::~CostlyOperatorScope() {
  c10::impl::tls_set_dispatch_key_included(kKey, outer_key_);
  current_policy = outer_;
}

}  // namespace trainctl::activation_checkpointing
