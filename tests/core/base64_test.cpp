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

TEST_CASE("a text in base64 is read back, and any other refused", "[core]") {
  for (const std::string bytes : {"", "f", "fo", "foo", "foobar", "\xff\xfe\x01"})
    CHECK(from_base64(base64(bytes)).value() == bytes);
  CHECK(from_base64("Zg").value() == "f");
  CHECK_FALSE(from_base64("Zm9v YmFy"));
  CHECK_FALSE(from_base64("Zm=v"));
}

}  // namespace
}  // namespace trainctl::core
