#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cmath>
#include <fstream>
#include <random>
#include <thread>

#include "checkpoint/checkpoint.h"
#include "checkpoint/checkpoint_support.h"
#include "core/error.h"
#include "core/file.h"
#include "support/temporary_directory.h"

#include <catch2/catch.hpp>  // after LibTorch, which has a CHECK too

namespace trainctl::checkpoint {
namespace {

namespace fs = std::filesystem;
using Catch::Matchers::Contains;
using testing::info_of;
using testing::names_in;
using testing::state_of;
using testing::tells;
using testing::TemporaryDirectory;

void save_all(const fs::path& directory, const CheckpointConfig& config, std::initializer_list<std::int64_t> steps) {
  Saver saver(directory, config);
  for (const std::int64_t step : steps) saver.save(state_of(step), info_of(step));
  saver.finish();
}

TEST_CASE("a run directory with the name of a step directory is a run directory", "[checkpoint][regression]") {
  const TemporaryDirectory scratch;
  const fs::path run = scratch / "step_00000007";
  save_all(run / "checkpoints", {}, {12});
  CHECK(find_newest(run)->path == run / "checkpoints/step_00000012");
}

TEST_CASE("the newest checkpoint is found from a run, a checkpoints and a step directory", "[checkpoint]") {
  const TemporaryDirectory run;
  CHECK_FALSE(find_newest(run.path()));
  CHECK_FALSE(find_newest(run / "nowhere"));
  save_all(run / "checkpoints", {}, {7, 12});
  const fs::path newest = run / "checkpoints/step_00000012";
  CHECK(find_newest(run.path())->path == newest);
  CHECK(find_newest(run / "checkpoints/")->step == 12);
  CHECK(find_newest(newest)->path == newest);
  CHECK(find_newest(run / "checkpoints/step_00000007")->step == 7);
  CHECK(find_newest(run / "checkpoints/latest")->step == 12);
  CHECK(fs::read_symlink(run / "checkpoints/latest") == "step_00000012");
  CHECK(tells(newest, 12));
}

TEST_CASE("a run that goes on from an older checkpoint has no newer latest or best one", "[checkpoint]") {
  const TemporaryDirectory run;
  const fs::path links = run.path();
  Saver saver(links, {.keep_last = 5, .best = BestConfig{}});
  for (const std::int64_t step : {1, 2, 3, 4})
    saver.save(state_of(step), info_of(step, {{"accuracy", static_cast<double>(step)}}));
  saver.finish();
  go_on_from(links, 3, 4);  // the best one would be a later one
  CHECK(fs::read_symlink(links / "latest") == "step_00000003");
  CHECK_FALSE(fs::is_symlink(links / "best"));
  CHECK(find_newest(links)->step == 3);
  saver.save(state_of(4), info_of(4, {{"accuracy", 0.5}}));
  saver.finish();
  CHECK(fs::read_symlink(links / "best") == "step_00000004");
  go_on_from(links, 2, 1);
  CHECK(fs::read_symlink(links / "latest") == "step_00000002");
  CHECK(fs::read_symlink(links / "best") == "step_00000001");
  go_on_from(links, 2, /*best=*/0);
  CHECK_FALSE(fs::is_symlink(links / "best"));
  go_on_from(links, 2, 1);  // the run has begun to choose the best one
  CHECK(fs::read_symlink(links / "best") == "step_00000001");
}

TEST_CASE("the newest and the best checkpoints are kept", "[checkpoint]") {
  const TemporaryDirectory scratch;
  CheckpointConfig config{.every = 1, .keep_last = 2, .best = BestConfig{}, .async = true};
  const auto save = [&](std::initializer_list<std::pair<std::int64_t, double>> accuracies) {
    Saver saver(scratch.path(), config);
    for (const auto& [step, accuracy] : accuracies) {
      const bool evaluated = accuracy >= 0 || std::isnan(accuracy);
      saver.save(state_of(step), info_of(step, evaluated ? std::map<std::string, double>{{"accuracy", accuracy}}
                                                         : std::map<std::string, double>{}));
    }
    saver.finish();
  };
  save({{1, 0.5}, {2, 0.9}, {3, -1}, {4, 0.8}});
  CHECK(names_in(scratch.path()) ==
        std::set<std::string>{"best", "latest", "step_00000002", "step_00000003", "step_00000004"});
  CHECK(fs::read_symlink(scratch / "best") == "step_00000002");
  save({{5, 0.85}, {6, std::nan("")}});  // another process: the best so far is still known
  CHECK(fs::read_symlink(scratch / "best") == "step_00000002");
  CHECK(tells(scratch / "best", 2));
  save({{7, 0.95}, {8, 0.95}});
  CHECK(names_in(scratch.path()) == std::set<std::string>{"best", "latest", "step_00000007", "step_00000008"});
  CHECK(fs::read_symlink(scratch / "best") == "step_00000007");
  config.best->mode = MetricOrder::min;
  save({{9, 0.1}});
  CHECK(fs::read_symlink(scratch / "best") == "step_00000009");
}

TEST_CASE("saving a step again replaces it, and steps left behind no longer count as newest", "[checkpoint]") {
  const TemporaryDirectory scratch;
  save_all(scratch.path(), {.keep_last = 3}, {10, 20, 30});
  go_on_from(scratch.path(), 10, /*best=*/0);
  const std::vector<Found> all = find_complete(scratch.path());
  REQUIRE(all.size() == 3);
  CHECK((all[0].step == 10 && !all[0].is_withdrawn));
  CHECK((all[1].step == 30 && all[1].is_withdrawn));
  CHECK((all[2].step == 20 && all[2].is_withdrawn));
  Saver saver(scratch.path(), {.keep_last = 3});
  saver.save(state_of(99), info_of(20));
  saver.finish();
  CHECK(find_newest(scratch.path())->step == 20);
  CHECK(Checkpoint(scratch / "step_00000020").read_whole().at("model.fc.weight")[0].item<double>() == 99);
  save_all(scratch.path(), {.keep_last = 3}, {25});
  CHECK(names_in(scratch.path()) == std::set<std::string>{"latest", "step_00000010", "step_00000020", "step_00000025"});
}

TEST_CASE("a save is announced when it is complete", "[checkpoint]") {
  const TemporaryDirectory scratch;
  for (const bool background : {true, false}) {
    Saver saver(scratch.path(), {.async = background});
    std::atomic<int> announced = 0;
    saver.on_saved = [&](std::int64_t step, const fs::path& path, double seconds) {
      announced += step == 5 && path == scratch / "step_00000005" && seconds >= 0 && tells(path, 5);
    };
    saver.save(state_of(5), info_of(5));
    saver.finish();
    CHECK(announced == 1);
  }
}

TEST_CASE("any flipped bit is found, and an older checkpoint taken instead", "[checkpoint]") {
  const TemporaryDirectory scratch;
  save_all(scratch.path(), {}, {1, 2});
  std::mt19937 random(1);
  for (const char* name : {"model.safetensors", "state.safetensors", "state.json", "manifest.json"}) {
    const fs::path path = scratch / "step_00000002" / name;
    const std::string good = core::read_file(path);
    for (int round = 0; round < 100; ++round) {
      std::string bytes = good;
      const std::size_t bit = std::uniform_int_distribution<std::size_t>(0, bytes.size() * 8 - 1)(random);
      bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << bit % 8));
      std::ofstream(path, std::ios::binary) << bytes;
      std::vector<std::string> passed_over;
      const auto found = find_newest(scratch.path(), &passed_over);
      REQUIRE(found);
      CHECK(found->step == 1);
      REQUIRE(passed_over.size() == 1);
      CHECK_THAT(passed_over[0], Contains(path.string()));
      CHECK_THROWS_AS(Checkpoint(scratch / "step_00000002").read_whole(), core::Error);
    }
    std::ofstream(path, std::ios::binary) << good;
  }
  CHECK(find_newest(scratch.path())->step == 2);
}

