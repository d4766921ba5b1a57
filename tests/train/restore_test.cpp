#include "train/run/restore.h"

#include <fstream>

#include "checkpoint/node_snapshots.h"
#include "core/error.h"
#include "ranks.h"
#include "train/loop/trainer.h"
#include "train/run/run_directory.h"

namespace trainctl::train {

using namespace testing;

namespace {

namespace fs = std::filesystem;

struct Layout {
  std::int64_t world_size = 1;
  distributed::DistributedKindConfig how = distributed::DdpConfig{};
};

distributed::DistributedKindConfig zero(std::int64_t stage) {
  distributed::ZeroConfig config;
  config.stage = stage;
  return config;
}

/// Ten steps, saved as that of step 10.
MapState train_and_save(Setting setting, const Layout& layout, const fs::path& directory) {
  setting.how = layout.how;
  MapState saved;
  on_ranks(layout.world_size, [&](std::size_t rank, comm::Group& group) {
    const std::unique_ptr<Run> run = build_rank(setting, layout.world_size, group);
    ten_steps(*run, at::kFloat);
    checkpoint::Saver saver(directory, {}, &group);
    checkpoint::ShownState shown;
    run->visit_state(shown);
    saver.save(shown, {.step = 10, .data_fingerprint = run->data.fingerprint});
    saver.finish();
    MapState state = state_of(*run);
    if (rank == 0) saved = std::move(state);
  });
  return saved;
}

MapState restored(Setting setting, const Layout& layout, const fs::path& step_directory) {
  setting.how = layout.how;
  MapState again;
  on_ranks(layout.world_size, [&](std::size_t rank, comm::Group& group) {
    const std::unique_ptr<Run> run = build_rank(setting, layout.world_size, group);
    lay_out(*run);
    EventLog log;
    restore(*run, step_directory, {}, log);
    for (const tracking::Notice& notice : log.all<tracking::Notice>())
      if (notice.level != tracking::Level::info) throw std::runtime_error(notice.text);
    MapState state = state_of(*run);
    if (rank == 0) again = std::move(state);
  });
  return again;
}

/// A convolution that lies channels last, BatchNorm, a head.
Setting images() {
  return {.batch_norm = true};
}

fs::path step_10(const TemporaryDirectory& directory) {
  return directory.path() / "step_00000010";
}

}  // namespace

TEST_CASE("state saved on 4 ranks restores exactly on 1, 2, 3 and 8, whatever the layouts", "[train][dist]") {
  for (const distributed::DistributedKindConfig& from : kinds()) {
    const TemporaryDirectory directory;
    const std::vector<Setting> one{{.language_model = true}};  // GCC 12 takes a lone one for uninitialised
    const Setting& setting = one.front();
    const MapState saved = train_and_save(setting, {4, from}, directory.path());
    for (const std::int64_t world_size : {1, 2, 3, 8})
      for (const distributed::DistributedKindConfig& to : kinds()) {
        CAPTURE(from.kind(), world_size, to.kind());
        CHECK(restored(setting, {world_size, to}, step_10(directory)).equals(saved));
      }
  }
}

TEST_CASE("state saved alone restores on ranks, and theirs alone, with running statistics", "[train][dist]") {
  const std::vector<Layout> layouts{{1}, {3, zero(3)}, {2, distributed::LocalReplicasConfig{}}, {2}, {4, zero(2)}};
  for (const Layout& from : layouts) {
    const TemporaryDirectory directory;
    const MapState saved = train_and_save(images(), from, directory.path());
    for (const Layout& to : layouts) {
      CAPTURE(from.world_size, to.world_size, to.how.kind());
      CHECK(restored(images(), to, step_10(directory)).equals(saved));
    }
  }
}

TEST_CASE("a run goes on bit for bit from its ranks' checkpoint", "[train][dist]") {
  for (const distributed::DistributedKindConfig& how : kinds()) {
    CAPTURE(how.kind());
    const auto train = [&](const fs::path& directory, std::int64_t steps, const std::optional<fs::path>& from) {
      std::vector<at::Tensor> weights;
      on_ranks(2, [&](std::size_t rank, comm::Group& group) {
        std::vector<tracking::Notice> notices;
        experiment::Experiment experiment = experiment_of({.language_model = true, .dropout = 0.1, .how = how}, 2);
        experiment.train.steps = steps;
        experiment.checkpoint.every = 5;
        experiment.optimizer.lr_scheduler.shape = optimizer::ConstantScheduleConfig{};
        const std::unique_ptr<Run> run = build(experiment, notices, {.group = &group, .local_world_size = 2});
        EventLog log;
        const StopSignal stop;
        if (from) restore(*run, *from, {}, log);
        Trainer(*run, log, stop, {.run_directory = directory, .config = {}}).run();
        const std::vector<at::Tensor> mine = whole_weights(*run);
        if (rank == 0) weights = mine;
      });
      return weights;
    };
    const TemporaryDirectory whole, half;
    const std::vector<at::Tensor> uninterrupted = train(whole.path(), 10, {});
    CHECK(largest_difference(uninterrupted, train(half.path(), 10, whole.path() / "checkpoints" / "step_00000005")) ==
          0);
  }
}

TEST_CASE("layers unfrozen at a resume begin anew on ranks with parts of the model", "[train][dist][regression]") {
  const std::vector<Setting> settings{{.language_model = true, .how = zero(1)},
                                      {.language_model = true, .how = zero(3)},
                                      {.micro_batches = 2, .language_model = true, .pipeline = 2}};
  for (const Setting& setting : settings) {
    CAPTURE(setting.how.kind(), setting.pipeline);
    const TemporaryDirectory directory;
    Setting frozen = setting;
    frozen.freeze = {"h.2"};
    const MapState saved = train_and_save(frozen, {2, setting.how}, directory.path());
    MapState again;
    std::string told;  // on the first rank, which has no part of the layer in a pipeline
    on_ranks(2, [&](std::size_t rank, comm::Group& group) {
      const std::unique_ptr<Run> run = build_rank(setting, 2, group);
      lay_out(*run);
      EventLog log;
      restore(*run, step_10(directory), {}, log);
      MapState state = state_of(*run);
      if (rank != 0) return;
      again = std::move(state);
      for (const tracking::Notice& notice : log.all<tracking::Notice>()) told += notice.text + "\n";
    });
    CHECK_THAT(told, Catch::Contains("begun here: optimizer of transformer.h.2."));
    CHECK(again.tensors.size() > saved.tensors.size());
    for (const auto& [name, tensor] : again.tensors) {
      CAPTURE(name);
      CHECK(tensor.equal(saved.tensors.contains(name) ? saved.tensors.at(name) : tensor.new_zeros(tensor.sizes())));
    }
  }
}

TEST_CASE("where one rank finds a part damaged, all go back to the checkpoint before", "[train][dist]") {
  const TemporaryDirectory directory;
  Setting setting;
  setting.how = zero(3);
  std::vector<std::int64_t> steps(3);
  std::vector<std::string> told(3);
  on_ranks(3, [&](std::size_t rank, comm::Group& group) {
    const std::unique_ptr<Run> run = build_rank(setting, 3, group);
    ten_steps(*run, at::kFloat);
    checkpoint::Saver saver(directory.path(), {}, &group);
    for (const std::int64_t step : {5, 10}) {
      run->step = step;
      checkpoint::ShownState shown;
      run->visit_state(shown);
      saver.save(shown, {.step = step, .data_fingerprint = run->data.fingerprint});
    }
    saver.finish();
    if (rank == 0) {
      std::fstream file(step_10(directory) / "part_00002_of_00003.safetensors", std::ios::in | std::ios::out);
      file.seekp(-1, std::ios::end).put('x');
    }
    group.barrier();
    std::vector<ResumePoint> points;
    for (const checkpoint::Found& found : checkpoint::find_complete(directory.path()))
      points.push_back({.step_directory = found.path, .step = found.step});
    EventLog log;
    restore_first(*run, points, {}, log);
    steps[rank] = run->step;
    told[rank] = log.all<tracking::Notice>().back().text;
  });
  CHECK(steps == std::vector<std::int64_t>(3, 5));
  for (const std::string& text : told)
    CHECK_THAT(text, Catch::Contains("going back to") && Catch::Contains("step_00000005"));
}

TEST_CASE("a run that begins anew in a directory has no snapshots of the run before", "[train]") {
  const TemporaryDirectory directory, memory;
  const checkpoint::SnapshotConfig config{.every = 2, .path = memory.path().string()};
  const auto place = [&] {
    const DirectoryLock lock(directory.path() / "run");
    return checkpoint::snapshot_directory(config, directory.path() / "run");
  };
  const fs::path before = place();
  CHECK(place() == before);
  fs::remove_all(directory.path() / "run");
  CHECK(place() != before);
}

TEST_CASE("a run goes on from the newest snapshot of its nodes, and the last one is gone when it ends",
          "[train][dist]") {
  const TemporaryDirectory directory, memory;
  const checkpoint::SnapshotConfig config{.every = 2, .path = memory.path().string()};
  const fs::path kept = checkpoint::snapshot_directory(config, directory.path());
  for (const distributed::DistributedKindConfig& how : kinds()) {
    CAPTURE(how.kind());
    on_ranks(2, [&](std::size_t rank, comm::Group& group) {
      std::vector<tracking::Notice> notices;
      experiment::Experiment experiment = experiment_of({.how = how}, 2);
      experiment.train.steps = 7;
      experiment.checkpoint.in_memory = config;
      const std::unique_ptr<Run> run = build(experiment, notices, {.group = &group, .local_world_size = 2});
      EventLog log;
      const StopSignal stop;
      std::vector<at::Tensor> at_six;
      TrainerOptions options{.run_directory = directory.path(), .config = {}};
      options.on_step = [&](std::int64_t step) {
        if (step == 6) at_six = whole_weights(*run);
        if (step == 7) throw core::Error("killed");
      };
      try {
        Trainer(*run, log, stop, options).run();
      } catch (const core::Error&) {
      }
      group.barrier();
      const auto points = agree_on_points({.takes_newest = true, .snapshots = kept}, group, notices);
      if (points.size() != 1 || points[0].step != 6) throw std::runtime_error("the snapshot isn't found");
      const std::unique_ptr<Run> again = build(experiment, notices, {.group = &group, .local_world_size = 2});
      restore_first(*again, points, {}, log);
      if (again->step != 6 || largest_difference(at_six, whole_weights(*again)) != 0)
        throw std::runtime_error("the snapshot has other weights");
      Trainer(*again, log, stop, {.run_directory = directory.path(), .config = {}}).run();
      if (rank == 0 && checkpoint::has_snapshots(kept)) throw std::runtime_error("a snapshot is left");
    });
  }
}

}  // namespace trainctl::train
