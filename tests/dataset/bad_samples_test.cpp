#include "dataset/loader/bad_samples.h"

#include <catch2/catch.hpp>

namespace trainctl::dataset::bad_samples_test {

using Catch::Matchers::Contains;

TEST_CASE("bad samples that an earlier process has told of count, and are not told again", "[dataset][regression]") {
  BadSampleLog log(3, OnBadSample::skip);
  log.add({1, "a.jpg: damaged"});
  log.add_known({1, "a.jpg: damaged"});
  log.add_known({2, "b.jpg: damaged"});
  log.add({2, "b.jpg: damaged"});
  CHECK(log.take().empty());
  CHECK(log.count() == 2);
  log.add({2, "c.jpg: damaged"});  // of another source
  CHECK(log.take().size() == 1);
  CHECK_THROWS_WITH(log.add({4, "d.jpg: damaged"}), Contains("more than 3 samples are bad"));
}

}  // namespace trainctl::dataset::bad_samples_test
