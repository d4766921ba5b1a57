// Which algorithm a model's convolutions take.
#include "model/layers/convolution.h"

#include <ATen/ops/randn.h>
#include <ATen/record_function.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "model/model_support.h"

namespace trainctl::model::convolution_test {
namespace {

constexpr std::string_view kOperator = "trainctl::winograd_convolution";

thread_local int num_winograd = 0;

/// A cnn of two convolutions, of which Winograd's algorithm suits the second.
std::unique_ptr<Model> two_convolutions(ConvolutionAlgorithm algorithm, bool channels_last) {
  CnnConfig config;
  config.channels = {32, 48};
  ModelConfig whole = testing::with_network(config);
  whole.convolution_algorithm = algorithm;
  std::unique_ptr<Model> model = build(whole, {.shape = {3, 16, 16}, .num_classes = 4});
  materialize(*model, at::kCPU, 1, channels_last);
  model->set_training(false);
  return model;
}

at::Tensor run(Model& model, const at::Tensor& images) {
  const c10::NoGradGuard no_grad;
  num_winograd = 0;
  const auto handle = at::addThreadLocalCallback(
      at::RecordFunctionCallback([](const at::RecordFunction& function) -> std::unique_ptr<at::ObserverContext> {
        if (function.name() == kOperator) ++num_winograd;
        return nullptr;
      }).scopes({at::RecordScope::FUNCTION}));
  at::Tensor output = model.forward(images);
  at::removeCallback(handle);
  return output;
}

TEST_CASE("convolution_algorithm: direct keeps Winograd's away, auto takes it in channels_last", "[model]") {
  const at::Tensor images = at::randn({32, 3, 16, 16}).contiguous(at::MemoryFormat::ChannelsLast);
  const at::Tensor by_auto = run(*two_convolutions(ConvolutionAlgorithm::auto_, true), images);
  CHECK(num_winograd == 1);
  const at::Tensor by_direct = run(*two_convolutions(ConvolutionAlgorithm::direct, true), images);
  CHECK(num_winograd == 0);
  CHECK(testing::difference(by_auto, by_direct) < 1e-5);
  run(*two_convolutions(ConvolutionAlgorithm::auto_, false), images.contiguous());
  CHECK(num_winograd == 0);
}

}  // namespace
}  // namespace trainctl::model::convolution_test
