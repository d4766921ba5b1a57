#include "train/run/run_directory.h"

#include <catch2/catch.hpp>

#include "core/error.h"
#include "core/file.h"
#include "small_run.h"
#include "train/loop/trainer.h"

namespace trainctl::train {

using namespace testing;
namespace fs = std::filesystem;

namespace {

/// Runs happen below the current directory.
class InTemporaryDirectory {
 public:
  InTemporaryDirectory() { fs::current_path(directory_.path()); }
  ~InTemporaryDirectory() { fs::current_path(before_); }

 private:
  fs::path before_ = fs::current_path();
  TemporaryDirectory directory_;
};

/// Checkpoints of steps 5, 10 and 15.
void train_fifteen_steps(const fs::path& directory) {
  experiment::Experiment experiment = small_experiment();
  experiment.train.steps = 15;
  experiment.checkpoint.every = 5;
  experiment.checkpoint.keep_last = 3;
  const std::unique_ptr<Run> run = build_run(experiment);
  EventLog log;
  const StopSignal stop;
  Trainer(*run, log, stop, {.run_directory = directory, .config = {}}).run();
}

fs::path step(const fs::path& directory, int number) {
  return directory / "checkpoints" / ("step_000000" + std::string(number < 10 ? "0" : "") + std::to_string(number));
}

void damage(const fs::path& step_directory) {
  for (const fs::directory_entry& entry : fs::directory_iterator(step_directory))
    if (entry.is_regular_file()) fs::resize_file(entry.path(), fs::file_size(entry.path()) / 2);
}

std::string all_of(const std::vector<tracking::Notice>& notices) {
  std::string text;
  for (const tracking::Notice& notice : notices) text += notice.text + "\n";
  return text;
}

}  // namespace

TEST_CASE("a damaged newest checkpoint is passed over for the one before, and that is said", "[train]") {
  const TemporaryDirectory directory;
  train_fifteen_steps(directory.path());
  damage(step(directory.path(), 15));
  const RunDirectory chosen =
      choose_run_directory({.name = "x", .run_dir = directory.path().string(), .resume = "auto", .config_hash = "1"});
  REQUIRE(chosen.resume_from);
  CHECK(chosen.resume_from->filename() == "step_00000010");
  REQUIRE(chosen.notices.size() == 2);
  CHECK(chosen.notices[0].level == tracking::Level::warning);
  CHECK_THAT(all_of(chosen.notices), Catch::Contains("a checkpoint is passed over: ") &&
                                         Catch::Contains("step_00000015") && Catch::Contains("resuming ") &&
                                         Catch::Contains("step_00000010"));
}

TEST_CASE("a job that its launcher starts again goes on where it was, whatever it was told at first", "[train]") {
  const InTemporaryDirectory here;
  const RunDirectoryRequest request{
      .name = "x", .run_dir = "", .resume = "never", .config_hash = "1", .launchers = {"node1/800", "node2/300"}};
  fs::path path;
  {
    const RunDirectory first = choose_run_directory(request);
    path = first.path;
    CHECK_FALSE(first.job);
    write_launch_record(path, {.launchers = request.launchers, .resumed_from = "", .global_batch = 48});
  }
  RunDirectoryRequest again = request;
  again.launchers = {"node2/300", "node3/100"};  // a node has gone, another has come
  {
    const RunDirectory before_a_checkpoint = choose_run_directory(again);
    CHECK(before_a_checkpoint.path == path);
    CHECK_FALSE(before_a_checkpoint.resume_from);
    REQUIRE(before_a_checkpoint.job);
    CHECK(before_a_checkpoint.job->global_batch == 48);
  }
  train_fifteen_steps(path);
  CHECK(choose_run_directory(again).resume_from->filename() == "step_00000015");
  again.launchers = {"node3/100"};
  CHECK(choose_run_directory(again).path != path);  // another job, which isn't to resume
}

TEST_CASE("a job that began with a checkpoint goes back to it while it has none of its own", "[train]") {
  const TemporaryDirectory directory;
  train_fifteen_steps(directory.path());
  RunDirectoryRequest request{.name = "x",
                              .run_dir = directory.path().string(),
                              .resume = step(directory.path(), 5).string(),
                              .config_hash = "1",
                              .launchers = {"node1/800"}};
  CHECK(choose_run_directory(request).resume_from->filename() == "step_00000005");
  LaunchRecord job{.launchers = request.launchers, .resumed_from = request.resume, .global_batch = 32};
  write_launch_record(directory.path(), job);
  job = read_launch_record(directory.path()).value();
  const auto write_at = [&](std::int64_t time) {
    fs::last_write_time(step(directory.path(), 15), fs::file_time_type(fs::file_time_type::duration(time)));
  };
  write_at(job.began - 1);  // files that were written one after the other may have the same time
  CHECK(choose_run_directory(request).resume_from->filename() == "step_00000005");
  write_at(job.began + 1);
  CHECK(choose_run_directory(request).resume_from->filename() == "step_00000015");  // as if written since
}

TEST_CASE("a damaged launch record is as none", "[train]") {
  const TemporaryDirectory directory;
  CHECK_FALSE(read_launch_record(directory.path()));
  write_launch_record(directory.path(), {.launchers = {"a"}, .resumed_from = "b", .global_batch = 3});
  const std::int64_t began = read_launch_record(directory.path())->began;
  CHECK(began != 0);
  write_launch_record(directory.path(), *read_launch_record(directory.path()));
  CHECK(read_launch_record(directory.path())->began == began);
  fs::resize_file(directory.path() / ".launch_record", 10);
  CHECK_FALSE(read_launch_record(directory.path()));
}

TEST_CASE("each run without a directory gets a new one", "[train]") {
  const InTemporaryDirectory here;
  const RunDirectory first = choose_run_directory({.name = "a/b", .run_dir = "", .resume = "auto", .config_hash = "1"});
  const RunDirectory second =
      choose_run_directory({.name = "a/b", .run_dir = "", .resume = "auto", .config_hash = "1"});
  CHECK(first.path != second.path);
  CHECK(first.path.parent_path() == fs::path("runs") / "a_b");
  CHECK_FALSE(first.resume_from);
}

TEST_CASE("a directory is held by one process at a time", "[train]") {
  const TemporaryDirectory directory;
  const RunDirectory held =
      choose_run_directory({.name = "x", .run_dir = directory.path().string(), .resume = "auto", .config_hash = "1"});
  CHECK(DirectoryLock::is_held(directory.path()));
  CHECK_THROWS_WITH(
      choose_run_directory({.name = "x", .run_dir = directory.path().string(), .resume = "auto", .config_hash = "1"}),
      Catch::Contains("another process"));
}

TEST_CASE("a path that holds no checkpoint can't be resumed", "[train]") {
  const TemporaryDirectory directory;
  CHECK_THROWS_AS(
      choose_run_directory({.name = "x", .run_dir = "", .resume = directory.path().string(), .config_hash = "1"}),
      core::Error);
}

}  // namespace trainctl::train
