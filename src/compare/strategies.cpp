#include "compare/strategies.h"

#include <algorithm>
#include <cstdint>
#include <functional>

#include "core/error.h"
#include "core/text.h"

namespace trainctl::compare {
namespace {

using FlatConfig = std::map<std::string, std::string>;

std::string value_of(const FlatConfig& config, const std::string& key) {
  const auto found = config.find(key);
  return found == config.end() ? "" : found->second;
}

std::string set(const std::string& key, std::int64_t value) {
  return key + "=" + std::to_string(value);
}

core::ConfigError refused(const std::string& message) {
  return core::ConfigError({{.where = "--ablate", .path = "", .message = message}});
}

core::ConfigError makes_no_difference(const std::string& name, const std::string& why) {
  return refused(name + " makes no difference here: " + why);
}

Strategy mixed_precision(const FlatConfig& config) {
  const bool has_it = value_of(config, "amp.mode") != "fp32";
  return {.name = "amp",
          .on = has_it ? std::vector<std::string>{} : std::vector<std::string>{"amp.mode=bf16"},
          .off = {"amp.mode=fp32"},
          .is_on = has_it};
}

/// Toggles accumulation with an unchanged number of samples per step.
Strategy accumulation(const FlatConfig& config) {
  const std::int64_t steps = std::stoll(value_of(config, "accumulation.steps"));
  const std::string samples = value_of(config, "dataset.batch_size");
  if (samples == "auto") throw makes_no_difference("accumulation", "dataset.batch_size is auto: give it a number");
  const std::int64_t batch = std::stoll(samples);
  if (steps > 1)
    return {.name = "accumulation",
            .on = {},
            .off = {set("accumulation.steps", 1), set("dataset.batch_size", batch * steps)},
            .is_on = true};
  for (const std::int64_t parts : {4, 3, 2})
    if (batch % parts == 0)
      return {.name = "accumulation",
              .on = {set("accumulation.steps", parts), set("dataset.batch_size", batch / parts)},
              .off = {}};
  throw makes_no_difference("accumulation",
                            "a batch of " + std::to_string(batch) + " doesn't divide into micro-batches");
}

Strategy workers(const FlatConfig& config) {
  const bool has_it = value_of(config, "dataset.num_workers") != "0";
  return {.name = "workers",
          .on = has_it ? std::vector<std::string>{} : std::vector<std::string>{"dataset.num_workers=auto"},
          .off = {"dataset.num_workers=0"},
          .is_on = has_it};
}

Strategy activation_checkpointing(const FlatConfig& config) {
  const bool has_it = value_of(config, "activation_checkpointing.kind") != "none";
  return {.name = "activation_checkpointing",
          .on = has_it ? std::vector<std::string>{} : std::vector<std::string>{"activation_checkpointing=full"},
          .off = {"activation_checkpointing=none"},
          .is_on = has_it};
}

Strategy channels_last(const FlatConfig& config, Convolutions convolutions) {
  if (convolutions == Convolutions::none)
    throw makes_no_difference("channels_last",
                              "only convolutions use it, and model.kind is " + value_of(config, "model.kind"));
  return {.name = "channels_last",
          .on = {"model.memory_format=channels_last"},
          .off = {"model.memory_format=contiguous"},
          .is_on = value_of(config, "model.memory_format") != "contiguous"};  // `auto` uses it for convolutions
}

Strategy winograd(const FlatConfig& config, Convolutions convolutions) {
  if (convolutions == Convolutions::none)
    throw makes_no_difference("winograd",
                              "only convolutions use it, and model.kind is " + value_of(config, "model.kind"));
  if (const std::string mode = value_of(config, "amp.mode"); mode != "fp32")
    throw makes_no_difference("winograd", "only float32 uses it, and amp.mode is " + mode);
  return {.name = "winograd",
          .on = {"model.convolution_algorithm=auto"},
          .off = {"model.convolution_algorithm=direct"},
          .is_on = value_of(config, "model.convolution_algorithm") != "direct"};
}

Strategy fused(const FlatConfig& config) {
  const std::string value = value_of(config, "optimizer.fused");
  if (value.empty())
    throw makes_no_difference(
        "fused", "optimizer.kind " + value_of(config, "optimizer.kind") + " has no fused operator to do without");
  return {.name = "fused",
          .on = value == "true" ? std::vector<std::string>{} : std::vector<std::string>{"optimizer.fused=true"},
          .off = {"optimizer.fused=false"},
          .is_on = value == "true"};
}

struct Known {
  std::string name;
  std::function<Strategy(const FlatConfig&)> find;
};
std::vector<Known> known(Convolutions convolutions) {
  return {{"amp", mixed_precision},
          {"accumulation", accumulation},
          {"workers", workers},
          {"fused", fused},
          {"activation_checkpointing", activation_checkpointing},
          {"channels_last", [=](const FlatConfig& config) { return channels_last(config, convolutions); }},
          {"winograd", [=](const FlatConfig& config) { return winograd(config, convolutions); }}};
}

}  // namespace

std::vector<std::string> strategy_names() {
  std::vector<std::string> names;
  for (const Known& one : known(Convolutions::some)) names.push_back(one.name);
  return names;
}

std::vector<Strategy> find_strategies(std::span<const std::string> names, const FlatConfig& flat_config,
                                      Convolutions convolutions) {
  const std::string listed = "the strategies are " + core::list_words(strategy_names());
  if (names.empty()) throw refused("no strategy given; " + listed);
  const std::vector<Known> all = known(convolutions);
  std::vector<Strategy> found;
  for (const std::string& name : names) {
    const auto one = std::find_if(all.begin(), all.end(), [&](const Known& it) { return it.name == name; });
    if (name == "compile")
      throw makes_no_difference(
          name,
          "nothing traces or compiles a network; what a compiler would fuse (normalization, attention, rotary "
          "positions, SwiGLU, dropout, the optimizer's update) are kernels that every run uses");
    if (one == all.end()) {
      const std::string meant = core::nearest_word(name, strategy_names());
      throw refused("unknown strategy '" + name + "'; " + (meant.empty() ? listed : "did you mean '" + meant + "'?"));
    }
    if (std::any_of(found.begin(), found.end(), [&](const Strategy& it) { return it.name == name; }))
      throw refused(name + " is given twice");
    found.push_back(one->find(flat_config));
  }
  return found;
}

}  // namespace trainctl::compare
