// Each case draws the same random numbers in every run, in whatever order the cases run: PyTorch seeds the default
// generator of a process from the system's entropy (c10::detail::getNonDeterministicRandom).
#include <ATen/CPUGeneratorImpl.h>

#include <mutex>

#define CATCH_CONFIG_EXTERNAL_INTERFACES
#include <catch2/catch.hpp>

#include "runtime/device.h"

namespace trainctl::testing {
namespace {

class SeedEachCase final : public Catch::TestEventListenerBase {
 public:
  using TestEventListenerBase::TestEventListenerBase;

  // LibTorch looks for its CUDA library once in a process: at the first backward pass or at::manual_seed, also on the
  // CPU. The cases for a GPU follow later. Without a driver nothing is loaded.
  void testRunStarting(const Catch::TestRunInfo& /*info*/) override { runtime::load_cuda(); }

  // at::manual_seed would also start the driver, which a forked child of a test could not use.
  void testCaseStarting(const Catch::TestCaseInfo& /*info*/) override {
    at::Generator generator = at::detail::getDefaultCPUGenerator();
    const std::lock_guard lock(generator.mutex());
    generator.set_current_seed(17);
  }
};

CATCH_REGISTER_LISTENER(SeedEachCase)

}  // namespace
}  // namespace trainctl::testing