TEST_CASE("checkpoints that are incomplete, or of a later format, are passed over with the reason", "[checkpoint]") {
  const TemporaryDirectory scratch;
  const fs::path step = scratch / "step_00000001";
  const auto reason = [&] {
    std::vector<std::string> passed_over;
    CHECK_FALSE(find_newest(step, &passed_over));
    return passed_over.empty() ? "" : passed_over[0];
  };
  fs::create_directory(step);
  CHECK_THAT(reason(), Contains("has no manifest.json"));
  fs::remove(step);
  save_all(scratch.path(), {}, {1});
  fs::resize_file(step / "state.safetensors", 100);
  CHECK_THAT(reason(), Contains("state.safetensors") && Contains("it has 100 bytes instead of"));
  fs::remove(step / "model.safetensors");
  CHECK_THAT(reason(), Contains("cannot read") && Contains("model.safetensors") && Contains("No such file"));
  std::string manifest = core::read_file(step / "manifest.json");
  std::ofstream(step / "manifest.json") << manifest.replace(manifest.find("\"version\": 3"), 12, "\"version\": 9");
  CHECK_THAT(reason(), Contains("format version 9; this program reads up to 3"));
  for (const char* text : {"", "[]", "{}", "nonsense", "{\"format\":\"trainctl checkpoint\",\"version\":3}"}) {
    std::ofstream(step / "manifest.json") << text;
    CHECK_THAT(reason(), Contains("is damaged"));
  }
}

