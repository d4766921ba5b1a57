// The main function of every test program. It counts the cases that passed, were skipped or failed, and exits with
// CTest's SKIP_RETURN_CODE if every case was skipped. A program without a case, and a case that neither asserts nor
// skips, fail.
#define CATCH_CONFIG_RUNNER
#include <catch2/catch.hpp>
#include <cstdlib>
#include <iostream>
#include <set>
#include <string>

#include "support/skip.h"

namespace trainctl::testing {
namespace {

constexpr int kExitSkipped = 77;  // as in tests/CMakeLists.txt and tests/acceptance/scenario.py

struct Counts {
  int passed = 0;
  int skipped = 0;
  int failed = 0;
  bool has_run = false;           // not with options such as --list-tests
  std::set<std::string> reasons;  // to skip the current case
};

Counts& counts() {  // Catch2 makes the listener, so the two have no common owner
  static Counts counts;
  return counts;
}

class CaseCounter final : public Catch::TestEventListenerBase {
 public:
  using TestEventListenerBase::TestEventListenerBase;

  void testRunStarting(const Catch::TestRunInfo& /*info*/) override { counts().has_run = true; }
  void testCaseStarting(const Catch::TestCaseInfo& /*info*/) override { counts().reasons.clear(); }
  void testCaseEnded(const Catch::TestCaseStats& stats) override {
    // A hidden case is a program that another case starts.
    const bool is_empty = stats.totals.assertions.total() == 0 && !stats.testInfo.isHidden();
    if (stats.totals.testCases.failed > 0) {
      ++counts().failed;
    } else if (!counts().reasons.empty()) {
      ++counts().skipped;
      for (const std::string& reason : counts().reasons)
        std::cout << "SKIPPED: " << stats.testInfo.name << " -- " << reason << "\n";
    } else if (is_empty) {
      ++counts().failed;
      std::cout << "FAILED: " << stats.testInfo.name << ": the case asserted nothing\n";
    } else {
      ++counts().passed;
    }
  }
};

CATCH_REGISTER_LISTENER(CaseCounter)

int report(int catch_result) {
  const Counts& all = counts();
  if (!all.has_run) return catch_result;
  std::cout << "cases: " << all.passed << " passed, " << all.skipped << " skipped, " << all.failed << " failed"
            << std::endl;
  // Not the number of failed assertions, which may be kExitSkipped.
  if (catch_result != 0 || all.failed > 0 || all.passed + all.skipped == 0) return EXIT_FAILURE;
  return all.passed == 0 ? kExitSkipped : EXIT_SUCCESS;
}

}  // namespace

void skip(const std::string& reason) {
  counts().reasons.insert(reason);
  throw Catch::TestFailureException();  // which ends a case, and by itself fails none
}

}  // namespace trainctl::testing

int main(int argc, char** argv) {
  return trainctl::testing::report(Catch::Session().run(argc, argv));
}
