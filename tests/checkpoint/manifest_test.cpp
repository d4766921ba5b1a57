#include "checkpoint/manifest.h"

#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>

#include "checkpoint/checkpoint_support.h"
#include "core/error.h"
#include "support/temporary_directory.h"

#include <catch2/catch.hpp>  // after LibTorch, which has a CHECK too

namespace trainctl::checkpoint {
namespace {

namespace fs = std::filesystem;
using Catch::Matchers::Contains;
using Json = nlohmann::json;
using testing::info_of;
using testing::state_of;
using testing::TemporaryDirectory;

/// A sound checkpoint of step 7.
fs::path saved(const TemporaryDirectory& scratch) {
  Saver saver(scratch.path(), {});
  saver.save(state_of(7), info_of(7));
  saver.finish();
  return scratch / "step_00000007";
}

void write(const fs::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

/// Changes a manifest and makes every checksum right, as somebody would who knows the format.
void forge(const fs::path& step, const std::function<void(Json& manifest)>& change) {
  const fs::path path = step / kManifestFile;
  Json manifest = Json::parse(core::read_file(path));
  change(manifest);
  manifest.erase("checksum");
  manifest["checksum"] = core::checksum(manifest.dump());
  write(path, manifest.dump(1) + "\n");
}

void forge_values(const fs::path& step, const std::function<void(Json& values)>& change) {
  Json values = Json::parse(core::read_file(step / kValuesFile));
  change(values);
  const std::string text = values.dump(1) + "\n";
  write(step / kValuesFile, text);
  forge(step, [&](Json& manifest) {
    manifest["files"][kValuesFile]["size"] = text.size();
    manifest["files"][kValuesFile]["checksums"] = {core::checksum(text)};
  });
}

std::string refusal(const fs::path& step) {
  try {
    verify(step);
    const Checkpoint checkpoint(step);
    checkpoint.read_whole();
  } catch (const core::Error& error) {
    return error.what();
  }
  return "";
}

using Forgeries = std::vector<std::pair<std::string, std::function<void(Json&)>>>;

/// Each forgery of a sound checkpoint's manifest is refused.
void check_refused(const fs::path& step, const Forgeries& forgeries) {
  const std::string sound = core::read_file(step / kManifestFile);
  for (const auto& [name, change] : forgeries) {
    INFO(name);
    forge(step, change);
    CHECK_FALSE(refusal(step).empty());
    write(step / kManifestFile, sound);
  }
  CHECK(refusal(step).empty());
}

TEST_CASE("sizes that overflow are refused, though every checksum is right", "[checkpoint]") {
  const TemporaryDirectory scratch;
  const fs::path step = saved(scratch);
  CHECK(refusal(step).empty());
  const std::uint64_t huge = ~std::uint64_t{0};
  const auto tensor = [](Json& manifest) -> Json& { return manifest["tensors"]["model.fc.weight"]; };
  const Forgeries forgeries = {
      {"a chunk beyond 63 bits",
       [&](Json& m) {
         m["files"].begin().value()["chunk"] = huge, m["files"].begin().value()["checksums"] = Json::array();
       }},
      {"no checksums", [](Json& m) { m["files"].begin().value()["checksums"] = Json::array(); }},
      {"a chunk of nothing", [](Json& m) { m["files"].begin().value()["chunk"] = 0; }},
      {"a size beyond 63 bits", [&](Json& m) { m["files"].begin().value()["size"] = huge; }},
      {"bytes that overflow",
       [&](Json& m) {
         tensor(m)["dtype"] = "F64", tensor(m)["shape"] = {std::int64_t{1} << 61},
         tensor(m)["pieces"][0]["count"] = std::int64_t{1} << 61;
       }},
      {"a dim beyond 63 bits", [&](Json& m) { tensor(m)["shape"] = {std::uint64_t{1} << 63}; }},
      {"a negative dim", [&](Json& m) { tensor(m)["shape"] = {-5}; }},
      {"dims whose product overflows",
       [&](Json& m) {
         tensor(m)["shape"] = {std::int64_t{1} << 40, std::int64_t{1} << 40};
       }},
      {"a tensor that is larger than its pieces", [&](Json& m) { tensor(m)["shape"] = {std::int64_t{1} << 50}; }},
      {"a piece before its tensor", [&](Json& m) { tensor(m)["pieces"][0]["offset"] = -1; }},
      {"a piece behind its file", [&](Json& m) { tensor(m)["pieces"][0]["byte"] = huge; }},
      {"a negative step", [](Json& m) { m["step"] = -3; }},
      {"a step that nobody makes", [](Json& m) { m["step"] = std::int64_t{1} << 60; }},
      {"a step that isn't whole", [](Json& m) { m["step"] = 1e300; }},
  };
  check_refused(step, forgeries);
}

TEST_CASE("runs that don't fit their tensor are refused, though every checksum is right", "[checkpoint]") {
  const TemporaryDirectory scratch;
  const auto piece = [](Json& manifest) -> Json& { return manifest["tensors"]["model.fc.weight"]["pieces"][0]; };
  const auto runs = [](std::int64_t length, std::int64_t distance, std::int64_t first) {
    return Json{{"length", length}, {"distance", distance}, {"first", first}};
  };
  check_refused(saved(scratch),
                {{"runs of nothing", [&](Json& m) { piece(m)["runs"] = runs(0, 1, 0); }},
                 {"runs that overlap", [&](Json& m) { piece(m)["runs"] = runs(2, 1, 0); }},
                 {"runs behind their tensor", [&](Json& m) { piece(m)["runs"] = runs(1, std::int64_t{1} << 40, 0); }},
                 {"a run that begins before its tensor", [&](Json& m) { piece(m)["runs"] = runs(1, 1, -1); }},
                 {"more elements than the runs have",
                  [&](Json& m) { piece(m)["runs"] = runs(1, piece(m)["count"].get<std::int64_t>(), 0); }}});
}

TEST_CASE("a state of another step than its manifest's is refused", "[checkpoint]") {
  const TemporaryDirectory scratch;
  const fs::path step = saved(scratch);
  for (const std::int64_t forged : {std::int64_t{8}, std::int64_t{-1}, std::numeric_limits<std::int64_t>::min(),
                                    std::numeric_limits<std::int64_t>::max()}) {
    forge_values(step, [&](Json& values) { values["step"] = forged; });
    CHECK_THAT(refusal(step), Contains("state.json"));
    std::vector<std::string> passed_over;
    CHECK_FALSE(find_newest(step, &passed_over));
    CHECK(passed_over.size() == 1);
  }
  forge_values(step, [](Json& values) { values["step"] = 7; });
  CHECK(refusal(step).empty());
  forge_values(step, [](Json& values) { values["values"]["step"] = std::uint64_t{1} << 63; });
  CHECK_THAT(refusal(step), Contains("state.json is damaged"));
}

}  // namespace
}  // namespace trainctl::checkpoint
