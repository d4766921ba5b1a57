#include <ATen/ops/arange.h>
#include <ATen/ops/as_strided.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <nlohmann/json.hpp>
#include <thread>

#include "checkpoint/attempt.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/checkpoint_support.h"
#include "checkpoint/chunked_file.h"
#include "checkpoint/manifest.h"
#include "checkpoint/parts.h"
#include "checkpoint/ranks.h"
#include "core/error.h"
#include "support/temporary_directory.h"

#include <catch2/catch.hpp>  // after LibTorch, which has a CHECK too

namespace trainctl::checkpoint {
namespace {

namespace fs = std::filesystem;
using Catch::Matchers::Contains;
using testing::flip_bit;
using testing::info_of;
using testing::names_in;
using testing::on_ranks;
using testing::state_of;
using testing::tells;
using testing::TemporaryDirectory;

constexpr std::int64_t kLarge = 700'000;  // elements: tensors that ranks share

void save_together(const fs::path& directory, std::int64_t world_size, std::initializer_list<std::int64_t> steps) {
  on_ranks(world_size, [&](comm::Group& group) {
    Saver saver(directory, {}, &group);
    for (const std::int64_t step : steps) saver.save(state_of(step, kLarge), info_of(step));
    saver.finish();
  });
}

TEST_CASE("ranks that have the same state write equal parts of it", "[checkpoint]") {
  const TemporaryDirectory scratch;
  save_together(scratch.path(), 4, {1});
  const fs::path step = scratch / "step_00000001";
  CHECK(names_in(step) == std::set<std::string>{"part_00001_of_00004.safetensors", "part_00002_of_00004.safetensors",
                                                "part_00003_of_00004.safetensors", "part_00004_of_00004.safetensors",
                                                "state.json", "manifest.json"});
  for (int part = 1; part <= 4; ++part)
    CHECK(static_cast<double>(fs::file_size(step / part_name(part - 1, 4).append(".safetensors"))) ==
          Approx(2 * 4 * kLarge / 4).margin(1000));
  CHECK(tells(step, 1));
  CHECK(fs::read_symlink(scratch / "latest") == "step_00000001");
}

TEST_CASE("tensors in any memory format come back from their pieces, to any other format and stretch", "[checkpoint]") {
  const TemporaryDirectory scratch;
  const at::Tensor image = at::randn({64, 33, 25, 30}).contiguous(at::MemoryFormat::ChannelsLast);
  const at::Tensor sliced = at::arange(600'000).slice(0, 1, 600'000, 2);
  on_ranks(3, [&](comm::Group& group) {
    Saver saver(scratch.path(), {}, &group);
    ShownState state;
    at::Tensor a = image, b = sliced;
    state.tensor("model.image", a);
    state.tensor("sliced", b);
    saver.save(state, {.step = 1});
    saver.finish();
  });
  const Checkpoint checkpoint(scratch / "step_00000001");
  const TensorMap whole = checkpoint.read_whole();
  CHECK(whole.at("model.image").equal(image));
  CHECK(whole.at("model.image").is_contiguous());
  CHECK(whole.at("sliced").equal(sliced));
  StateReader reader(checkpoint);
  at::Tensor rows = at::zeros_like(image, at::MemoryFormat::Contiguous);
  at::Tensor stretch = at::zeros({1000});
  reader.tensor("model.image", rows);
  reader.part("model.image", stretch,
              {.shape = image.sizes().vec(), .strides = rows.strides().vec(), .offset = 777'777});
  reader.finish();
  CHECK(rows.equal(image));
  CHECK(stretch.equal(image.contiguous().view({-1}).narrow(0, 777'777, 1000)));
  consolidate(checkpoint, scratch / "one.safetensors", Consolidated::everything);
  CHECK(read_safetensors(scratch / "one.safetensors").at("model.image").equal(image));
  consolidate(checkpoint, scratch / "model.safetensors", Consolidated::model);
  const TensorMap model = read_safetensors(scratch / "model.safetensors");
  CHECK(model.size() == 1);
  CHECK(model.at("image").equal(image));
}

/// This member's third of a tensor, and a number that goes with it.
void show_third(runtime::State& state, at::Tensor& whole, at::Tensor& number, std::int64_t rank) {
  const std::int64_t first = whole.numel() * rank / 3, last = whole.numel() * (rank + 1) / 3;
  at::Tensor stretch = at::as_strided(whole, {last - first}, {1}, first);
  const runtime::PartOf place{.shape = whole.sizes().vec(), .strides = whole.strides().vec(), .offset = first};
  state.part("model.w", stretch, place);
  at::Tensor flat = number.view({1});
  state.part("optimizer.step.w", flat, {.copy = rank == 0 ? 0 : 1, .num_copies = 2});
}

TEST_CASE("stretches are written as they lie, and read by others as theirs lie", "[checkpoint]") {
  const TemporaryDirectory scratch;
  const at::Tensor original = at::randn({100, 70});
  on_ranks(3, [&](comm::Group& group) {
    Saver saver(scratch.path(), {}, &group);
    ShownState state;
    at::Tensor whole = original.clone(), number = at::full({}, 5.0);
    show_third(state, whole, number, group.rank());
    saver.save(state, {.step = 1});
    saver.finish();
  });
  const Checkpoint checkpoint(scratch / "step_00000001");
  CHECK(checkpoint.read_whole().at("model.w").equal(original));
  CHECK(checkpoint.read_whole("optimizer.").at("step.w").item<double>() == 5);
  at::Tensor whole = at::zeros({100, 70});
  at::Tensor number = at::zeros({});
  for (const std::int64_t rank : {0, 1, 2}) {
    StateReader reader(checkpoint);
    show_third(reader, whole, number, rank);
    reader.finish();
    CHECK(number.item<double>() == 5);
  }
  CHECK(whole.equal(original));
}

TEST_CASE("slots of a parameter that has none in the checkpoint begin anew, whole and in stretches",
          "[checkpoint][regression]") {
  const TemporaryDirectory scratch;
  Saver saver(scratch.path(), {});
  ShownState state;
  at::Tensor saved = at::randn({4, 6});
  state.slot({"optimizer.exp_avg", "encoder.head.weight"}, saved);
  saver.save(state, {.step = 1});
  saver.finish();
  const Checkpoint checkpoint(scratch / "step_00000001");
  StateReader reader(checkpoint);
  at::Tensor whole = at::full({4, 6}, 2.0), stretch = at::full({5}, 3.0), known = at::zeros({4, 6});
  at::Tensor average = at::zeros({4, 6}), averaged = at::zeros({3});
  reader.slot({"optimizer.exp_avg", "head.weight"}, whole);  // another parameter's name ends with this one
  reader.part("optimizer.exp_avg.head.bias", stretch,
              {.shape = {10}, .strides = {1}, .slot = runtime::SlotKey{"exp_avg", "head.bias"}});
  reader.slot({"optimizer.exp_avg", "encoder.head.weight"}, known);
  reader.slot({"ema.average", "encoder.head.weight", known}, average);
  reader.part(
      "ema.average.tail", averaged,
      {.shape = {3}, .strides = {1}, .slot = runtime::SlotKey{"average", "tail", saved.flatten().narrow(0, 1, 3)}});
  CHECK_THROWS_WITH(reader.slot({"optimizer.max", "encoder.head.weight"}, known), Contains("no tensor optimizer.max"));
  CHECK_THROWS_WITH(reader.part("model.head.bias", stretch, {.shape = {10}, .strides = {1}}),
                    Contains("no tensor model.head.bias"));
  reader.finish();
  CHECK(whole.equal(at::full({4, 6}, 2.0)));
  CHECK(stretch.equal(at::full({5}, 3.0)));
  CHECK(known.equal(saved));
  CHECK(average.equal(saved));  // of what was read, not of what was there before
  CHECK(averaged.equal(saved.flatten().narrow(0, 1, 3)));
  CHECK(reader.begun_anew() == std::vector<std::string>{"optimizer of head.weight", "optimizer of head.bias",
                                                        "ema of encoder.head.weight", "ema of tail"});
}

TEST_CASE("stretches that several ranks hold are written once", "[checkpoint]") {
  const TemporaryDirectory scratch;
  const at::Tensor original = at::randn({1001});
  on_ranks(2, [&](comm::Group& group) {
    Saver saver(scratch.path(), {}, &group);
    ShownState state;
    at::Tensor stretch = original.clone();
    state.part("w", stretch, {.shape = {1001}, .strides = {1}, .copy = group.rank(), .num_copies = 2});
    saver.save(state, {.step = 1});
    saver.finish();
  });
  CHECK(Checkpoint(scratch / "step_00000001").read_whole().at("w").equal(original));
  for (const char* part : {"part_00001_of_00002.safetensors", "part_00002_of_00002.safetensors"})
    CHECK(fs::file_size(scratch / "step_00000001" / part) < 3000);
}

TEST_CASE("a part that is missing, cut or changed anywhere is found, and the checkpoint before it taken",
          "[checkpoint]") {
  const TemporaryDirectory scratch;
  save_together(scratch.path(), 3, {1, 2});
  const fs::path part = scratch / "step_00000002" / "part_00002_of_00003.safetensors";
  const std::string good = core::read_file(part);
  const auto reason = [&] {
    std::vector<std::string> passed_over;
    const auto found = find_newest(scratch.path(), &passed_over);
    CHECK(found->step == 1);
    REQUIRE(passed_over.size() == 1);
    CHECK_THAT(passed_over[0], Contains(part.string()));
    CHECK_THROWS_AS(Checkpoint(scratch / "step_00000002").read_whole(), core::Error);
    return passed_over[0];
  };
  for (const std::size_t byte : {std::size_t{3}, std::size_t{100}, good.size() / 2, good.size() - 1}) {
    flip_bit(part, byte * 8 + 1);
    CHECK_THAT(reason(), Contains("is damaged: the checksum of bytes 0 to"));
    std::ofstream(part, std::ios::binary) << good;
  }
  fs::resize_file(part, good.size() - 1);
  CHECK_THAT(reason(), Contains("bytes instead of " + std::to_string(good.size())));
  fs::remove(part);
  CHECK_THAT(reason(), Contains("No such file"));
  std::ofstream(part, std::ios::binary) << good;
  CHECK(find_newest(scratch.path())->step == 2);
}

TEST_CASE("a rank that is lost during a save costs none of the checkpoints before it", "[checkpoint]") {
  const TemporaryDirectory scratch;
  save_together(scratch.path(), 3, {1});
  CHECK_THROWS(on_ranks(3, [&](comm::Group& group) {
    Saver saver(scratch.path(), {}, &group);
    if (group.rank() == 2) throw core::Error("lost");
    saver.save(state_of(2, kLarge), info_of(2));
    saver.finish();
  }));
  CHECK(tells(scratch / "latest", 1));
  save_together(scratch.path(), 3, {2});
  CHECK(names_in(scratch.path()) == std::set<std::string>{"latest", "step_00000001", "step_00000002"});
}

TEST_CASE("a full disk under ranks fails the save, and leaves the checkpoint before it", "[checkpoint]") {
  const TemporaryDirectory scratch;
  save_together(scratch.path(), 2, {1});
  ::signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  ::getrlimit(RLIMIT_FSIZE, &before);
  const rlimit limit{1'000'000, before.rlim_max};
  ::setrlimit(RLIMIT_FSIZE, &limit);
  CHECK_THROWS_WITH(save_together(scratch.path(), 2, {2}),
                    Contains("File too large") && Contains("while saving the checkpoint of step 2"));
  ::setrlimit(RLIMIT_FSIZE, &before);
  CHECK(tells(scratch / "latest", 1));
  save_together(scratch.path(), 2, {2});
  CHECK(names_in(scratch.path()) == std::set<std::string>{"latest", "step_00000001", "step_00000002"});
}

TEST_CASE("who waits for parts hears of a rank's failure, and of nothing once it is abandoned", "[checkpoint]") {
  const TemporaryDirectory scratch;
  const Part part{.count = 2, .attempt = 7, .manifest = {.step = 3}};
  write_part(scratch.path(), part, core::Durability::process);
  CHECK_FALSE(wait_for_parts(scratch.path(), 2, 7, [] { return true; }));
  leave_failure(scratch.path(), part_name(1, 2), "the disk is full");
  CHECK_THROWS_WITH(wait_for_parts(scratch.path(), 2, 7, [] { return false; }), Contains("rank 1: the disk is full"));
  fs::remove(scratch / "part_00002_of_00002.failed");
  Part other = part;
  other.index = 1;
  other.attempt = 6;  // a forerunner's
  write_part(scratch.path(), other, core::Durability::process);
  CHECK_FALSE(wait_for_parts(scratch.path(), 2, 7, [] { return true; }));
  other.attempt = 7;
  write_part(scratch.path(), other, core::Durability::process);
  CHECK(wait_for_parts(scratch.path(), 2, 7, [] { return true; })->size() == 2);
}

TEST_CASE("ranks that don't see the same directory are told so, all of them", "[checkpoint]") {
  const TemporaryDirectory here, elsewhere;
  std::vector<std::string> told(3);
  on_ranks(3, [&](comm::Group& group) {
    try {
      agree_on_attempt(group.rank() == 1 ? elsewhere.path() : here.path(), group, std::chrono::milliseconds(50));
    } catch (const core::Error& error) {
      told[static_cast<std::size_t>(group.rank())] = error.text();
    }
  });
  for (const std::string& text : told)
    CHECK_THAT(text, Contains("rank 1 can't see what rank 0 writes to") && Contains("--run-dir"));
}

/// As the first version of the format was written.
void write_first_version(const fs::path& directory, const TensorMap& model, const TensorMap& state) {
  fs::create_directories(directory);
  const auto file = [&](const char* name, const std::string& sum) {
    return nlohmann::json{{"size", fs::file_size(directory / name)}, {"checksum", sum}};
  };
  nlohmann::json manifest = {{"format", "trainctl checkpoint"}, {"version", 1}, {"step", 4}};
  manifest["files"]["model.safetensors"] = file(
      "model.safetensors", write_safetensors(directory / "model.safetensors", model, {}, core::Durability::process));
  manifest["files"]["state.safetensors"] = file(
      "state.safetensors", write_safetensors(directory / "state.safetensors", state, {}, core::Durability::process));
  const std::string values = text_of_values({.values = {{"step", std::int64_t{4}}}, .info = info_of(4)});
  core::write_file_atomically(directory / "state.json", values);
  manifest["files"]["state.json"] = file("state.json", core::checksum(values));
  manifest["checksum"] = core::checksum(manifest.dump());
  core::write_file_atomically(directory / "manifest.json", manifest.dump(1) + "\n");
}

TEST_CASE("checkpoints of the first version still load, and damage in them is found", "[checkpoint]") {
  const TemporaryDirectory scratch;
  const fs::path step = scratch / "step_00000004";
  write_first_version(step, {{"fc.weight", at::full({6'000'000}, 4.0)}},
                      {{"optimizer.momentum.fc.weight", at::full({1000}, -4.0)}});
  CHECK(find_newest(scratch.path())->step == 4);
  CHECK(tells(step, 4));
  flip_bit(step / "model.safetensors", 8 * 20'000'000);
  CHECK_FALSE(find_newest(scratch.path()));
  CHECK_THROWS_WITH(Checkpoint(step).read_whole(), Contains("model.safetensors is damaged: its checksum is"));
}

TEST_CASE("files of several chunks are written, read in ranges and checked by several threads", "[checkpoint]") {
  const TemporaryDirectory scratch;
  const at::Tensor data = at::randn({9'000'000});
  const auto* const bytes = static_cast<const std::byte*>(data.const_data_ptr());
  const std::span<const std::byte> all(bytes, data.nbytes());
  const FileSums sums = write_chunked(
      scratch / "a", {all.first(5), all.subspan(5, 20'000'000), all.subspan(20'000'005)}, core::Durability::disk);
  CHECK(sums.sums.size() == 3);
  CHECK(core::read_file(scratch / "a") == std::string(reinterpret_cast<const char*>(bytes), data.nbytes()));
  std::vector<std::byte> read(17'000'000);
  read_chunked({{scratch / "a", sums, {{.begin = 10'000'000, .size = read.size(), .into = read.data()}}}});
  CHECK(std::equal(read.begin(), read.end(), bytes + 10'000'000));
  flip_bit(scratch / "a", 8 * 35'000'000);
  read_chunked({{scratch / "a", sums, {{.begin = 10'000'000, .size = read.size(), .into = read.data()}}}});
  CHECK_THROWS_WITH(verify_chunked({{scratch / "a", sums, {}}}), Contains("bytes 33554432 to 36000000"));
}

}  // namespace
}  // namespace trainctl::checkpoint
