#include "core/terminal.h"

#include <unistd.h>

#include <catch2/catch.hpp>

using trainctl::core::terminal_columns;
using trainctl::core::without_controls;
using trainctl::core::wrap_words;

TEST_CASE("lines break between words, and what follows is indented", "[core]") {
  CHECK(wrap_words("one two three four five six seven", 20) == "one two three four\n    five six seven");
  CHECK(wrap_words("  an indented line that is too long", 20) == "  an indented line\n      that is too\n      long");
  CHECK(wrap_words("short\nand so is this", 20) == "short\nand so is this");
  CHECK(wrap_words("", 20).empty());
  CHECK(wrap_words("ends with a line\n", 20) == "ends with a line\n");
}

TEST_CASE("a name stays beside its value", "[core]") {
  CHECK(wrap_words("loss 0.2747  f1_macro 0.8972", 24) == "loss 0.2747\n    f1_macro 0.8972");
}

TEST_CASE("a word that is longer than the line stays whole", "[core]") {
  CHECK(wrap_words("writing runs/fashion-mnist/20261126T185321Z-1 now", 24) ==
        "writing\n    runs/fashion-mnist/20261126T185321Z-1\n    now");
}

TEST_CASE("columns are characters, not bytes", "[core]") {
  const std::string word = "\xc3\xa4\xc3\xb6\xc3\xbc";  // three characters of two bytes
  CHECK(wrap_words(word + " " + word + " " + word + " " + word + " " + word, 20) ==
        word + " " + word + " " + word + " " + word + " " + word);
}

TEST_CASE("text for a terminal without a sensible width stays as it is", "[core]") {
  CHECK(wrap_words("one two three", 5) == "one two three");
}

TEST_CASE("control characters are shown, not sent to the terminal", "[core][regression]") {
  CHECK(without_controls("plain\ttext\n") == "plain\ttext\n");
  CHECK(without_controls("naïve 漢字 🙂") == "naïve 漢字 🙂");
  CHECK(without_controls("\x1b[31mred\a\r\x7f") == "\\x1b[31mred\\x07\\x0d\\x7f");
  CHECK(without_controls("\xc2\x9b"
                         "31m") == "\\xc2\\x9b31m");  // CSI in one character
  CHECK(without_controls("\x9b"
                         "31m \xe9t\xe9") == "\\x9b31m \\xe9t\\xe9");  // Latin-1 is no UTF-8
  CHECK(without_controls(std::string("a\0b", 3)) == "a\\x00b");
}

TEST_CASE("a file is no terminal", "[core]") {
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  CHECK_FALSE(terminal_columns(ends[1]));
  ::close(ends[0]);
  ::close(ends[1]);
}
