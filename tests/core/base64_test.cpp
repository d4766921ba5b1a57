#include "core/base64.h"

#include <catch2/catch.hpp>

namespace trainctl::core {
namespace {

TEST_CASE("bytes in base64 are those of RFC 4648", "[core]") {
  CHECK(base64("") == "");
  CHECK(base64("f") == "Zg==");
  CHECK(base64("fo") == "Zm8=");
  CHECK(base64("foo") == "Zm9v");
  CHECK(base64("foob") == "Zm9vYg==");
  CHECK(base64("fooba") == "Zm9vYmE=");
  CHECK(base64("foobar") == "Zm9vYmFy");
  CHECK(base64(std::string_view("\xff\x00\xfe", 3)) == "/wD+");
}

}  // namespace
}  // namespace trainctl::core
