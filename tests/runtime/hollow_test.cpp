#include "runtime/fake_tensor.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/add.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/tanh.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <catch2/catch.hpp>
#include <map>

using namespace trainctl;
using namespace trainctl::runtime;

namespace {

class Account final : public FakeTensorAccount {
 public:
  std::int64_t take(std::int64_t bytes) override {
    held_[next_] = bytes;
    held += bytes;
    most = std::max(most, held);
    return next_++;
  }
  void give_back(std::int64_t piece) override {
    held -= held_.at(piece);
    held_.erase(piece);
  }
  std::int64_t held = 0;
  std::int64_t most = 0;

 private:
  std::map<std::int64_t, std::int64_t> held_;
  std::int64_t next_ = 0;
};

const c10::Device kCpu(c10::DeviceType::CPU);

}  // namespace

TEST_CASE("hollow tensors say that they lie on the device, and what they would hold is counted", "[runtime]") {
  const auto account = std::make_shared<Account>();
  const FakeTensorScope scope(kCpu, account, nullptr);
  {
    const at::Tensor one = at::zeros({1 << 20, 1 << 10});  // 4 GiB
    CHECK(one.is_cpu());
    CHECK(is_fake(one));
    CHECK(one.options().device() == kCpu);
    CHECK(account->held == std::int64_t{4} << 30);
    const at::Tensor view = one.narrow(0, 0, 16).t();
    CHECK(view.is_cpu());
    CHECK(hollow_piece(view) == hollow_piece(one));
    CHECK(account->held == std::int64_t{4} << 30);
    const at::Tensor product = at::mm(one.t(), one);
    CHECK(product.is_cpu());
    CHECK(product.sizes() == at::IntArrayRef({1 << 10, 1 << 10}));
    CHECK(at::zeros_like(product).is_cpu());
  }
  CHECK(account->held == 0);
}

TEST_CASE("autograd runs on hollow tensors, and frees what it saved", "[runtime]") {
  const auto account = std::make_shared<Account>();
  const FakeTensorScope scope(kCpu, account, nullptr);
  at::Tensor weight = at::empty({256, 256});
  weight.requires_grad_(true);
  const std::int64_t each = 256 * 256 * 4;
  CHECK(account->held == each);
  {
    const at::Tensor input = at::ones({256, 256});
    const at::Tensor loss = at::tanh(at::mm(input, weight)).sum();
    CHECK(account->held >= 3 * each);  // the weight, the input and what tanh gave
    loss.backward();
  }
  CHECK(weight.grad().is_cpu());
  CHECK(is_fake(weight.grad()));
  CHECK(account->held == 2 * each);
}

TEST_CASE("small tensors have values, and work together with hollow ones", "[runtime]") {
  const FakeTensorScope scope(kCpu, std::make_shared<Account>(), nullptr);
  const at::Tensor values = at::tensor({1.0F, 2.0F, 3.0F, 4.0F});
  CHECK_FALSE(is_fake(values));
  CHECK(values.sum().item<float>() == 10);
  const at::Tensor hollow = at::zeros({128, 4});
  const at::Tensor sum = at::add(hollow, values);
  CHECK(is_fake(sum));
  CHECK(sum.sizes() == hollow.sizes());
  const at::Tensor total = at::zeros({4});
  const at::Tensor same = total.add_(hollow.sum(0));
  CHECK(same.is_same(total));
  CHECK_FALSE(is_fake(total));
}

TEST_CASE("a real scope inside makes tensors with values", "[runtime]") {
  const FakeTensorScope scope(kCpu, std::make_shared<Account>(), nullptr);
  {
    const RealScope real;
    const at::Tensor mask = at::ones({32, 128});
    CHECK_FALSE(is_fake(mask));
    CHECK(mask.sum().item<float>() == 32 * 128);
  }
  CHECK(is_fake(at::ones({32, 128})));
}

TEST_CASE("afterwards tensors are as ever", "[runtime]") {
  { const FakeTensorScope scope(kCpu, std::make_shared<Account>(), nullptr); }
  const at::Tensor values = at::ones({1000});
  CHECK_FALSE(is_fake(values));
  CHECK(values.sum().item<float>() == 1000);
}
