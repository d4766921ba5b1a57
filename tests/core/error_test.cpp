#include "core/error.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <new>
#include <stdexcept>
#include <vector>

namespace trainctl::core {
namespace {

using Catch::Contains;

std::string told(const std::exception& error) {
  return as_error(error).text();
}

TEST_CASE("an exception of a library is told in one line, without its stack and its names", "[core]") {
  CHECK(told(std::runtime_error("one\ntwo")) == "one");
  CHECK(told(std::runtime_error("")).empty());
  CHECK(told(std::runtime_error(
            "sizes differ\nException raised from f at a.cpp:1 (most recent call first):\nframe #0")) == "sizes differ");
  CHECK(told(std::runtime_error("[json.exception.type_error.302] type must be string, but is null")) ==
        "type must be string, but is null");
  CHECK(told(Error("cannot read a").hint("make it")) == "cannot read a\n  try: make it");
}

TEST_CASE("memory that runs out is called so, whoever says it", "[core]") {
  CHECK_THAT(told(std::bad_alloc()), Contains("out of memory") && Contains("trainctl plan") && !Contains("std::"));
  CHECK_THAT(told(std::bad_array_new_length()), Contains("out of memory") && !Contains("std::"));
  CHECK_THAT(told(std::length_error("cannot create std::vector larger than max_size()")),
             Contains("out of memory") && !Contains("std::"));
  CHECK_THAT(
      told(std::runtime_error("[enforce fail at alloc_cpu.cpp:129] err == 0. DefaultCPUAllocator: can't allocate "
                              "memory: you tried to allocate 8 bytes. Error code 12 (Cannot allocate memory)")),
      Contains("out of memory: there is no room for 8 B more") && !Contains("enforce"));
  for (const char* words : {"could not create a primitive", "could not execute a primitive"})
    CHECK_THAT(told(std::runtime_error(words)), Contains("oneDNN") && Contains("memory"));
  CHECK_THAT(told(std::system_error(EAGAIN, std::generic_category())),
             Contains("cannot start a thread") && Contains("ulimit -u"));
}

TEST_CASE("an exception that a thread leaves is an error with words, or stays as it is without memory", "[core]") {
  const auto text_of = [](const std::exception_ptr& error) -> std::string {
    try {
      std::rethrow_exception(error);
    } catch (const std::exception& caught) {
      return as_error(caught).what();
    } catch (int) {
      return "an int";
    }
  };
  const auto current = [&](auto thrown, auto change) {
    try {
      throw thrown;
    } catch (...) {
      return text_of(current_error(change));
    }
  };
  const auto add = [](Error error) { return error.during("reading"); };
  CHECK(current(Error("cannot read a"), add) == "cannot read a while reading");
  CHECK(current(std::runtime_error("one\ntwo"), add) == "one while reading");
  CHECK(current(Error("cannot read a"), [](Error) -> Error { throw std::bad_alloc(); }) == "cannot read a");
  CHECK(current(7, add) == "an int");
}

TEST_CASE("an exception of the file system names its path as every other error does", "[core]") {
  try {
    std::filesystem::create_directory("/proc/none/a");
    FAIL();
  } catch (const std::exception& error) {
    CHECK(told(error) == "cannot create directory /proc/none/a: No such file or directory");
  }
}

}  // namespace
}  // namespace trainctl::core
