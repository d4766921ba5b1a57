#include "core/text.h"

#include <catch2/catch.hpp>
#include <cmath>

using namespace trainctl;
using namespace trainctl::core;

TEST_CASE("the nearest word is found within a third of its length", "[core]") {
  const std::vector<std::string> words = {"weight_decay", "momentum", "lr"};
  CHECK(nearest_word("weigth_decay", words) == "weight_decay");
  CHECK(nearest_word("momentm", words) == "momentum");
  CHECK(nearest_word("lrr", words) == "lr");
  CHECK(nearest_word("batch_size", words).empty());
}

TEST_CASE("of many words the first are listed, with the number of the others", "[core]") {
  const std::vector<std::string> words = {"a", "b", "c"};
  CHECK(list_first_words(words, 3) == "a, b and c");
  CHECK(list_first_words(words, 2) == "a, b and 1 more");
  CHECK(list_first_words(words, 1) == "a and 2 more");
  CHECK(list_first_words({}, 1).empty());
}

TEST_CASE("numbers are written so that they read back the same", "[core]") {
  CHECK(format_number(0.003) == "0.003");
  CHECK(format_number(1e-8) == "1e-08");
  CHECK(format_count(1234567) == "1,234,567");
  CHECK(format_count(-999) == "-999");
  CHECK(format_bytes(1536) == "1.5 KiB");
  CHECK(format_duration(0.25) == "250.0 ms");
}

TEST_CASE("numbers are written with as many digits as asked for, whatever their size", "[core]") {
  CHECK(format_fixed(0.5, 2) == "0.50");
  CHECK(format_fixed(1e300, 1).size() == 303);
  CHECK(format_digits(1234.5, 3) == "1.23e+03");
  CHECK(format_digits(2, 3) == "2");
  CHECK(format_percent(0.1251, 1) == "12.5 %");
}

TEST_CASE("metrics have four decimals, or four digits where those say little", "[core]") {
  CHECK(format_metric(0) == "0.0000");
  CHECK(format_metric(2.302585) == "2.3026");
  CHECK(format_metric(0.0001234567) == "0.0001235");
  CHECK(format_metric(1.203e-7) == "1.203e-07");
  CHECK(format_metric(123456) == "1.235e+05");
  CHECK(format_metric(std::nan("")) == "nan");
  CHECK(format_metric(-HUGE_VAL) == "-inf");
}

TEST_CASE("a cell is in quotes if it has a comma, a quote or a line end", "[core]") {
  CHECK(csv_cell("plain text") == "plain text");
  CHECK(csv_cell("") == "");
  CHECK(csv_cell("a,b") == "\"a,b\"");
  CHECK(csv_cell("say \"a\"") == "\"say \"\"a\"\"\"");
  CHECK(csv_cell("two\nlines") == "\"two\nlines\"");
}
