#include "config/overlay.h"

#include <catch2/catch.hpp>
#include <fstream>

#include "config/flatten.h"
#include "config/parse.h"
#include "config/read.h"
#include "sample.h"
#include "support/temporary_directory.h"

namespace trainctl::config::overlay_test {

using namespace trainctl;
using namespace trainctl::config;
using testing::TemporaryDirectory;

namespace {

using Flat = std::map<std::string, std::string>;

Flat load_flat(const std::filesystem::path& path) {
  Problems problems;
  const auto node = load_with_bases(shape_of<sample::Root>(), path, problems);
  problems.throw_if_any();
  return flatten(*node);
}

std::string load_problem(const std::filesystem::path& path) {
  Problems problems;
  CHECK(!load_with_bases(shape_of<sample::Root>(), path, problems));
  REQUIRE(!problems.empty());
  return problems.sorted()[0].text();
}

Node parsed(const std::string& text) {
  Problems problems;
  auto node = parse(text, {OriginKind::file, "f.yaml", 1, 1}, problems);
  REQUIRE(node);
  return *node;
}

Flat set_flat(const std::string& text, const std::string& assignment) {
  Node node = parsed(text);
  Problems problems;
  apply_set(shape_of<sample::Root>(), node, assignment, problems);
  problems.throw_if_any();
  return flatten(node);
}

std::string set_problem(const std::string& text, const std::string& assignment) {
  Node node = parsed(text);
  Problems problems;
  apply_set(shape_of<sample::Root>(), node, assignment, problems);
  sample::Root value;
  read_into(shape_of<sample::Root>(), node, &value, problems);
  REQUIRE(!problems.empty());
  return problems.sorted()[0].text();
}

}  // namespace

TEST_CASE("a file lies over its base", "[config]") {
  const TemporaryDirectory folder;
  folder.write(
      "base.yaml",
      "name: base\noptimizer: {kind: sgd, momentum: 0.5, lr: 1}\nscaling: {kind: sgd, stride: 3}\nchannels: [1, 2]\n");
  const auto path = folder.write(
      "sub/exp.yaml", "base: ../base.yaml\nname: over\noptimizer: {lr: 2}\nscaling: {kind: adam}\nchannels: [3]\n");
  CHECK(load_flat(path) == Flat{{"name", "over"},
                                {"optimizer.kind", "sgd"},
                                {"optimizer.momentum", "0.5"},
                                {"optimizer.lr", "2"},
                                {"scaling.kind", "adam"},
                                {"channels", "[3]"}});
}

TEST_CASE("origins survive the overlay", "[config]") {
  const TemporaryDirectory folder;
  folder.write("base.yaml", "name: base\noptimizer: {lr: 1,\n  clip: 3}\n");
  const auto path = folder.write("exp.yaml", "base: base.yaml\noptimizer: {lr: 2}\n");
  Problems problems;
  const auto node = load_with_bases(shape_of<sample::Root>(), path, problems);
  REQUIRE(node);
  CHECK(find_path(*node, "optimizer.lr")->origin.text() == path.string() + ":2:17");
  CHECK(find_path(*node, "optimizer.clip")->origin.text() == (path.parent_path() / "base.yaml").string() + ":3:9");
}

TEST_CASE("short forms lie over each other like long ones", "[config]") {
  const TemporaryDirectory folder;
  folder.write("base.yaml", "name: base\noptimizer: sgd\nscaling: {kind: sgd, stride: 3}\n");
  const auto path = folder.write("exp.yaml", "base: base.yaml\noptimizer: {momentum: 0.5}\nscaling: sgd\n");
  CHECK(load_flat(path) == Flat{{"name", "base"},
                                {"optimizer.kind", "sgd"},
                                {"optimizer.momentum", "0.5"},
                                {"scaling.kind", "sgd"},
                                {"scaling.stride", "3"}});
}

TEST_CASE("bases that can't be followed are refused at their line", "[config]") {
  const TemporaryDirectory folder;
  const auto a = folder.write("a.yaml", "name: a\nbase: b.yaml\n");
  folder.write("b.yaml", "base: sub/../a.yaml\n");
  CHECK(load_problem(a).find("b.yaml:1:7: base: these files name each other as base, in a circle") !=
        std::string::npos);
  CHECK(load_problem(folder.write("self.yaml", "base: self.yaml\n")).find("in a circle") != std::string::npos);
  const std::string missing = load_problem(folder.write("c.yaml", "base: missing.yaml\n"));
  CHECK(missing.find("c.yaml:1:7: base: cannot open ") != std::string::npos);
  CHECK(missing.find("missing.yaml: No such file") != std::string::npos);
  CHECK(load_problem(folder.write("d.yaml", "base: [a.yaml]\n"))
            .find("d.yaml:1:7: base: expected the path of another experiment file") != std::string::npos);
  for (int i = 0; i < 20; ++i)
    folder.write("n" + std::to_string(i) + ".yaml", "base: n" + std::to_string(i + 1) + ".yaml\n");
  CHECK(load_problem(folder.write("n.yaml", "base: n0.yaml\n")).find("over 8 files") != std::string::npos);
}

TEST_CASE("an assignment replaces the value at its path", "[config]") {
  const std::string text = "name: x\noptimizer: {kind: sgd, lr: 1}\nsteps: [{kind: adam, beta: 0.5}, {kind: sgd}]\n";
  CHECK(set_flat(text, "optimizer.lr=2").at("optimizer.lr") == "2");
  CHECK(set_flat(text, "optimizer.clip=3").at("optimizer.clip") == "3");
  CHECK(set_flat(text, "steps[1].stride=4").at("steps[1].stride") == "4");
  CHECK(set_flat(text, "steps.0.beta=0.1").at("steps[0].beta") == "0.1");
  CHECK(set_flat(text, "channels=[7, 8]").at("channels") == "[7, 8]");
  CHECK(set_flat(text, "eval={images: a, labels: b}").at("eval.images") == "a");
  CHECK(set_flat(text, "eval.images=a=b").at("eval.images") == "\"a=b\"");
  CHECK(set_flat("name: x\neval: null\n", "eval.images=a").at("eval.images") == "a");
  CHECK(set_flat("name: x\noptimizer: sgd\n", "optimizer.lr=2").at("optimizer.kind") == "sgd");
}

TEST_CASE("assigning a word replaces a mapping, assigning its kind keeps the other keys", "[config]") {
  const std::string text = "name: x\noptimizer: {kind: sgd, momentum: 0.5, lr: 1}\n";
  CHECK(set_flat(text, "optimizer=adam") == Flat{{"name", "x"}, {"optimizer.kind", "adam"}});
  CHECK(set_problem(text, "optimizer.kind=adam") ==
        "f.yaml:2:24: optimizer.momentum: 'momentum' belongs to kind sgd; this is adam");
}

TEST_CASE("mistakes in assignments say which one", "[config]") {
  const std::string text = "name: x\nsteps: [adam]\nseed: 1\n";
  CHECK(set_problem(text, "optimizer.lrr=2") ==
        "--set optimizer.lrr=2: optimizer.lrr: unknown key; did you mean 'lr'?");
  CHECK(set_problem(text, "optimizer.lr=-2") ==
        "--set optimizer.lr=-2: optimizer.lr: expected a positive number, got -2");
  CHECK(set_problem(text, "optimizer.lr").find("--set optimizer.lr: expected key=value") == 0);
  CHECK(set_problem(text, "=1").find("expected key=value") != std::string::npos);
  CHECK(set_problem(text, "a..b=1").find("expected key=value") != std::string::npos);
  CHECK(set_problem(text, "steps[x]=1").find("expected key=value") != std::string::npos);
  CHECK(set_problem(text, "steps[5]=adam").find("steps has 1 items, counted from 0") != std::string::npos);
  CHECK(set_problem(text, "steps.first=adam").find("steps is a list; 'first' is not an index") != std::string::npos);
  CHECK(set_problem(text, "seed.x=1").find("seed has no keys; it is '1'") != std::string::npos);
  CHECK(set_problem(text, "channels=[1").find("is every bracket closed?") != std::string::npos);
  CHECK(set_problem(text, "base=x.yaml").find("a base is named in the file") != std::string::npos);
}

}  // namespace trainctl::config::overlay_test
