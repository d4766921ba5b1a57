#include "config/traits.h"

#include <catch2/catch.hpp>

namespace trainctl::config::traits_test {
namespace {

struct ToolTraits {
  Stated<bool> is_sharp;
  Stated<double> weight;
};

struct ToolFacts {
  Stated<std::int64_t> length;
};

struct Saw {
  static constexpr std::string_view kind = "saw";
  static constexpr ToolTraits traits{.is_sharp = true, .weight = 0.5};
  std::int64_t teeth = 20;
  ToolFacts facts() const { return {.length = 2 * teeth}; }
};

struct Hammer {
  static constexpr std::string_view kind = "hammer";
  static constexpr ToolTraits traits{.is_sharp = false, .weight = 1.5};
  ToolFacts facts() const { return {.length = 30}; }
};

/// States nothing.
struct Stranger {
  static constexpr std::string_view kind = "stranger";
};

/// States another thing.
struct Impostor {
  static constexpr std::string_view kind = "impostor";
  static constexpr int traits = 1;
  int facts() const { return 1; }
};

using Tool = OneOf<Saw, Hammer>;
static_assert(kHaveTraits<Tool, ToolTraits> && kHaveFacts<Tool, ToolFacts>);
static_assert(!WithTraits<Stranger, ToolTraits> && !WithFacts<Stranger, ToolFacts>);
static_assert(!WithTraits<Impostor, ToolTraits> && !WithFacts<Impostor, ToolFacts>);

/// A template, since only there a wrong initializer is false instead of an error.
template <class Traits>
constexpr bool kMayLeaveOut = requires {
  Traits{.is_sharp = true};
};
static_assert(!kMayLeaveOut<ToolTraits>);

TEST_CASE("traits and facts are those of the kind that is set", "[config]") {
  CHECK(traits_of(Tool(Saw{})).is_sharp);
  CHECK_FALSE(traits_of(Tool(Hammer{})).is_sharp);
  CHECK(traits_of(Tool(Hammer{})).weight == 1.5);
  CHECK(facts_of(Tool(Saw{.teeth = 7})).length == 14);
  CHECK(facts_of(Tool(Hammer{})).length == 30);
}

}  // namespace
}  // namespace trainctl::config::traits_test
