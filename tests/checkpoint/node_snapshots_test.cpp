#include "checkpoint/node_snapshots.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>

#include "checkpoint/checkpoint_support.h"
#include "checkpoint/ranks.h"
#include "support/temporary_directory.h"

#include <catch2/catch.hpp>  // after LibTorch, which has a CHECK too

namespace trainctl::checkpoint {
namespace {

namespace fs = std::filesystem;
using Catch::Matchers::Contains;
using testing::info_of;
using testing::names_in;
using testing::on_ranks;
using testing::state_of;
using testing::tells;
using testing::TemporaryDirectory;

constexpr std::int64_t kSnapshotElements = 700'000;

/// Members on two machines, or more.
class OnNodes final : public comm::Group {
 public:
  OnNodes(comm::Group& inner, std::vector<std::int64_t> nodes) : inner_(inner), nodes_(std::move(nodes)) {}
  std::int64_t rank() const override { return inner_.rank(); }
  std::int64_t size() const override { return inner_.size(); }
  std::unique_ptr<comm::Work> all_reduce(at::Tensor tensor, comm::Reduce reduce) override {
    return inner_.all_reduce(tensor, reduce);
  }
  std::unique_ptr<comm::Work> all_gather(at::Tensor all, at::Tensor mine) override {
    return inner_.all_gather(all, mine);
  }
  std::unique_ptr<comm::Work> reduce_scatter(at::Tensor mine, at::Tensor all) override {
    return inner_.reduce_scatter(mine, all);
  }
  std::unique_ptr<comm::Work> broadcast(at::Tensor tensor, std::int64_t root) override {
    return inner_.broadcast(tensor, root);
  }
  std::unique_ptr<comm::Work> all_to_all(at::Tensor all, at::Tensor mine) override {
    return inner_.all_to_all(all, mine);
  }
  std::unique_ptr<comm::Work> isend(at::Tensor tensor, std::int64_t to) override { return inner_.isend(tensor, to); }
  std::unique_ptr<comm::Work> irecv(at::Tensor tensor, std::int64_t from) override {
    return inner_.irecv(tensor, from);
  }
  void barrier() override { inner_.barrier(); }
  const std::vector<std::int64_t>& nodes() const override { return nodes_; }
  std::unique_ptr<comm::Group> split(const std::string& name, const std::vector<std::int64_t>& members) override {
    return inner_.split(name, members);
  }

