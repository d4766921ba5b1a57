#include "runs/runs.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/file.h"
#include "runs/clean.h"
#include "support/temporary_directory.h"

namespace trainctl::runs {
namespace {

namespace fs = std::filesystem;

constexpr const char* kStep = "{\"event\":\"step\",\"step\":20,\"loss\":1}\n";
constexpr const char* kFinished =
    R"({"outcome":"finished","steps":20,"best_metrics":{"loss":0.4,"accuracy":0.9},"wall_s":9.5})";

/// A directory of runs, as `train` leaves them.
class Runs {
 public:
  fs::path write(const std::string& name, const std::string& metrics, const std::string& summary) const {
    directory_.write(name + "/config.yaml", "name: x\n");
    directory_.write(name + "/.config_hash", "abc");
    directory_.write(name + "/.lock", "");
    if (!metrics.empty()) directory_.write(name + "/metrics.jsonl", metrics);
    if (!summary.empty()) directory_.write(name + "/summary.json", summary);
    return directory_.path() / name;
  }
  void add_step(const fs::path& run, const std::string& step) const {
    const std::string to = fs::relative(run, directory_.path()).string() + "/checkpoints/" + step;
    directory_.write(to + "/model.safetensors", std::string(1000, 'x'));
  }
  const fs::path& root() const { return directory_.path(); }
  const testing::TemporaryDirectory& directory() const { return directory_; }

 private:
  testing::TemporaryDirectory directory_;
};

/// Stands for the engine's reading: a checkpoint is sound if its weights are.
std::string damage_of(const fs::path& step) {
  const fs::path weights = step / "model.safetensors";
  const bool is_sound = fs::exists(weights) && core::read_file(weights) == std::string(1000, 'x');
  return is_sound ? "" : weights.string() + " is damaged";
}

/// A lock on a run, as the process that trains holds one.
class Training {
 public:
  explicit Training(const fs::path& run) : descriptor_(::open((run / ".lock").c_str(), O_RDWR)) {
    REQUIRE(::flock(descriptor_, LOCK_EX | LOCK_NB) == 0);
  }
  Training(const Training&) = delete;
  Training& operator=(const Training&) = delete;
  ~Training() { ::close(descriptor_); }

