// Each case draws the same random numbers in every run, in whatever order the cases run: PyTorch seeds the default
// generator of a process from the system's entropy (c10::detail::getNonDeterministicRandom).
#include <ATen/Context.h>

#define CATCH_CONFIG_EXTERNAL_INTERFACES
#include <catch2/catch.hpp>

namespace trainctl::testing {
namespace {

class SeedEachCase final : public Catch::TestEventListenerBase {
 public:
  using TestEventListenerBase::TestEventListenerBase;

  void testCaseStarting(const Catch::TestCaseInfo& /*info*/) override { at::manual_seed(17); }
};

CATCH_REGISTER_LISTENER(SeedEachCase)

}  // namespace
}  // namespace trainctl::testing
