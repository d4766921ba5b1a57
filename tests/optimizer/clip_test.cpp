#include <ATen/ops/zeros_like.h>
#include <catch2/catch.hpp>

#include "optimizer/optimizer.h"
#include "support/reference.h"

namespace trainctl::optimizer::clip_test {
namespace {

TEST_CASE("clipping is torch.nn.utils.clip_grad_norm_", "[optimizer]") {
  const auto expected = testing::reference("optimizers.py", "clipping");
  for (const auto& [name, max_norm] : {std::pair{"tight", 0.5}, {"loose", 1e6}, {"infinite", 1.0}}) {
    INFO(name);
    const std::string prefix = std::string(name) + ".";
    std::vector<OptimizedParameter> parameters;
    for (int i = 0; expected.contains("gradient." + std::to_string(i)); ++i) {
      const at::Tensor gradient = expected.at("gradient." + std::to_string(i)).clone();
      if (prefix == "infinite." && i == 1) gradient[3].fill_(INFINITY);
      parameters.push_back({std::to_string(i), at::zeros_like(gradient).requires_grad_()});
      parameters.back().tensor.mutable_grad() = gradient;
    }
    REQUIRE(parameters.size() == 5);
    parameters.push_back({"without", at::zeros_like(parameters.front().tensor).requires_grad_()});

    const at::Tensor measured = clip_grad_norm(parameters, std::nullopt);
    const at::Tensor norm = clip_grad_norm(parameters, max_norm);
    CHECK(measured.equal(norm));
    CHECK(norm.dim() == 0);
    CHECK(norm.allclose(expected.at(prefix + "norm"), 1e-6, 0));
    for (std::size_t i = 0; i < 5; ++i)
      CHECK(parameters[i].tensor.grad().allclose(expected.at(prefix + std::to_string(i)), 2e-6, 0, /*equal_nan=*/true));
  }
}

}  // namespace
}  // namespace trainctl::optimizer::clip_test
