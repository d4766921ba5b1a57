// Catch2, after c10's logging where that is on the path: both have a macro CHECK, and the later one is the one that
// counts.
#pragma once

#if __has_include(<c10/util/Logging.h>)
#include <c10/util/Logging.h>
#define TRAINCTL_HAS_C10_LOGGING
#endif
#include_next <catch2/catch.hpp>

#ifdef TRAINCTL_HAS_C10_LOGGING
namespace Catch {

/// c10 prints every vector to a stream, also where its elements can't be printed.
template <class T, class Allocator>
struct StringMaker<std::vector<T, Allocator>> {
  static std::string convert(const std::vector<T, Allocator>& values) { return rangeToString(values); }
};

}  // namespace Catch
#endif
