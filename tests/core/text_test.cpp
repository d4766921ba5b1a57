#include "core/text.h"

#include <catch2/catch.hpp>

using namespace trainctl;

TEST_CASE("the nearest word is found within a third of its length", "[core]") {
  const std::vector<std::string> words = {"weight_decay", "momentum", "lr"};
  CHECK(nearest_word("weigth_decay", words) == "weight_decay");
  CHECK(nearest_word("momentm", words) == "momentum");
  CHECK(nearest_word("lrr", words) == "lr");
  CHECK(nearest_word("batch_size", words).empty());
}

TEST_CASE("numbers are written so that they read back the same", "[core]") {
  CHECK(format_number(0.003) == "0.003");
  CHECK(format_number(1e-8) == "1e-08");
  CHECK(format_count(1234567) == "1,234,567");
  CHECK(format_count(-999) == "-999");
  CHECK(format_bytes(1536) == "1.5 KiB");
  CHECK(format_duration(0.25) == "250.0 ms");
}
