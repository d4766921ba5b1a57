#include "compare/strategies.h"

#include <catch2/catch.hpp>

#include "core/error.h"

namespace trainctl::compare {
namespace {

using Assignments = std::vector<std::string>;

std::map<std::string, std::string> plain() {
  return {{"amp.mode", "fp32"},         {"accumulation.steps", "1"}, {"dataset.batch_size", "24"},
          {"dataset.num_workers", "0"}, {"model.kind", "resnet18"},  {"activation_checkpointing.kind", "none"}};
}

Strategy find(const std::string& name, const std::map<std::string, std::string>& config) {
  return find_strategies(std::vector<std::string>{name}, config, Convolutions::some).front();
}

TEST_CASE("a strategy that the experiment lacks is switched on by its line, and off as it is", "[compare]") {
  CHECK(find("amp", plain()).on == Assignments{"amp.mode=bf16"});
  CHECK(find("workers", plain()).on == Assignments{"dataset.num_workers=auto"});
  CHECK(find("activation_checkpointing", plain()).on == Assignments{"activation_checkpointing=full"});
  CHECK(find("channels_last", plain()).off == Assignments{"model.memory_format=contiguous"});
  CHECK(find("winograd", plain()).off == Assignments{"model.convolution_algorithm=direct"});
}

TEST_CASE("what the experiment has stays its own", "[compare]") {
  std::map<std::string, std::string> config = plain();
  config["amp.mode"] = "fp16";
  config["dataset.num_workers"] = "7";
  config["activation_checkpointing.kind"] = "selective_op";
  for (const char* name : {"amp", "workers", "activation_checkpointing"}) CHECK(find(name, config).on.empty());
  CHECK(find("amp", config).off == Assignments{"amp.mode=fp32"});
  config["optimizer.fused"] = "true";
  CHECK(find("fused", config).on.empty());
  CHECK(find("fused", config).off == Assignments{"optimizer.fused=false"});
}

TEST_CASE("accumulation keeps the samples of a step", "[compare]") {
  CHECK(find("accumulation", plain()).on == Assignments{"accumulation.steps=4", "dataset.batch_size=6"});
  std::map<std::string, std::string> config = plain();
  config["accumulation.steps"] = "3";
  CHECK(find("accumulation", config).on.empty());
  CHECK(find("accumulation", config).off == Assignments{"accumulation.steps=1", "dataset.batch_size=72"});
  config = plain();
  config["dataset.batch_size"] = "7";
  CHECK_THROWS_WITH(find("accumulation", config), Catch::Contains("a batch of 7"));
}

TEST_CASE("a name that is unknown, given twice, or makes no difference is refused with the reason", "[compare]") {
  const auto found = [](const std::vector<std::string>& names) { find_strategies(names, plain(), Convolutions::some); };
  CHECK_THROWS_WITH(found({"worker"}), Catch::Contains("worker"));
  CHECK_THROWS_WITH(found({"amp", "amp"}), Catch::Contains("twice"));
  CHECK_THROWS_WITH(found({"fused"}), Catch::Contains("no fused operator"));
  CHECK_THROWS_AS(found({}), core::ConfigError);
  CHECK_THROWS_WITH(found({"amp", "compile"}), Catch::Contains("compile makes no difference here: nothing"));
  CHECK_THROWS_WITH(find_strategies(std::vector<std::string>{"channels_last"}, plain(), Convolutions::none),
                    Catch::Contains("convolutions"));
}

}  // namespace
}  // namespace trainctl::compare
