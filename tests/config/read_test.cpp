#include "config/read.h"

#include <catch2/catch.hpp>

#include "config/parse.h"
#include "sample.h"

namespace trainctl::config::read_test {

using namespace trainctl;
using namespace trainctl::config;
using Catch::Matchers::Contains;

namespace {

const Origin kFile{OriginKind::file, "f.yaml", 1, 1};

struct Result {
  sample::Root value;
  std::vector<std::string> problems;
};

Result read_text(const std::string& text) {
  Problems problems;
  const auto node = parse(text, kFile, problems);
  Result result;
  if (node) result.value = read<sample::Root>(*node, problems);
  for (const core::Problem& problem : problems.sorted()) result.problems.push_back(problem.text());
  return result;
}

/// The only problem of a file that has a name and this text.
std::string problem_of(const std::string& text) {
  const Result result = read_text("name: x\n" + text);
  REQUIRE(result.problems.size() == 1);
  return result.problems[0];
}

}  // namespace

TEST_CASE("every type of value is read", "[config]") {
  const Result result = read_text(R"(
name: "a name"
seed: 7
shuffle: false
mode: bf16
workers: 3
channels: [1, 2, 3]
eval: {images: a, labels: b}
optimizer: {kind: sgd, momentum: 0.5, lr: 3e-3, clip: 1}
steps: [sgd, {kind: adam, beta: .25}]
scaling: {kind: sgd, stride: +2}
)");
  CHECK(result.problems.empty());
  const sample::Root& value = result.value;
  CHECK(value.name == "a name");
  CHECK(value.seed == 7);
  CHECK(!value.shuffle);
  CHECK(value.mode == sample::Mode::bf16);
  CHECK(value.workers.value == 3);
  CHECK(value.channels == std::vector<std::int64_t>{1, 2, 3});
  REQUIRE(value.eval);
  CHECK(value.eval->labels == "b");
  REQUIRE(value.optimizer.rule.get_if<sample::Sgd>());
  CHECK(value.optimizer.rule.get_if<sample::Sgd>()->momentum == 0.5);
  CHECK(value.optimizer.lr == 3e-3);
  CHECK(value.optimizer.clip == 1);
  REQUIRE(value.steps.size() == 2);
  CHECK(value.steps[0].kind() == "sgd");
  CHECK(value.steps[1].get_if<sample::Adam>()->beta == .25);
  CHECK(value.scaling.get_if<sample::Sgd>()->stride == 2);
}

TEST_CASE("a word stands for a mapping with that kind", "[config]") {
  const Result result = read_text("name: x\noptimizer: sgd\nscaling: sgd\n");
  CHECK(result.problems.empty());
  CHECK(result.value.optimizer.rule.kind() == "sgd");
  CHECK(result.value.scaling.kind() == "sgd");
}

TEST_CASE("null and auto mean absence and the program's choice", "[config]") {
  const Result result = read_text("name: x\neval: null\nworkers: auto\noptimizer: {clip: ~}\n");
  CHECK(result.problems.empty());
  CHECK(!result.value.eval);
  CHECK(result.value.workers.is_auto());
  CHECK(!result.value.optimizer.clip);
}

TEST_CASE("a wrong number says what was expected", "[config]") {
  CHECK(problem_of("optimizer: {lr: -1}\n") == "f.yaml:2:17: optimizer.lr: expected a positive number, got -1");
  CHECK(problem_of("optimizer: {lr: fast}\n") == "f.yaml:2:17: optimizer.lr: expected a positive number, got 'fast'");
  CHECK_THAT(problem_of("optimizer: {lr: None}\n"), Contains("got 'None'; YAML's word for no value is null"));
  CHECK_THAT(problem_of("optimizer:\n  lr: 0,001\n"), Contains("got '0,001'; a number has no comma"));
  CHECK_THAT(problem_of("optimizer: {lr: 1, 001: 2}\n"), Contains("unknown key; a comma ends an entry here"));
  CHECK(problem_of("optimizer: {lr: \"1\"}\n") ==
        "f.yaml:2:17: optimizer.lr: expected a positive number, got '1'; remove the quotes");
  CHECK(problem_of("optimizer: {lr: .inf}\n") == "f.yaml:2:17: optimizer.lr: expected a positive number, got '.inf'");
  CHECK(problem_of("optimizer: {lr: nan}\n").find("expected a positive number") != std::string::npos);
  CHECK(problem_of("optimizer: {lr: inf}\n").find("expected a positive number") != std::string::npos);
  CHECK(problem_of("optimizer: {lr: 1e999}\n").find("that a double can hold") != std::string::npos);
  CHECK(problem_of("optimizer: {beta: 1}\n") ==
        "f.yaml:2:19: optimizer.beta: expected a number of at least 0 and below 1, got 1");
  CHECK(problem_of("optimizer: {lr: [1]}\n") == "f.yaml:2:17: optimizer.lr: expected a positive number, got a list");
  CHECK(problem_of("optimizer: {lr:}\n") == "f.yaml:2:16: optimizer.lr: expected a positive number, got nothing");
}

TEST_CASE("integers are written whole", "[config]") {
  CHECK(problem_of("seed: 1.5\n") == "f.yaml:2:7: seed: expected an integer of at least 0, got 1.5");
  CHECK(problem_of("seed: 1e6\n") == "f.yaml:2:7: seed: expected an integer of at least 0, got 1e6; write 1000000");
  CHECK(problem_of("seed: '3'\n") == "f.yaml:2:7: seed: expected an integer of at least 0, got '3'; remove the quotes");
  CHECK(problem_of("seed: 010\n").find("without leading zeros") != std::string::npos);
  CHECK(problem_of("seed: 0x10\n").find("expected an integer") != std::string::npos);
  CHECK(problem_of("seed: 99999999999999999999\n").find("64 bits") != std::string::npos);
  CHECK(problem_of("seed: -x\n").find("expected an integer") != std::string::npos);
}

TEST_CASE("booleans are true or false and nothing else", "[config]") {
  CHECK(problem_of("shuffle: yes\n") == "f.yaml:2:10: shuffle: expected true or false, got 'yes'");
  CHECK(problem_of("shuffle: True\n") == "f.yaml:2:10: shuffle: expected true or false, got 'True'");
  CHECK(problem_of("shuffle: \"true\"\n") ==
        "f.yaml:2:10: shuffle: expected true or false, got 'true'; remove the quotes");
}

TEST_CASE("a wrong word gets the list and the nearest", "[config]") {
  CHECK(problem_of("mode: fp61\n") ==
        "f.yaml:2:7: mode: expected one of fp32, tf32, bf16 or fp16, got 'fp61'; did you mean 'fp16'?");
  CHECK(problem_of("mode: {a: 1}\n") == "f.yaml:2:7: mode: expected one of fp32, tf32, bf16 or fp16, got a mapping");
  CHECK(problem_of("workers: atuo\n") ==
        "f.yaml:2:10: workers: expected auto or an integer from 0 to 64, got 'atuo'; did you mean 'auto'?");
  CHECK(problem_of("workers: 65\n") == "f.yaml:2:10: workers: expected auto or an integer from 0 to 64, got 65");
}

TEST_CASE("lists are checked item by item", "[config]") {
  CHECK(problem_of("channels: [1, 0, 3]\n") == "f.yaml:2:15: channels[1]: expected an integer of at least 1, got 0");
  CHECK(problem_of("channels: []\n") == "f.yaml:2:11: channels: expected at least 1 item, got an empty list");
  CHECK(read_text("name: x\nchannels: 3\n").problems.empty());  // short for [3]
  CHECK(problem_of("channels: 0\n") == "f.yaml:2:11: channels: expected an integer of at least 1, got 0");
  CHECK(problem_of("steps:\n  - {kind: adam, beta: 2}\n") ==
        "f.yaml:3:24: steps[0].beta: expected a number of at least 0 and below 1, got 2");
  CHECK(problem_of("steps:\n  - {beta: 0.5}\n") ==
        "f.yaml:3:5: steps[0].kind: required key is missing; expected adam or sgd");
}

TEST_CASE("an unknown key gets the nearest known one", "[config]") {
  CHECK(problem_of("optimizer:\n  weigth_decay: 1\n") ==
        "f.yaml:3:3: optimizer.weigth_decay: unknown key; did you mean 'weight_decay'?");
  CHECK(problem_of("lr: 1\n") == "f.yaml:2:1: lr: unknown key; did you mean 'optimizer.lr'?");
  CHECK(problem_of("optimizer: {zzzzzz: 1}\n") ==
        "f.yaml:2:13: optimizer.zzzzzz: unknown key; known here: kind, beta, lr, weight_decay and clip");
}

TEST_CASE("a key of another kind is named as such", "[config]") {
  CHECK(problem_of("optimizer: {kind: adam, momentum: 0.5}\n") ==
        "f.yaml:2:25: optimizer.momentum: 'momentum' belongs to kind sgd; this is adam");
}

TEST_CASE("a wrong kind doesn't make its keys unknown", "[config]") {
  CHECK(problem_of("optimizer: {kind: sdg, momentum: 0.5, lr: 1}\n") ==
        "f.yaml:2:19: optimizer.kind: expected one of adam or sgd, got 'sdg'; did you mean 'sgd'?");
  CHECK(problem_of("optimizer: sdg\n") ==
        "f.yaml:2:12: optimizer.kind: expected one of adam or sgd, got 'sdg'; did you mean 'sgd'?");
}

TEST_CASE("missing keys are reported at their mapping", "[config]") {
  CHECK(problem_of("eval:\n  images: a\n") == "f.yaml:3:3: eval.labels: required key is missing: Labels.");
  CHECK(read_text("seed: 1\n").problems ==
        std::vector<std::string>{"f.yaml:1:1: name: required key is missing: Name."});
  CHECK(problem_of("optimizer: [1]\n") == "f.yaml:2:12: optimizer: expected a mapping of keys, got a list");
  CHECK(problem_of("optimizer:\n").find("leave the key out for the defaults") != std::string::npos);
}

TEST_CASE("texts may be anything but empty", "[config]") {
  CHECK(read_text("name: 123\n").value.name == "123");
  CHECK(read_text("name: ''\n").problems ==
        std::vector<std::string>{"f.yaml:1:7: name: expected a string, got an empty one"});
  CHECK(read_text("name: [a]\n").problems ==
        std::vector<std::string>{"f.yaml:1:7: name: expected a string, got a list"});
}

TEST_CASE("all mistakes are reported at once, in the file's order", "[config]") {
  const Result result = read_text(
      "seed: -1\nname: x\nmode: fp61\noptimizer: {lr: 0, momentum: 1, clip: 0}\nchannels: [x]\nbogus: 1\nseed: 2\n");
  REQUIRE(result.problems.size() == 8);
  for (std::size_t i = 0; i < 8; ++i) {
    const char* places[] = {"f.yaml:1:7: seed:",
                            "f.yaml:3:7: mode:",
                            "f.yaml:4:17: optimizer.lr:",
                            "f.yaml:4:20: optimizer.momentum:",
                            "f.yaml:4:39: optimizer.clip:",
                            "f.yaml:5:12: channels[0]:",
                            "f.yaml:6:1: bogus:",
                            "f.yaml:7:1: seed: duplicate key; the first is at line 1"};
    CHECK(result.problems[i].starts_with(places[i]));
  }
}

}  // namespace trainctl::config::read_test
