// How processes share the work: what fits together.
#include <catch2/catch.hpp>

#include "core/error.h"
#include "experiment/load.h"
#include "problem_lines.h"

namespace trainctl::experiment::distributed_rules_test {

using namespace trainctl;
using namespace trainctl::experiment;
using Catch::Matchers::Contains;

namespace {

/// All problems of an experiment with this, a line each, without the file's name.
std::string problems_with(const std::string& distributed, const std::string& more = "") {
  return problem_lines(
      "name: x\nmodel: mlp\ntrain: {steps: 100}\ndataset: synthetic_images\ndistributed: " + distributed + "\n" + more);
}

std::string offload(const std::string& stage, const std::string& options) {
  return "{kind: zero, stage: " + stage + ", offload: {" + options + "}}";
}

}  // namespace

TEST_CASE("the axes data and shard are numbers or auto, and shard is zero's", "[experiment]") {
  CHECK(problems_with("{kind: zero, data: 2, shard: 4}") == "");
  CHECK(problems_with("{kind: ddp, data: auto}") == "");
  CHECK_THAT(problems_with("{kind: ddp, shard: 4}"), Contains("shard"));
  CHECK_THAT(problems_with("{kind: zero, shard: 0}"), Contains("distributed.shard"));
  CHECK_THAT(problems_with("{kind: zero, shard_group_size: 4}"),
             Contains("distributed.shard_group_size: was renamed to 'shard'"));
}

TEST_CASE("keys of an exchange that isn't made are refused", "[experiment]") {
  for (const std::string kind : {"ddp", "local_replicas", "zero"})
    CHECK_THAT(problems_with("{kind: " + kind + ", sync_batch_norm: true, sync_buffers: average}"),
               Contains("distributed.sync_buffers: synchronised statistics are the same on every rank"));
  CHECK_THAT(problems_with("{kind: ddp, static_graph: true, pipeline: 2}"),
             Contains("5:40: distributed.static_graph: changes nothing in a pipeline"));
  CHECK(problems_with("{kind: ddp, bucket_mib: 5, pipeline: 2}") == "");
  for (const std::string key : {"backend: gloo", "network_interface: eth0"})
    for (const std::string kind : {"none", "local_replicas"})
      CHECK_THAT(problems_with("{" + key + ", kind: " + kind + "}"),
                 Contains("changes nothing while distributed.kind is " + kind));
  CHECK_THAT(problems_with("{kind: none, timeout_s: 5}"), Contains("distributed.timeout_s: changes nothing while"));
  CHECK(problems_with("{kind: local_replicas, timeout_s: 5, backend: auto}") == "");
  CHECK(problems_with("{kind: none, timeout_s: 600, network_interface: ''}") == "");
}

TEST_CASE("averages of weights go with zero", "[experiment]") {
  CHECK(problems_with("{kind: zero, stage: 2}", "optimizer: {kind: adamw, ema: {decay: 0.9}}\n") == "");
}

TEST_CASE("rules that need whole parameters say what they go with", "[experiment]") {
  const std::string muon = "optimizer: {kind: muon}\n";
  const std::string schedule_free = "optimizer: {kind: adamw_schedule_free, lr_scheduler: {warmup: 10}}\n";
  const std::string on_disk = offload("1", "optimizer: disk, path: /scratch");
  for (const std::string& rule : {muon, schedule_free}) {
    CHECK(problems_with("{kind: zero, stage: 3}", rule) == "");
    CHECK(problems_with(offload("1", "optimizer: cpu"), rule) == "");
    CHECK_THAT(problems_with(on_disk, rule), Contains("6:19: optimizer.kind") && Contains("disk brings one layer"));
  }
  CHECK(problems_with(on_disk, "optimizer: {kind: lion}\n") == "");
  CHECK_THAT(problems_with("{kind: zero}", "optimizer: {kind: lamb}\n"), Contains("lamb looks at whole parameters"));
  CHECK_THAT(problems_with("{kind: zero}", "optimizer: {kind: soap}\n"), Contains("soap looks at whole parameters"));
}

TEST_CASE("a rule that averages its weights takes no schedule that decays", "[experiment]") {
  const auto with_schedule = [](const std::string& kind) {
    return problems_with("none", "optimizer: {kind: adamw_schedule_free, lr_scheduler: {kind: " + kind + "}}\n");
  };
  CHECK(with_schedule("constant") == "");
  CHECK_THAT(with_schedule("cosine"), Contains("6:61: optimizer.lr_scheduler.kind") && Contains("take constant"));
  CHECK_THAT(with_schedule("reduce_on_plateau"), Contains("averages the weights in place of a falling learning rate"));
}

TEST_CASE("offloading is possible, and changes something", "[experiment]") {
  CHECK(problems_with(offload("1", "optimizer: cpu")) == "");
  CHECK(problems_with(offload("3", "optimizer: disk, parameters: disk, path: /scratch")) == "");
  CHECK_THAT(problems_with(offload("2", "optimizer: cpu, parameters: cpu")),
             Contains("distributed.offload.parameters") && Contains("in stage 3 alone, and stage is 2"));
  CHECK_THAT(problems_with(offload("3", "parameters: cpu")), Contains("updated where they lie"));
  CHECK_THAT(problems_with(offload("1", "optimizer: disk")),
             Contains("distributed.offload.path: disk needs a directory"));
  CHECK_THAT(problems_with(offload("1", "optimizer: cpu, path: /scratch")), Contains("offloaded to disk"));
  CHECK_THAT(problems_with(offload("1", "optimizer: cpu"), "device: cpu\n"),
             Contains("distributed.offload.optimizer: device is cpu"));
}

TEST_CASE("powersgd needs gradients of one scale", "[experiment]") {
  const std::string ddp = "{kind: ddp, gradient_compression: {kind: powersgd, rank: 2}}";
  CHECK(problems_with(ddp, "amp: {mode: bf16}\n") == "");
  CHECK_THAT(problems_with(ddp, "amp: {mode: fp16}\n"), Contains("distributed.gradient_compression: powersgd hands"));
  CHECK_THAT(problems_with("{kind: ddp, gradient_compression: {kind: powersgd, rank: 0}}"),
             Contains("compression.rank"));
  CHECK(problems_with("{kind: ddp, gradient_compression: bf16}") == "");
}

TEST_CASE("layers are put on devices in one process only", "[experiment]") {
  const auto problems = [](const std::string& distributed) {
    return problem_lines(
        "name: x\ntrain: {steps: 100}\ndataset: synthetic_images\n"
        "model: {kind: mlp, placement: [{layers: hidden*, device: 1}]}\ndistributed: " +
        distributed + "\n");
  };
  CHECK(problems("none") == "");
  CHECK(problems("auto") == "");
  CHECK_THAT(problems("ddp"), Contains("model.placement: one process has all layers"));
  CHECK_THAT(problems("{kind: auto, pipeline: 2}"), Contains("distributed.pipeline without model.placement"));
  CHECK_THAT(problems("none\ndevice: cpu"), Contains("model.placement: puts layers on GPUs, and device is cpu"));
}

}  // namespace trainctl::experiment::distributed_rules_test