 private:
  comm::Group& inner_;
  std::vector<std::int64_t> nodes_;
};

/// What each rank has for itself alone.
void add_part(ShownState& state, const comm::Group& group, at::Tensor& stretch) {
  stretch = at::full({100}, static_cast<double>(group.rank()));
  state.part("model.part", stretch, {.shape = {100 * group.size()}, .strides = {1}, .offset = 100 * group.rank()});
}

enum class Sharding { none, some };

/// Two ranks on each of two nodes, whose directories are `nodes`.
void save_on_two_nodes(const std::vector<fs::path>& nodes, Sharding sharding,
                       std::initializer_list<std::int64_t> steps) {
  on_ranks(4, [&](comm::Group& members) {
    OnNodes group(members, {0, 0, 1, 1});
    NodeSnapshots snapshots(nodes[static_cast<std::size_t>(group.rank() / 2)], 0, group);
    for (const std::int64_t step : steps) {
      ShownState state = state_of(step, kSnapshotElements);
      at::Tensor stretch;
      if (sharding == Sharding::some) add_part(state, group, stretch);
      snapshots.save(state, info_of(step));
    }
  });
}

TEST_CASE("the newest two snapshots are kept, and none when a run has ended", "[checkpoint]") {
  const TemporaryDirectory memory;
  on_ranks(2, [&](comm::Group& group) {
    NodeSnapshots snapshots(memory / "run", 0, group);
    for (const std::int64_t step : {2, 4, 6, 8}) snapshots.save(state_of(step, kSnapshotElements), info_of(step));
    group.barrier();
    const std::set<std::string> names = names_in(memory / "run");
    if (!names.contains("step_00000006") || names.size() > 2) throw std::runtime_error("others are kept");
    const SnapshotSearch search = find_snapshot(memory / "run", 3, group);
    if (search.found->step < 6) throw std::runtime_error("an old snapshot is found");
    snapshots.remove();
    group.barrier();
    if (has_snapshots(memory / "run")) throw std::runtime_error("a snapshot is left");
  });
}

TEST_CASE("what all ranks have survives a node, and is sent to the one that takes its place", "[checkpoint]") {
  const TemporaryDirectory first, second;
  save_on_two_nodes({first / "run", second / "run"}, Sharding::none, {2, 4});
  fs::remove_all(first / "run");
  on_ranks(3, [&](comm::Group& members) {  // node 1, and a new one with two ranks
    OnNodes group(members, {1, 0, 0});
    const fs::path own = group.rank() == 0 ? second / "run" : first / "run";
    const SnapshotSearch search = find_snapshot(own, 0, group);
    if (!search.found || search.found->step != 4) throw std::runtime_error("the snapshot isn't found");
    const Checkpoint checkpoint(search.found->parts);
    if (checkpoint.info().step != 4 || checkpoint.read_whole().at("model.fc.weight")[7].item<double>() != 4)
      throw std::runtime_error("the snapshot isn't whole");
  });
}

TEST_CASE("no snapshot is looked for, or written, where another user could have left a link",
          "[checkpoint][security]") {
  const TemporaryDirectory memory, elsewhere;
  save_on_two_nodes({elsewhere / "run", elsewhere / "run"}, Sharding::none, {2});
  const fs::path all_runs = memory / "all";
  fs::create_directory(all_runs);
  const auto expect_refusal = [&](const std::string& words) {
    CHECK_THROWS_WITH(has_snapshots(all_runs / "run"), Catch::Contains(words));
    CHECK_THROWS_WITH(on_ranks(1, [&](comm::Group& group) { find_snapshot(all_runs / "run", 0, group); }),
                      Catch::Contains(words));
    CHECK_THROWS_WITH(on_ranks(1, [&](comm::Group& group) { NodeSnapshots(all_runs / "run", 0, group); }),
                      Catch::Contains(words));
  };
  fs::create_directory_symlink(elsewhere / "run", all_runs / "run");
  expect_refusal("run is not a directory");
  fs::permissions(all_runs, fs::perms::all);
  expect_refusal("may be written to by other users");
  fs::permissions(all_runs, fs::perms::owner_all);
  fs::remove(all_runs / "run");
  fs::create_directory(all_runs / "run");
  fs::permissions(all_runs / "run", fs::perms::all);
  expect_refusal("may be written to by other users");
  CHECK(has_snapshots(elsewhere / "run"));
}

TEST_CASE("parts of a lost node are missed and named; those of living ones are brought together", "[checkpoint]") {
  const TemporaryDirectory first, second;
  save_on_two_nodes({first / "run", second / "run"}, Sharding::some, {2, 4});
  const auto search = [&](const std::vector<std::int64_t>& nodes) {
    std::vector<SnapshotSearch> found(nodes.size());
    on_ranks(static_cast<std::int64_t>(nodes.size()), [&](comm::Group& members) {
      OnNodes group(members, nodes);
      const auto rank = static_cast<std::size_t>(group.rank());
      found[rank] = find_snapshot(nodes[rank] == 0 ? first / "run" : second / "run", 0, group);
      if (found[rank].found &&
          Checkpoint(found[rank].found->parts).read_whole().at("model.part")[399].item<double>() != 3)
        throw std::runtime_error("the snapshot has other values");
    });
    return found;
  };
  fs::remove_all(first / "run" / "step_00000004");
  for (const SnapshotSearch& each : search({0, 1})) {
    REQUIRE(each.found);
    CHECK(each.found->step == 2);
    REQUIRE(each.passed_over.size() == 1);
    CHECK_THAT(each.passed_over[0], Contains("the snapshot of step 4 lacks the parts of ranks 0 and 1"));
  }
  fs::remove_all(first / "run");
  fs::remove(second / "run" / "step_00000002" / "part_00001_of_00004.json");
  fs::remove(second / "run" / "step_00000002" / "part_00002_of_00004.json");
  for (const SnapshotSearch& each : search({1, 1})) {
    CHECK_FALSE(each.found);
    CHECK(each.passed_over.size() == 2);
  }
}

TEST_CASE("parts of different starts of a job are never mixed", "[checkpoint]") {
  const TemporaryDirectory first, second;
  save_on_two_nodes({first / "run", second / "run"}, Sharding::some, {2});
  const fs::path part = first / "run" / "step_00000002" / "part_00002_of_00004.json";
  const std::string old = core::read_file(part);
  save_on_two_nodes({first / "run", second / "run"}, Sharding::some, {2});
  std::ofstream(part) << old;  // as if that rank had been killed before it wrote
  on_ranks(4, [&](comm::Group& members) {
    OnNodes group(members, {0, 0, 1, 1});
    const SnapshotSearch search = find_snapshot(group.rank() < 2 ? first / "run" : second / "run", 0, group);
    if (search.found) throw std::runtime_error("a mixture is found");
  });
}

TEST_CASE("a snapshot that can't be written is told, and the one before it kept", "[checkpoint]") {
  const TemporaryDirectory memory;
  on_ranks(2, [&](comm::Group& group) {
    NodeSnapshots snapshots(memory / "run", 0, group);
    std::string told;
    snapshots.on_failure = [&](const std::string& what) { told = what; };
    snapshots.save(state_of(1), info_of(1));
    group.barrier();
    if (group.rank() == 0) {
      fs::create_directories(memory / "run");
      std::ofstream(memory / "run" / "step_00000002") << "in the way";
    }
    group.barrier();
    ShownState state = state_of(2);
    snapshots.save(state, info_of(2));
    snapshots.save(state_of(3), info_of(3));
    group.barrier();
    if (told.find("the snapshot of step 2 is left out") == std::string::npos && group.rank() == 1)
      throw std::runtime_error("the failure isn't told: " + told);
    if (!fs::exists(memory / "run" / "step_00000001")) throw std::runtime_error("the one before it is gone");
    group.barrier();
  });
}

}  // namespace
}  // namespace trainctl::checkpoint
