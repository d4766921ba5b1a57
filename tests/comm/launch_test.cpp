#include "comm/launch/launch.h"

#include <catch2/catch.hpp>
#include <map>

#include "core/error.h"

namespace trainctl::comm {
namespace {

using Variables = std::map<std::string, std::string>;

std::optional<Launch> read(Variables variables) {
  return read_launch([variables](const std::string& name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  });
}

std::string refusal(const Variables& variables) {
  try {
    read(variables);
  } catch (const core::Error& error) {
    return error.text();
  }
  return "";
}

Variables with(Variables variables, const Variables& others) {
  for (const auto& [name, value] : others) variables[name] = value;
  return variables;
}

Variables without(Variables variables, const std::string& name) {
  variables.erase(name);
  return variables;
}

const Variables kTorchrun = {{"RANK", "3"},
                             {"LOCAL_RANK", "1"},
                             {"WORLD_SIZE", "4"},
                             {"LOCAL_WORLD_SIZE", "2"},
                             {"GROUP_RANK", "1"},
                             {"MASTER_ADDR", "node1"},
                             {"MASTER_PORT", "4242"},
                             {"TORCHELASTIC_RUN_ID", "job"},
                             {"TORCHELASTIC_RESTART_COUNT", "2"},
                             {"TORCHELASTIC_USE_AGENT_STORE", "True"}};
const Variables kOpenMpi = {{"OMPI_COMM_WORLD_RANK", "1"},       {"OMPI_COMM_WORLD_SIZE", "2"},
                            {"OMPI_COMM_WORLD_LOCAL_RANK", "1"}, {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                            {"PMIX_NAMESPACE", "12345/1"},       {"PMIX_SERVER_TMPDIR", "/tmp/ompi"}};
const Variables kSlurm = {{"SLURM_JOB_ID", "77"},
                          {"SLURM_STEP_ID", "0"},
                          {"SLURM_PROCID", "5"},
                          {"SLURM_NTASKS", "7"},
                          {"SLURM_LOCALID", "1"},
                          {"SLURM_NODEID", "1"},
                          {"SLURM_NNODES", "2"},
                          {"SLURM_STEP_TASKS_PER_NODE", "4,3"},
                          {"SLURM_STEP_NODELIST", "gpu[07-08]"},
                          {"SLURM_NODELIST", "gpu[07-09]"}};

TEST_CASE("without a launcher there is no launch", "[comm]") {
  REQUIRE(!read({}));
  REQUIRE(!read({{"MASTER_ADDR", "somewhere"}, {"OMP_NUM_THREADS", "2"}}));
  REQUIRE(!read({{"SLURM_JOB_ID", "1"}, {"SLURM_NTASKS", "1"}}));
  REQUIRE(!read({{"RANK", ""}, {"WORLD_SIZE", ""}}));
}

TEST_CASE("torchrun's environment is read", "[comm]") {
  const Launch launch = *read(kTorchrun);
  REQUIRE(launch.launcher == "torchrun");
  REQUIRE(launch.rank == 3);
  REQUIRE(launch.world_size == 4);
  REQUIRE(launch.local_rank == 1);
  REQUIRE(launch.local_world_size == 2);
  REQUIRE(launch.node_rank == 1);
  REQUIRE(launch.address == "node1");
  REQUIRE(launch.port == 4242);
  REQUIRE(launch.store_is_served);
  REQUIRE(launch.store_prefix == "/worker/attempt_2");
  REQUIRE(launch.restart_count == 2);
  REQUIRE(launch.has_several_nodes());
  const Launch own_store = *read(with(kTorchrun, {{"TORCHELASTIC_USE_AGENT_STORE", "False"}}));
  REQUIRE(!own_store.store_is_served);
  REQUIRE(own_store.store_prefix.empty());
}

TEST_CASE("each of torchrun's variables is missed by name", "[comm]") {
  for (const char* name :
       {"RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_RANK", "MASTER_ADDR", "MASTER_PORT"}) {
    const std::string text = refusal(without(kTorchrun, name));
    REQUIRE_THAT(text, Catch::Contains("torchrun, but " + std::string(name) + " is not set"));
    REQUIRE_THAT(text, Catch::Contains("try: "));
  }
}

TEST_CASE("Open MPI's ranks on one node agree on a port by a file", "[comm]") {
  const Launch launch = *read(kOpenMpi);
  REQUIRE(launch.launcher == "Open MPI");
  REQUIRE(launch.rank == 1);
  REQUIRE(launch.address == "127.0.0.1");
  REQUIRE(launch.port == 0);
  REQUIRE(launch.port_file.starts_with("/tmp/ompi/trainctl-"));
  REQUIRE(launch.port_file.ends_with("12345_1.port"));
  const Launch named = *read(with(kOpenMpi, {{"MASTER_ADDR", "10.0.0.1"}}));
  REQUIRE(named.address == "10.0.0.1");
  REQUIRE(named.port == 29500);
  REQUIRE(named.port_file.empty());
}

TEST_CASE("Open MPI on several nodes needs MASTER_ADDR", "[comm]") {
  const Variables nodes = with(kOpenMpi, {{"OMPI_COMM_WORLD_LOCAL_SIZE", "1"}, {"OMPI_COMM_WORLD_LOCAL_RANK", "0"}});
  REQUIRE_THAT(refusal(nodes), Catch::Contains("MASTER_ADDR") && Catch::Contains("mpirun -x MASTER_ADDR"));
  REQUIRE(read(with(nodes, {{"MASTER_ADDR", "node1"}, {"MASTER_PORT", "5000"}}))->port == 5000);
}

TEST_CASE("MPICH's and Intel MPI's environment is read", "[comm]") {
  const Launch launch =
      *read({{"PMI_RANK", "1"}, {"PMI_SIZE", "4"}, {"MPI_LOCALRANKID", "1"}, {"MPI_LOCALNRANKS", "4"}});
  REQUIRE(launch.rank == 1);
  REQUIRE(launch.world_size == 4);
  REQUIRE(launch.local_world_size == 4);
  REQUIRE(!launch.port_file.empty());
  REQUIRE_THAT(refusal({{"PMI_SIZE", "2"}}), Catch::Contains("PMI_RANK is not set"));
}

TEST_CASE("Slurm's environment is read", "[comm]") {
  const Launch launch = *read(kSlurm);
  REQUIRE(launch.launcher == "Slurm");
  REQUIRE(launch.rank == 5);
  REQUIRE(launch.world_size == 7);
  REQUIRE(launch.local_rank == 1);
  REQUIRE(launch.local_world_size == 3);
  REQUIRE(launch.node_rank == 1);
  REQUIRE(launch.address == "gpu07");
  REQUIRE(launch.port == 15'000 + 77 * 31);
  REQUIRE(read(with(kSlurm, {{"SLURM_STEP_TASKS_PER_NODE", "4(x2)"}, {"SLURM_NTASKS", "8"}}))->local_world_size == 4);
  REQUIRE(read(with(kSlurm, {{"MASTER_ADDR", "head"}}))->address == "head");
  REQUIRE_THAT(refusal(without(kSlurm, "SLURM_LOCALID")), Catch::Contains("SLURM_LOCALID is not set"));
}

TEST_CASE("an allocation whose tasks nobody started is refused", "[comm]") {
  const std::string text = refusal({{"SLURM_JOB_ID", "7"}, {"SLURM_NTASKS", "4"}, {"SLURM_PROCID", "0"}});
  REQUIRE_THAT(text, Catch::Contains("SLURM_NTASKS") && Catch::Contains("srun trainctl train"));
}

TEST_CASE("the first host of Slurm's lists", "[comm]") {
  REQUIRE(first_host("node[07-12,15],login") == "node07");
  REQUIRE(first_host("a,b") == "a");
  REQUIRE(first_host("rack[2-3]-n[01-04]") == "rack2-n01");
  REQUIRE(first_host("node3") == "node3");
  REQUIRE(first_host("node[4]") == "node4");
  REQUIRE(first_host("broken[").empty() == false);
  REQUIRE(first_host("").empty());
}

TEST_CASE("RANK and WORLD_SIZE alone are one process a node", "[comm]") {
  const Variables pod = {{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "job-0"}, {"MASTER_PORT", "23456"}};
  const Launch launch = *read(pod);
  REQUIRE(launch.node_rank == 1);
  REQUIRE(launch.local_world_size == 1);
  REQUIRE(launch.has_several_nodes());
  for (const char* name : {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"})
    REQUIRE_THAT(refusal(without(pod, name)), Catch::Contains(std::string(name) + " is not set"));
  REQUIRE_THAT(refusal(with(pod, {{"LOCAL_RANK", "0"}})), Catch::Contains("LOCAL_WORLD_SIZE is not"));
}

TEST_CASE("ranks out of their range, and what is no number, are refused by name", "[comm]") {
  REQUIRE_THAT(refusal(with(kTorchrun, {{"RANK", "4"}})), Catch::Contains("RANK is 4, but WORLD_SIZE is 4"));
  REQUIRE_THAT(refusal(with(kTorchrun, {{"LOCAL_RANK", "2"}})),
               Catch::Contains("LOCAL_RANK is 2, but LOCAL_WORLD_SIZE is 2"));
  REQUIRE_THAT(refusal(with(kTorchrun, {{"WORLD_SIZE", "4x"}})), Catch::Contains("WORLD_SIZE is '4x'"));
  REQUIRE_THAT(refusal(with(kTorchrun, {{"MASTER_PORT", "70000"}})), Catch::Contains("MASTER_PORT is 70000"));
  REQUIRE_THAT(refusal(with(kTorchrun, {{"RANK", "-1"}})), Catch::Contains("RANK is '-1'"));
  REQUIRE_THAT(refusal(with(kTorchrun, {{"WORLD_SIZE", "1000000"}})),
               Catch::Contains("WORLD_SIZE is 1000000, but a job has at most 100000 ranks"));
}

TEST_CASE("launchers that contradict each other are refused", "[comm]") {
  const std::string text = refusal(with(kOpenMpi, {{"RANK", "0"}, {"WORLD_SIZE", "2"}}));
  REQUIRE_THAT(text, Catch::Contains("RANK is 0, but Open MPI says 1 (OMPI_COMM_WORLD_RANK)"));
  REQUIRE(read(with(kOpenMpi, {{"RANK", "1"}, {"WORLD_SIZE", "2"}}))->launcher == "Open MPI");
  // torchrun started by mpirun or srun, once a node.
  REQUIRE(read(with(kTorchrun, kOpenMpi))->launcher == "torchrun");
  REQUIRE(read(with(kTorchrun, kSlurm))->launcher == "torchrun");
  REQUIRE_THAT(refusal(with(kSlurm, {{"WORLD_SIZE", "2"}})), Catch::Contains("WORLD_SIZE is 2, but Slurm says 7"));
}

}  // namespace
}  // namespace trainctl::comm
