// Networks for sequences and patches in 16 bits: they run, learn in fp32, and stay near what fp32 gives.
#include <ATen/autocast_mode.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>

#include "model/recorded_model.h"

namespace trainctl::model::autocast_test {
namespace {

class Bf16 {
 public:
  Bf16() {
    at::autocast::set_autocast_enabled(at::kCPU, true);
    at::autocast::set_autocast_dtype(at::kCPU, at::kBFloat16);
    at::autocast::increment_nesting();
  }
  ~Bf16() {
    if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
    at::autocast::set_autocast_enabled(at::kCPU, false);
  }
};

template <class Network>
Network tiny() {
  Network config;
  config.hidden_size = 16;
  config.num_layers = 1;
  config.dropout = 0;
  if constexpr (requires { config.num_heads; }) config.num_heads = 2;
  if constexpr (requires { config.attention_dropout; }) config.attention_dropout = 0;
  if constexpr (requires { config.patch_size; }) config.patch_size = 8;
  return config;
}

void check_near_fp32(const NetworkConfig& network, const InputSpec& input, const ModelInput& given) {
  INFO(network.kind());
  const auto model = testing::ready_model(network, input);
  const at::Tensor exact = model->forward(given).detach();
  at::Tensor output;
  {
    const Bf16 bf16;
    output = model->forward(given);
  }
  CHECK(testing::difference(output.detach().to(at::kFloat), exact) <= 0.05);
  output.to(at::kFloat).sum().backward();
  for (const NamedTensor& named : named_parameters(*model)) {
    INFO(named.name);
    REQUIRE(named.tensor.grad().defined());
    CHECK(named.tensor.grad().scalar_type() == at::kFloat);
    CHECK(named.tensor.grad().isfinite().all().item<bool>());
  }
}

TEST_CASE("bert, vit and lstm run in bf16, near fp32", "[model]") {
  const at::Tensor ids = at::ones({2, 8}, at::kLong).cumsum(1);
  at::Tensor key_mask = at::ones({2, 8}, at::kBool);
  key_mask[1].narrow(0, 5, 3).fill_(false);
  const ModelInput padded{.values = ids, .key_mask = key_mask};
  const InputSpec classified{.shape = {8}, .num_classes = 3, .vocab_size = 11};
  const InputSpec language{.shape = {8}, .vocab_size = 11};
  check_near_fp32(tiny<BertConfig>(), language, padded);
  check_near_fp32(tiny<BertConfig>(), classified, padded);
  check_near_fp32(tiny<LstmConfig>(), classified, padded);
  check_near_fp32(FastTextConfig{.embedding_size = 16, .num_buckets = 64}, classified, padded);
  check_near_fp32(tiny<LstmConfig>(), language, ModelInput{.values = ids});
  const InputSpec images{.shape = {3, 16, 16}, .num_classes = 3};
  check_near_fp32(tiny<VitConfig>(), images, ModelInput{.values = at::randn({2, 3, 16, 16})});
}

}  // namespace
}  // namespace trainctl::model::autocast_test