 private:
  int descriptor_;
};

const RunEntry& entry(const RunList& list, const std::string& end) {
  for (const RunEntry& run : list.runs)
    if (run.path.string().ends_with(end)) return run;
  throw core::Error("there is no run " + end);
}

TEST_CASE("runs are listed with state, steps, best metric and size", "[runs]") {
  const Runs runs;
  runs.write("digits/20261126T101500Z-1", kStep, kFinished);
  runs.write("digits/20261126T101501Z-1", "", "");
  runs.write("digits/20261126T101502Z-1", kStep, "");
  runs.write("digits/20261126T101503Z-1", kStep, R"({"outcome":"stopped","steps":12})");
  runs.write("other/20261126T101504Z-1", kStep, R"({"outcome":"failed","steps":20,"error":"x"})");
  const Training training(runs.write("other/20261126T101505Z-1", kStep, ""));
  const RunList list = list_runs(runs.root());
  REQUIRE(list.runs.size() == 6);
  CHECK(list.problems.empty());
  const RunEntry& first = entry(list, "500Z-1");
  CHECK(first.name == "digits");
  CHECK(first.state == "finished");
  CHECK(first.started == 1795688100);
  CHECK(first.steps == 20);
  CHECK(first.best->name == "accuracy");
  CHECK(first.best->value == 0.9);
  CHECK(*first.wall_s == 9.5);
  CHECK(first.bytes == std::string(kStep).size() + std::string(kFinished).size() + 11);
  CHECK(entry(list, "501Z-1").state == "no_step");
  CHECK(entry(list, "502Z-1").state == "unfinished");
  CHECK(entry(list, "503Z-1").state == "unfinished");  // it went on after it was stopped
  CHECK(entry(list, "504Z-1").state == "failed");
  CHECK(entry(list, "505Z-1").state == "training");
  CHECK(nlohmann::json::parse(format_json(list))["runs"].size() == 6);
}

TEST_CASE("a run that went on after its summary has no best value of before", "[runs]") {
  const Runs runs;
  runs.write("a", "{\"event\":\"step\",\"step\":96}\n", kFinished);
  const RunList list = list_runs(runs.root());
  REQUIRE(list.runs.size() == 1);
  CHECK(list.runs[0].steps == 96);
  CHECK_FALSE(list.runs[0].best);
  CHECK_FALSE(list.runs[0].wall_s);
}

TEST_CASE("damaged runs are listed with what can be read, and others are no runs", "[runs]") {
  const Runs runs;
  runs.write("a", "{\"step\":3}\ngarbage\n{\"event\":\"step\",\"st", "{\"outcome\":");
  runs.directory().write("photos/cat/1.jpg", "x");
  fs::create_directory_symlink(runs.root(), runs.root() / "loop");
  const RunList list = list_runs(runs.root());
  REQUIRE(list.runs.size() == 1);
  CHECK(list.runs[0].state == "unfinished");
  CHECK(list.runs[0].steps == 3);
  REQUIRE(list.problems.size() == 1);
  CHECK_THAT(list.problems[0], Catch::Contains("summary.json is damaged"));
  CHECK_THROWS_WITH(list_runs(runs.root() / "nowhere"), Catch::Contains("no such directory"));
}

TEST_CASE("filters and orders choose runs", "[runs]") {
  const Runs runs;
  runs.write("digits/20261126T101500Z-1", kStep, kFinished);
  runs.write("digits/20261127T101500Z-1", kStep,
             R"({"outcome":"finished","steps":20,"best_metrics":{"accuracy":0.95}})");
  runs.write("letters/20261128T101500Z-1", kStep, "");
  RunList list = list_runs(runs.root());
  const auto num_passing = [&](const RunFilter& filter) {
    return std::ranges::count_if(list.runs, [&](const RunEntry& run) { return passes(run, filter); });
  };
  CHECK(num_passing({}) == 3);
  CHECK(num_passing({.names = {"dig*"}}) == 2);
  CHECK(num_passing({.states = {"unfinished", "failed"}}) == 1);
  CHECK(num_passing({.started_before = 1795688101}) == 1);
  CHECK_FALSE(passes({.name = "of an unknown time"}, {.started_before = 1e12}));
  sort_runs(list.runs, "newest");
  CHECK(list.runs.front().name == "letters");
  sort_runs(list.runs, "best");
  CHECK(list.runs.front().best->value == 0.95);
  CHECK(list.runs.back().name == "letters");
}

TEST_CASE("a clean removes what its rules name, and only when it is asked to", "[runs]") {
  const Runs runs;
  const fs::path finished = runs.write("a/20261126T101500Z-1", kStep, kFinished);
  const fs::path unfinished = runs.write("a/20261126T101501Z-1", kStep, "");
  const fs::path failed_start = runs.write("b/20261126T101502Z-1", "", "");
  for (const fs::path& run : {finished, unfinished}) {
    for (const char* step : {"step_00000010", "step_00000020", "step_00000030"}) runs.add_step(run, step);
    fs::create_directory_symlink("step_00000010", run / "checkpoints/best");
    fs::create_directory_symlink("step_00000030", run / "checkpoints/latest");
  }
  const RunList list = list_runs(runs.root());
  const CleanPlan plan = plan_clean(list.runs, {.failed_starts = true, .checkpoints = KeptCheckpoint::best}, damage_of);
  REQUIRE(plan.removals.size() == 4);  // two of the finished run, one of the other, and the failed start
  CHECK(fs::exists(failed_start));
  const CleanResult result = clean(plan, runs.root());
  CHECK(result.num_removed == 4);
  CHECK(result.problems.empty());
  CHECK(result.bytes > 3000);
  CHECK_FALSE(fs::exists(failed_start.parent_path()));
  CHECK(fs::exists(finished / "checkpoints/step_00000010"));
  CHECK_FALSE(fs::exists(finished / "checkpoints/step_00000030"));
  CHECK(fs::exists(finished / "checkpoints/latest"));  // names one that is there
  CHECK(fs::exists(unfinished / "checkpoints/step_00000030"));
  CHECK_FALSE(fs::exists(unfinished / "checkpoints/step_00000020"));
}

TEST_CASE("a clean that keeps a damaged checkpoint keeps the newest sound one, too", "[runs][regression]") {
  const Runs runs;
  const fs::path run = runs.write("a/20261126T101500Z-1", kStep, kFinished);
  for (const char* step : {"step_00000010", "step_00000020", "step_00000030"}) runs.add_step(run, step);
  runs.directory().write("a/20261126T101500Z-1/checkpoints/step_00000030/model.safetensors", "y");
  const CleanPlan one = plan_clean(list_runs(runs.root()).runs, {.checkpoints = KeptCheckpoint::newest}, damage_of);
  REQUIRE(one.damaged.size() == 1);
  CHECK_THAT(one.damaged[0], Catch::Contains("step_00000030/model.safetensors is damaged"));
  REQUIRE(one.removals.size() == 1);
  CHECK(one.removals[0].path.filename() == "step_00000010");
  for (const char* step : {"step_00000010", "step_00000020"})
    fs::remove(run / "checkpoints" / step / "model.safetensors");
  const CleanPlan plan = plan_clean(list_runs(runs.root()).runs, {.checkpoints = KeptCheckpoint::newest}, damage_of);
  CHECK(plan.removals.empty());
  REQUIRE(plan.kept.size() == 1);
  CHECK_THAT(plan.kept[0], Catch::Contains("none of its checkpoints is sound"));
}

TEST_CASE("a clean touches no run that a process trains", "[runs]") {
  const Runs runs;
  const fs::path run = runs.write("a/20261126T101500Z-1", "", "");
  const CleanPlan before = plan_clean(list_runs(runs.root()).runs, {.whole_runs = true}, damage_of);
  REQUIRE(before.removals.size() == 1);
  const Training training(run);
  const CleanPlan now = plan_clean(list_runs(runs.root()).runs, {.failed_starts = true, .whole_runs = true}, damage_of);
  CHECK(now.removals.empty());
  REQUIRE(now.kept.size() == 1);
  const CleanResult result = clean(before, runs.root());  // planned before the process began
  CHECK(result.num_removed == 0);
  CHECK_THAT(result.problems.at(0), Catch::Contains("a process trains in it now"));
  CHECK(fs::exists(run / "config.yaml"));
}

TEST_CASE("a clean follows no link, and removes no directory of others", "[runs]") {
  const Runs runs;
  const testing::TemporaryDirectory elsewhere;
  elsewhere.write("step_00000001/manifest.json", "precious");
  elsewhere.write("step_00000002/manifest.json", "precious");
  const fs::path linked = runs.write("a/20261126T101500Z-1", kStep, kFinished);
  fs::create_directory_symlink(elsewhere.path(), linked / "checkpoints");
  fs::create_directory_symlink(elsewhere.path(), linked / "photos");
  runs.directory().write("foreign/summary.json", "{}");
  CHECK(plan_clean(list_runs(runs.root()).runs, {.checkpoints = KeptCheckpoint::newest}, damage_of).removals.empty());
  const CleanPlan plan = plan_clean(list_runs(runs.root()).runs, {.whole_runs = true}, damage_of);
  REQUIRE(plan.removals.size() == 1);
  CHECK(plan.kept.size() == 1);
  CHECK(clean(plan, runs.root()).num_removed == 1);
  CHECK_FALSE(fs::exists(linked));
  CHECK(fs::exists(elsewhere / "step_00000001/manifest.json"));
  CHECK(fs::exists(runs.root() / "foreign/summary.json"));
}

}  // namespace
}  // namespace trainctl::runs
