#include "data_tools/inspect.h"

#include <algorithm>

#include "core/error.h"
#include "data_tools/inspect_rows.h"

namespace trainctl::data_tools {
namespace {

namespace fs = std::filesystem;

bool is_plain_text(const fs::path& file) {
  return file.extension() == ".txt" || file.extension() == ".md";
}

bool is_rows(const fs::path& file) {
  static constexpr const char* kEndings[] = {".csv", ".tsv", ".tab", ".data", ".jsonl", ".ndjson"};
  return std::any_of(std::begin(kEndings), std::end(kEndings),
                     [&](const char* ending) { return file.extension() == ending; });
}

/// Returns the file of rows in a directory that training takes: the one called `train`, else the only one.
std::optional<fs::path> rows_in(const std::vector<fs::path>& files) {
  std::vector<fs::path> rows;
  for (const fs::path& file : files)
    if (is_rows(file)) rows.push_back(file);
  for (const fs::path& file : rows)
    if (file.filename().string().find("train") != std::string::npos) return file;
  return rows.size() == 1 ? std::optional(rows.front()) : std::nullopt;
}

SeenData inspect_directory(const fs::path& directory, const InspectOptions& options) {
  std::vector<fs::path> files;
  for (const fs::directory_entry& entry : fs::directory_iterator(directory))
    if (entry.is_regular_file()) files.push_back(entry.path());
  if (fs::is_regular_file(directory / "config.json") && fs::is_regular_file(directory / "model.safetensors"))
    throw core::Error(directory.string() + " holds a trained model in Hugging Face layout, and no data")
        .hint("give --from the data, and set model.init_from: " + directory.string() + " in the experiment");
  if (const std::optional<fs::path> rows = rows_in(files)) return inspect_rows(*rows, options);
  SeenTexts texts{.path = directory.string()};
  for (const fs::path& file : files)
    if (is_plain_text(file)) {
      ++texts.num_files;
      texts.num_bytes += static_cast<std::int64_t>(fs::file_size(file));
    }
  if (texts.num_files > 0) return texts;
  SeenImages images = inspect_images(directory, options);
  if (images.classes.size() >= 2) return images;
  throw core::Error(directory.string() + " has no data of a known kind")
      .hint("expected a folder of images for each class, one table or file of labelled texts, or .txt files");
}

}  // namespace

SeenData inspect(const fs::path& path, const InspectOptions& options) {
  if (!fs::exists(path)) throw core::Error("there is no file or directory " + path.string());
  if (fs::is_directory(path)) return inspect_directory(path, options);
  if (is_rows(path)) return inspect_rows(path, options);
  if (path.extension() == ".parquet" || path.extension() == ".pq")
    throw core::Error(path.string() + ": columns of a Parquet file aren't looked at")
        .hint("write dataset: {kind: table, train: [" + path.string() + "], label: COLUMN}");
  return SeenTexts{.path = path.string(), .num_files = 1, .num_bytes = static_cast<std::int64_t>(fs::file_size(path))};
}

}  // namespace trainctl::data_tools
