#include "dataset/table/spilling_vector.h"

#include <catch2/catch.hpp>
#include <cstring>

#include "core/error.h"
#include "support/environment_variable.h"
#include "support/temporary_directory.h"

namespace trainctl::dataset::spilling_vector_test {

using namespace trainctl;
using trainctl::dataset::SpillingBytes;
using trainctl::dataset::SpillingVector;

namespace {

void append(SpillingBytes& bytes, std::uint32_t value) {
  bytes.append(std::as_bytes(std::span(&value, 1)));
}

std::uint32_t value_at(const SpillingBytes& bytes, std::size_t index) {
  std::uint32_t value = 0;
  std::memcpy(&value, bytes.data() + index * sizeof value, sizeof value);
  return value;
}

}  // namespace

TEST_CASE("few values stay in memory", "[dataset]") {
  SpillingVector<float> values;
  CHECK(values.empty());
  for (int i = 0; i < 1000; ++i) values.push_back(static_cast<float>(i));
  CHECK(values[999] == 999);
  values.finish();
  CHECK(values.size() == 1000);
  CHECK(values[17] == 17);
}

TEST_CASE("many bytes lie in a file, and read as they were appended", "[dataset]") {
  constexpr std::uint32_t kCount = 3'000'000;  // several writes
  SpillingBytes bytes(1 << 10);
  for (std::uint32_t i = 0; i < kCount; ++i) append(bytes, i * 7);
  CHECK_FALSE(bytes.is_in_memory());
  bytes.finish();
  REQUIRE(bytes.size() == kCount * sizeof(std::uint32_t));
  bool all_equal = true;
  for (std::uint32_t i = 0; i < kCount; ++i) all_equal = all_equal && value_at(bytes, i) == i * 7;
  CHECK(all_equal);
  const SpillingBytes moved = std::move(bytes);
  CHECK(value_at(moved, kCount - 1) == (kCount - 1) * 7);
}

TEST_CASE("a directory that can't take the file is named", "[dataset]") {
  const testing::TemporaryDirectory folder;
  const testing::EnvironmentVariable variable("TMPDIR", (folder.path() / "missing").c_str());
  SpillingBytes bytes(8);
  const auto fill = [&] {
    for (std::uint32_t i = 0; i < 10; ++i) append(bytes, i);
  };
  CHECK_THROWS_WITH(fill(), Catch::Contains("missing"));
}

}  // namespace trainctl::dataset::spilling_vector_test
