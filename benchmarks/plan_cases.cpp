// Predicts steps of cases that standard input gives, one JSON document for each line, and writes one for each: the
// figures, or {"error": …}.
// benchmarks/plan_published.py makes the cases of published runs.
#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>

#include "cluster/memory.h"
#include "cluster/step.h"
#include "cluster/tables.h"
#include "config/parse.h"
#include "config/read.h"

namespace {

using namespace trainctl;

std::string text_at(const config::Node& node, std::string_view key) {
  const config::Node* found = node.find(key);
  return found == nullptr ? "" : found->text;
}

template <class T>
void read_if_there(const config::Node& node, std::string_view key, T& value, config::Problems& problems) {
  if (const config::Node* found = node.find(key)) config::read_into(config::shape_of<T>(), *found, &value, problems);
}

nlohmann::json predict(const std::string& line, const cluster::Tables& tables) {
  config::Problems problems;
  const std::optional<config::Node> node =
      config::parse(line, {.kind = config::OriginKind::file, .source = "case", .line = 1, .column = 1}, problems);
  problems.throw_if_any();
  cluster::Transformer model;
  cluster::Layout layout;
  read_if_there(*node, "model", model, problems);
  read_if_there(*node, "layout", layout, problems);
  cluster::Software software = cluster::find_software(tables, text_at(*node, "software"));
  read_if_there(*node, "kernels", software.kernels, problems);
  read_if_there(*node, "communication", software.communication, problems);
  read_if_there(*node, "memory", software.memory, problems);
  problems.throw_if_any();
  cluster::Cluster machines =
      cluster::cluster_of(tables, {.device = text_at(*node, "device"), .network = text_at(*node, "network")}, software);
  if (const std::string port = text_at(*node, "port_gbs"); !port.empty()) machines.network.port_gbs = std::stod(port);
  const cluster::Setup setup{.model = model, .layout = layout, .cluster = machines};
  const cluster::StepTime step = cluster::step_time(setup);
  return {{"step_s", step.total},
          {"pipeline_s", step.pipeline()},
          {"copies_s", step.exposed_copies + step.exposed_tied},
          {"optimizer_s", step.optimizer},
          {"memory_bytes", cluster::peak_memory(setup).total()},
          {"first_rank_memory_bytes", cluster::memory_of_ranks(setup).front().total()}};
}

/// Predicts a case, or says why it can't be predicted.
nlohmann::json answer(const std::string& line, const cluster::Tables& tables) {
  try {
    return predict(line, tables);
  } catch (const core::ConfigError& error) {
    return {{"error", error.problems().front().text()}};
  } catch (const std::exception& error) {
    return {{"error", error.what()}};
  }
}

}  // namespace

int main(int argc, char** argv) {
  try {
    cluster::Tables tables = cluster::builtin_tables();
    for (int i = 1; i < argc; ++i) cluster::add_file(tables, argv[i]);
    for (std::string line; std::getline(std::cin, line);) std::cout << answer(line, tables).dump() << "\n";
    return 0;
  } catch (const core::ConfigError& error) {
    for (const core::Problem& problem : error.problems()) std::fprintf(stderr, "%s\n", problem.text().c_str());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
  }
  return 1;
}
