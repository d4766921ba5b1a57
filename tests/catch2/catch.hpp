// Catch2, after c10's logging where that is on the path: both have a macro CHECK, and the later one is the one that counts.
#pragma once

#if __has_include(<c10/util/Logging.h>)
#include <c10/util/Logging.h>
#endif
#include_next <catch2/catch.hpp>
