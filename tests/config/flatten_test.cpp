#include "config/flatten.h"

#include <catch2/catch.hpp>

#include "config/parse.h"
#include "config/write.h"

namespace trainctl::config::flatten_test {
namespace {

TEST_CASE("origins are those of values that somebody wrote", "[config]") {
  Node complete = Node::mapping();
  complete.add("name", {}, Node::scalar("a", ScalarStyle::plain, {OriginKind::file, "exp.yaml", 1, 7}));
  Node optimizer = Node::mapping();
  optimizer.add("lr", {}, Node::scalar("1", ScalarStyle::plain, {OriginKind::command_line, "--set optimizer.lr=1"}));
  optimizer.add("eps", {}, Node::scalar("1e-8"));
  complete.add("optimizer", {}, std::move(optimizer));
  const auto origins = origins_of(complete);
  CHECK(origins ==
        std::map<std::string, std::string>{{"name", "exp.yaml:1:7"}, {"optimizer.lr", "--set optimizer.lr=1"}});
  CHECK(flatten(complete).contains("optimizer.eps"));
}

}  // namespace
}  // namespace trainctl::config::flatten_test
