#include "config/keys.h"

#include <catch2/catch.hpp>

#include "config/parse.h"
#include "config/sample.h"

namespace trainctl::config::keys_test {
namespace {

std::vector<std::string> paths(const std::vector<KeyDescription>& keys) {
  std::vector<std::string> result;
  for (const KeyDescription& key : keys) result.push_back(key.path);
  return result;
}

std::vector<std::string_view> words_at(const std::vector<KeyDescription>& keys, std::string_view path) {
  for (const KeyDescription& key : keys)
    if (key.path == path) return key.words;
  FAIL("no key " << path);
  return {};
}

TEST_CASE("without a file, each kind's keys are listed once", "[config]") {
  const std::vector<KeyDescription> keys = list_keys(shape_of<sample::Root>());
  CHECK(paths(keys) == std::vector<std::string>{"name",
                                                "seed",
                                                "shuffle",
                                                "mode",
                                                "workers",
                                                "channels",
                                                "eval.images",
                                                "eval.labels",
                                                "optimizer.kind",
                                                "optimizer.beta",
                                                "optimizer.momentum",
                                                "optimizer.stride",
                                                "optimizer.lr",
                                                "optimizer.weight_decay",
                                                "optimizer.clip",
                                                "steps",
                                                "scaling.kind",
                                                "scaling.beta",
                                                "scaling.momentum",
                                                "scaling.stride"});
  CHECK(keys.front().help == "Name.");
}

TEST_CASE("the kind that a file states brings its keys alone", "[config]") {
  Problems problems;
  const auto root = parse("optimizer: {kind: sgd}\nscaling: {kind: nonsense}\n", {}, problems);
  REQUIRE(root);
  const std::vector<std::string> listed = paths(list_keys(shape_of<sample::Root>(), &*root));
  CHECK(std::ranges::count(listed, "optimizer.stride") == 1);
  CHECK(std::ranges::count(listed, "optimizer.beta") == 0);
  CHECK(std::ranges::count(listed, "scaling.beta") == 1);
}

TEST_CASE("a key lists the words that its value may be", "[config]") {
  using Words = std::vector<std::string_view>;
  const std::vector<KeyDescription> keys = list_keys(shape_of<sample::Root>());
  CHECK(words_at(keys, "shuffle") == Words{"true", "false"});
  CHECK(words_at(keys, "mode") == Words{"fp32", "tf32", "bf16", "fp16"});
  CHECK(words_at(keys, "workers") == Words{"auto"});
  CHECK(words_at(keys, "optimizer.kind") == Words{"adam", "sgd"});
  CHECK(words_at(keys, "optimizer.clip") == Words{"null"});
  CHECK(words_at(keys, "seed").empty());
}

}  // namespace
}  // namespace trainctl::config::keys_test
