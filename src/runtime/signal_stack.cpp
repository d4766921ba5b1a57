#include "runtime/signal_stack.h"

#include <ATen/Parallel.h>

#include <csignal>
#include <cstddef>
#include <memory>

namespace trainctl::runtime {
namespace {

// A signal frame holds all registers, 11 KiB with AMX; unwinding needs a few more.
constexpr std::size_t kStackBytes = std::size_t{64} << 10;

/// Alternate signal stack of one thread.
class SignalStack {
 public:
  SignalStack() {
    stack_t former{};
    if (::sigaltstack(nullptr, &former) != 0 || (former.ss_flags & SS_DISABLE) == 0)
      return;  // another stack exists, such as a sanitizer's
    memory_ = std::make_unique<std::byte[]>(kStackBytes);
    stack_t stack{};
    stack.ss_sp = memory_.get();
    stack.ss_size = kStackBytes;
    ::sigaltstack(&stack, nullptr);
  }
  ~SignalStack() {
    if (memory_ == nullptr) return;
    stack_t none{};
    none.ss_flags = SS_DISABLE;
    ::sigaltstack(&none, nullptr);
  }
  SignalStack(const SignalStack&) = delete;
  SignalStack& operator=(const SignalStack&) = delete;

 private:
  std::unique_ptr<std::byte[]> memory_;
};

void use_signal_stack() {
  thread_local const SignalStack stack;
}

}  // namespace

void use_signal_stacks() {
  use_signal_stack();
  // One iteration per thread.
  at::parallel_for(0, at::get_num_threads(), 1, [](std::int64_t, std::int64_t) { use_signal_stack(); });
}

}  // namespace trainctl::runtime
