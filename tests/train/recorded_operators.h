// A device graph for a machine without a GPU. It records LibTorch's operators as a CUDA graph records kernels: with the
// memory that they had and the numbers that the host gave them. Included by one source of a program.
#pragma once

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/library.h>

#include <algorithm>
#include <functional>
#include <utility>
#include <vector>

#include "runtime/device_graph.h"

namespace trainctl::testing {

class RecordedOperators final : public runtime::DeviceGraph {
 public:
  /// A backend that nobody has: right above that of the CPU.
  static constexpr c10::DispatchKey kKey = c10::DispatchKey::FPGA;

  explicit RecordedOperators(int& replays) : replays_(replays) {}

  void record(const std::function<void()>& work) override {
    take_composed();
    recording = this;
    const c10::impl::IncludeDispatchKeyGuard included(kKey);
    try {
      work();
    } catch (...) {
      recording = nullptr;
      throw;
    }
    recording = nullptr;
  }

  void replay() override {
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    for (const Call& call : calls_) {
      torch::jit::Stack stack = call.arguments;
      call.op.callBoxed(stack);
      const std::size_t first = stack.size() - call.results.size();
      for (std::size_t i = 0; i < call.results.size(); ++i) put(stack[first + i], call.results[i]);
    }
    ++replays_;
  }

  static void on_operator(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
    // A CUDA graph answers with cudaErrorStreamCaptureUnsupported, in these words.
    TORCH_CHECK(op.schema().name() != "aten::_local_scalar_dense", "operation not permitted when stream is capturing");
    const std::size_t num_arguments = op.schema().arguments().size();
    const std::size_t num_results = op.schema().returns().size();
    Call call{.op = op, .arguments = {stack->end() - static_cast<std::ptrdiff_t>(num_arguments), stack->end()}};
    const c10::impl::ExcludeDispatchKeyGuard inside(kKey);
    op.callBoxed(*stack);
    call.results.assign(stack->end() - static_cast<std::ptrdiff_t>(num_results), stack->end());
    // A view looks at memory that the recording has already.
    const auto is_view = [](const c10::Argument& result) {
      return result.alias_info() != nullptr && !result.alias_info()->isWrite();
    };
    if (std::ranges::none_of(op.schema().returns(), is_view)) recording->calls_.push_back(std::move(call));
  }

 private:
  struct Call {
    c10::OperatorHandle op;
    torch::jit::Stack arguments;
    torch::jit::Stack results{};
  };

  /// LibTorch has kernels of operators for all backends that call more than operators, such as copy_() and
  /// convolution_backward(). They would come before the fallback.
  static void take_composed() {
    static torch::Library* const library = [] {  // lives as long as the process
      auto* made = new torch::Library(torch::Library::IMPL, "aten", kKey, __FILE__, __LINE__);
      for (const c10::OperatorName& name :
           c10::Dispatcher::singleton().getRegistrationsForDispatchKey(c10::DispatchKey::CompositeExplicitAutograd))
        if (name.getNamespace() == "aten")
          made->impl((name.name.substr(6) + (name.overload_name.empty() ? "" : "." + name.overload_name)).c_str(),
                     torch::CppFunction::makeFromBoxedFunction<&on_operator>());
      return made;
    }();
    (void)library;
  }

  static void put(const c10::IValue& from, const c10::IValue& to) {
    if (to.isTensor()) {
      if (to.toTensor().defined() && !to.toTensor().is_same(from.toTensor())) to.toTensor().copy_(from.toTensor());
    } else if (to.isTensorList()) {
      const std::vector<at::Tensor> into = to.toTensorVector();
      const std::vector<at::Tensor> values = from.toTensorVector();
      for (std::size_t i = 0; i < into.size(); ++i) at::Tensor(into[i]).copy_(values[i]);
    }
  }

  inline static thread_local RecordedOperators* recording = nullptr;  // the dispatcher calls plain functions
  std::vector<Call> calls_;
  int& replays_;
};

}  // namespace trainctl::testing

TORCH_LIBRARY_IMPL(_, FPGA, library) {
  library.fallback(torch::CppFunction::makeFromBoxedFunction<&trainctl::testing::RecordedOperators::on_operator>());
}
