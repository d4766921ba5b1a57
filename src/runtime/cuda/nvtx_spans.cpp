// Emits spans as NVTX ranges. They cost nothing until a tool such as Nsight injects its library into NVTX.
#include <ATen/record_function.h>
#include <nvtx3/nvToolsExt.h>

#include <memory>
#include <mutex>
#include <optional>

#include "runtime/cuda/plugin.h"

namespace trainctl::runtime {
namespace {

std::unique_ptr<at::ObserverContext> range_begins(const at::RecordFunction& span) {
  nvtxRangePushA(span.name());
  return nullptr;
}

void range_ends(const at::RecordFunction&, at::ObserverContext*) {
  nvtxRangePop();
}

void mark_spans(bool on) {
  // LibTorch identifies a callback by a handle that only this library has.
  static std::mutex mutex;
  static std::optional<at::CallbackHandle> callback;
  const std::lock_guard lock(mutex);
  if (on == callback.has_value()) return;
  if (on) {
    callback = at::addGlobalCallback(
        at::RecordFunctionCallback(&range_begins, &range_ends).scopes({at::RecordScope::USER_SCOPE}));
  } else {
    at::removeCallback(*callback);
    callback.reset();
  }
}

}  // namespace
}  // namespace trainctl::runtime

extern "C" __attribute__((visibility("default"))) trainctl::runtime::MarkSpansFunction trainctl_cuda_mark_spans;

void trainctl_cuda_mark_spans(bool on) {
  trainctl::runtime::mark_spans(on);
}
