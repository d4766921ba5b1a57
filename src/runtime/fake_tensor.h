// Tensors that say they lie on a device, but have neither memory nor values: operators give the shapes and types of
// what they would give there. What they would hold is told to an account.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/Device.h>

#include <cstdint>
#include <functional>
#include <memory>

namespace trainctl::runtime {

/// Where memory would be taken and given back. Called on the thread that has the FakeTensorScope, or, for give_back, on
/// any.
class FakeTensorAccount {
 public:
  virtual ~FakeTensorAccount() = default;
  /// Returns a number for this piece of memory.
  virtual std::int64_t take(std::int64_t bytes) = 0;
  virtual void give_back(std::int64_t piece) = 0;
};

/// Bytes that a device's kernel holds while it runs, beside what it gives: by the operator and its arguments, the last
/// on the stack.
using HollowScratch = std::function<std::int64_t(const c10::OperatorHandle& op, const torch::jit::Stack& stack)>;

/// A scope in which new tensors of this thread on `device` are fake, and counted by the account. New tensors of the
/// host are fake as well, but not counted if `device` is another. Host tensors of at most 64 elements stay real, since
/// the host may be about to fill them. A thread has one scope at a time.
class FakeTensorScope {
 public:
  FakeTensorScope(c10::Device device, std::shared_ptr<FakeTensorAccount> account, HollowScratch scratch);
  ~FakeTensorScope();
  FakeTensorScope(const FakeTensorScope&) = delete;
  FakeTensorScope& operator=(const FakeTensorScope&) = delete;
  /// On this thread.
  static bool is_active();

 private:
  bool outer_factories_;
  bool outer_operators_;
};

/// Within a FakeTensorScope: while it lives, new tensors have values as ever.
class RealScope {
 public:
  RealScope();
  ~RealScope();
  RealScope(const RealScope&) = delete;
  RealScope& operator=(const RealScope&) = delete;

 private:
  bool was_hollow_;
};

/// While it lives within a FakeTensorScope, tiny tensors are hollow, too; elsewhere it does nothing.
class FakeTinyTensors {
 public:
  FakeTinyTensors();
  ~FakeTinyTensors();
  FakeTinyTensors(const FakeTinyTensors&) = delete;
  FakeTinyTensors& operator=(const FakeTinyTensors&) = delete;
};

/// Within a FakeTensorScope: a tensor as `like` is whose memory isn't the device's, so that none is counted.
at::Tensor hollow_elsewhere(const at::Tensor& like);

/// For kernels of our own, whose loops must not touch what isn't there.
bool is_fake(const at::Tensor& tensor);

/// The number that the account gave the memory of a hollow tensor; -1: it has none, or isn't hollow.
std::int64_t hollow_piece(const at::Tensor& tensor);

}  // namespace trainctl::runtime
