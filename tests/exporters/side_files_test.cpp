#include "exporters/side_files.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/file.h"
#include "support/temporary_directory.h"

namespace trainctl::exporters {
namespace {

using testing::TemporaryDirectory;
using Names = std::vector<std::string>;

void write(const std::filesystem::path& path, const std::string& text) {
  std::filesystem::create_directories(path.parent_path());
  core::write_file_atomically(path, text);
}

/// Writes the files and a model.json, as an export does.
void write_export(const std::filesystem::path& directory, const Names& names) {
  std::vector<std::filesystem::path> files;
  for (const std::string& name : names) {
    files.push_back(directory / name);
    write(files.back(), "of an export");
  }
  ModelCard card;
  card.side_files = checksums_of_side_files(directory, files);
  write(directory / kModelJson, notes_of(card).at(kModelJson));
}

TEST_CASE("an export finds the files that an older one left and that programs would obey", "[exporters][regression]") {
  const TemporaryDirectory out;
  CHECK(stale_files(out / "none", ArtefactFormat::hugging_face, {}).empty());
  write_export(out.path(), {"vocab.txt", "special_tokens_map.json", "generation_config.json", "adapter_config.json",
                            "weights.txt", "additional_chat_templates/tool_use.jinja"});
  CHECK(stale_files(out.path(), ArtefactFormat::hugging_face, {"vocab.txt"}) ==
        Names{"special_tokens_map.json", "additional_chat_templates/tool_use.jinja", "generation_config.json",
              "adapter_config.json"});
  CHECK(stale_files(out.path(), ArtefactFormat::onnx, {"vocab.txt"}) ==
        Names{"special_tokens_map.json", "additional_chat_templates/tool_use.jinja"});
  // A second export of another format keeps the list.
  write_export(out.path(), {"vocab.txt"});
  CHECK(stale_files(out.path(), ArtefactFormat::peft, {"vocab.txt"}).size() == 3);
}

TEST_CASE("an export refuses files that programs would obey and that no export wrote", "[exporters][regression]") {
  const TemporaryDirectory out;
  const auto refusal = [&](const std::set<std::string>& written) -> std::string {
    try {
      stale_files(out.path(), ArtefactFormat::hugging_face, written);
    } catch (const core::Error& error) {
      return error.what();
    }
    return "";
  };
  write(out / "vocab.txt", "a user's");
  CHECK_THAT(refusal({}), Catch::Contains("vocab.txt"));
  CHECK(refusal({"vocab.txt"}).empty());
  write(out / kModelJson, R"({"side_files": {"vocab.txt": ")" + core::checksum_file(out / "vocab.txt") + "\"}}");
  CHECK_THAT(refusal({}), Catch::Contains("vocab.txt"));  // another program's
  write_export(out.path(), {"vocab.txt", "merges.txt"});
  CHECK(refusal({}).empty());
  write(out / "vocab.txt", "changed");
  CHECK_THAT(refusal({}), Catch::Contains("vocab.txt") && !Catch::Contains("merges.txt"));
}

}  // namespace
}  // namespace trainctl::exporters
