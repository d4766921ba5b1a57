#include "cluster/tables.h"

#include <catch2/catch.hpp>

#include "core/error.h"

namespace trainctl::cluster {
namespace {

using Catch::Contains;

/// The text of all problems of a user's file.
std::string problems_of(const std::string& text) {
  Tables tables = builtin_tables();
  config::Problems problems;
  add_text(tables, text, "mine.yaml", problems);
  std::string all;
  for (const core::Problem& problem : problems.sorted()) all += problem.text() + "\n";
  return all;
}

template <class Call>
std::string refusal_of(const Call& call) {
  try {
    call();
  } catch (const core::ConfigError& error) {
    return error.problems().front().text();
  }
  return "";
}

TEST_CASE("every device has a network, a surface and attention in every framework", "[cluster]") {
  const Tables& tables = builtin_tables();
  REQUIRE(tables.devices.size() >= 9);
  for (const Device& device : tables.devices)
    for (const Software& software : tables.software) {
      const Cluster cluster = cluster_of(tables, {.device = device.name, .software = software.name});
      CHECK(cluster.device.sustained->bf16 > 0);
      CHECK(cluster.device.sustained->bf16 <= cluster.device.clock.bf16);
      CHECK(cluster.attention_scale > 0);
    }
}

TEST_CASE("an unknown name is refused with the nearest known one", "[cluster]") {
  const Tables& tables = builtin_tables();
  CHECK_THAT(refusal_of([&] { find_device(tables, "h10"); }), Contains("did you mean 'h100'?"));
  CHECK_THAT(refusal_of([&] { find_network(tables, "nvlink44"); }), Contains("did you mean 'nvlink4'?"));
  CHECK_THAT(refusal_of([&] { find_software(tables, "megatorn"); }), Contains("known are trainctl, "));
  CHECK(find_device(tables, "A100 80GB").name == "a100_80");
  CHECK(find_device(tables, "a100").name == "a100_80");
}

TEST_CASE("a user's file adds entries and replaces those of its names", "[cluster]") {
  Tables tables = builtin_tables();
  config::Problems problems;
  const std::size_t before = tables.networks.size();
  add_text(tables, "networks: [{name: nvlink4, domain: 4, link_gbs: 100, port_gbs: 10, source: mine}]\n", "mine.yaml",
           problems);
  add_text(tables, "networks: [{name: mine, domain: 4, link_gbs: 100, port_gbs: 10, source: mine}]\n", "mine.yaml",
           problems);
  CHECK(problems.empty());
  CHECK(tables.networks.size() == before + 1);
  CHECK(find_network(tables, "nvlink4").domain == 4);
  CHECK(find_network(tables, "mine").port_gbs == 10);
}

TEST_CASE("devices that take their rates from each other in a circle are refused", "[cluster][regression]") {
  const auto device = [](const std::string& name, const std::string& other) {
    return "  - {name: " + name + ", num_multiprocessors: 100, power_watts: 700, memory_gbs: 3000, memory_gib: 80, " +
           "peak: {bf16: 900}, clock: {bf16: 800}, sustained_of: " + other + ", network: nvlink4, source: made up}\n";
  };
  for (const std::string& text : {device("mine", "mine"), device("mine", "other") + device("other", "mine")}) {
    Tables tables = builtin_tables();
    config::Problems problems;
    add_text(tables, "devices:\n" + text, "mine.yaml", problems);
    REQUIRE(problems.sorted().empty());
    CHECK_THROWS_WITH(cluster_of(tables, {.device = "mine"}), Contains("sustained_of leads back to itself"));
  }
}

TEST_CASE("a wrong table is refused with line and column", "[cluster]") {
  CHECK_THAT(problems_of("networks:\n  - {name: mine, domain: 8, link_gbs: 0, port_gbs: 10, source: mine}\n"),
             Contains("mine.yaml:2:39: networks[0].link_gbs: expected a positive number, got 0"));
  CHECK_THAT(problems_of("devices:\n  - {name: mine}\n"), Contains("mine.yaml:2:5: devices[0]"));
  CHECK_THAT(
      problems_of("attention:\n  - {name: a, device: h100, lengths: [1, 2], forward_128: [1], backward_128: [1, 2],"
                  " forward_64: [1, 2], backward_64: [1, 2], source: mine}\n"),
      Contains("expected a rate for each of the 2 lengths, got 1"));
  CHECK_THAT(
      problems_of("attention:\n  - {name: a, device: h100, lengths: [1], forward_128: [1], backward_128: [1],"
                  " forward_64: [1], backward_64: [1], source: mine,\n     measured: [{devices: [h200], lengths: "
                  "[1, 2], forward_128: [1], backward_128: [1, 2], forward_64: [1, 2], backward_64: [1, 2]}]}\n"),
      Contains("attention[0].measured[0].forward_128: expected a rate for each of the 2 lengths, got 1"));
}

}  // namespace
}  // namespace trainctl::cluster