TEST_CASE("a checkpoint that has lost its manifest is named, from its run and by a link", "[checkpoint][regression]") {
  const TemporaryDirectory scratch;
  save_all(scratch.path(), {}, {1, 2});
  fs::create_directory_symlink("step_00000002", scratch / "best");
  fs::remove(scratch / "step_00000002/manifest.json");
  std::vector<std::string> passed_over;
  CHECK(find_newest(scratch.path(), &passed_over)->step == 1);
  REQUIRE(passed_over.size() == 1);
  CHECK_THAT(passed_over[0], Contains("step_00000002 has no manifest.json"));
  CHECK_FALSE(find_newest(scratch / "best", &passed_over));
  REQUIRE(passed_over.size() == 2);
  CHECK_THAT(passed_over[1], Contains("has no manifest.json"));
  save_all(scratch.path(), {.keep_last = 1}, {3});  // doesn't count it among those that are kept
  CHECK(fs::exists(scratch / "step_00000002"));
  CHECK_FALSE(fs::exists(scratch / "step_00000001"));
}

/// Files over `bytes` can't be written by this process, as on a full disk.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) {
    ::signal(SIGXFSZ, SIG_IGN);
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{bytes, before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() { ::setrlimit(RLIMIT_FSIZE, &before_); }

 private:
  rlimit before_{};
};

TEST_CASE("a write that fails is told by the next call, and leaves the checkpoint before it alone", "[checkpoint]") {
  const TemporaryDirectory scratch;
  for (const bool background : {true, false}) {
    save_all(scratch.path(), {.keep_last = 1, .async = background}, {1});
    Saver saver(scratch.path(), {.keep_last = 1, .async = background});
    {
      const FileSizeLimit limit(10'000);
      const auto both = [&] {
        saver.save(state_of(2, 10'000), info_of(2));
        saver.finish();
      };
      CHECK_THROWS_WITH(both(), Contains("model.safetensors at byte 10000: File too large") &&
                                    Contains("while saving the checkpoint of step 2"));
    }
    CHECK(names_in(scratch.path()) == std::set<std::string>{"latest", "step_00000001"});
    CHECK(tells(scratch / "latest", 1));
    saver.save(state_of(3), info_of(3));  // there is room again
    saver.finish();
    CHECK(find_newest(scratch.path())->step == 3);
  }
}

TEST_CASE("a checkpoint at once is complete when it returns, and finish() throws its failure", "[checkpoint]") {
  const TemporaryDirectory scratch;
  const fs::path directory = scratch / "checkpoints";
  Saver saver(directory, {});
  std::string told;
  saver.on_failed = [&](const std::string& what) { told += what; };
  saver.save(state_of(1), info_of(1), Writing::at_once);
  CHECK(find_newest(directory)->step == 1);
  fs::remove_all(directory);
  std::ofstream(directory) << "in the way";
  saver.save(state_of(2), info_of(2), Writing::at_once);
  CHECK_THROWS_WITH(saver.finish(), Contains("saving the checkpoint of step 2"));
  CHECK(told.empty());
}

TEST_CASE("a saver that goes away waits for its save, and swallows its failure", "[checkpoint]") {
  const TemporaryDirectory scratch;
  { Saver(scratch.path(), {}).save(state_of(1, 500'000), info_of(1)); }
  CHECK(tells(scratch / "latest", 1));
  std::ofstream(scratch / "file") << "x";
  { Saver(scratch / "file", {}).save(state_of(1), info_of(1)); }
}

TEST_CASE("what dead writers left is removed, and what living ones write is not", "[checkpoint]") {
  const TemporaryDirectory scratch;
  const pid_t child = ::fork();
  if (child == 0) ::_exit(0);
  ::waitpid(child, nullptr, 0);
  const std::string dead = "step_00000001.tmp-" + std::to_string(child);
  const std::string alive = "step_00000002.tmp-" + std::to_string(::getppid());
  for (const std::string& name : {dead, alive}) fs::create_directory(scratch / name);
  std::ofstream(scratch / dead / "model.safetensors") << "half";
  std::ofstream(scratch / "notes.txt") << "mine";
  const Saver saver(scratch.path(), {});
  CHECK(names_in(scratch.path()) == std::set<std::string>{alive, "notes.txt"});
}

TEST_CASE("checkpoints can be read while others are saved", "[checkpoint]") {
  const TemporaryDirectory scratch;
  save_all(scratch.path(), {.keep_last = 4}, {1});
  std::atomic<bool> done = false;
  std::thread writer([&] {
    Saver saver(scratch.path(), {.keep_last = 4});
    for (std::int64_t step = 2; step < 40; ++step) saver.save(state_of(step), info_of(step));
    saver.finish();
    done = true;
  });
  bool always = true;
  while (!done) always = always && find_newest(scratch.path()).has_value();
  writer.join();
  CHECK(always);
  CHECK(find_newest(scratch.path())->step == 39);
}

}  // namespace
}  // namespace trainctl::checkpoint
