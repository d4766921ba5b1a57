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
  static constexpr const char* kEndings[] = {".csv", ".tsv", ".tab", ".data", ".jsonl", ".ndjson", ".parquet", ".pq"};
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

/// The sets of a dataset in Hugging Face layout: `train.csv` or `data/train-00000-of-00003.parquet`.
struct HubSets {
  fs::path first;  // file of the training set
  std::string train;
  std::optional<std::string> eval;
};

/// Returns the file or the pattern of a set's files: those whose name begins so; "" if there is none.
std::string files_of_set(const fs::path& directory, const std::vector<fs::path>& rows, const std::string& set) {
  std::vector<fs::path> files;
  for (const fs::path& file : rows) {
    const std::string name = file.filename().string();
    if (name.starts_with(set + ".") || (name.starts_with(set + "-") && name.find("-of-") != std::string::npos))
      files.push_back(file);
  }
  if (files.empty()) return "";
  if (files.size() == 1) return files.front().string();
  return (directory / (set + "-*" + files.front().extension().string())).string();
}

/// Looks in the directory, and in the folders in it, for the files that a download from the hub has.
std::optional<HubSets> hub_sets(const fs::path& directory) {
  std::vector<fs::path> places = {directory};
  for (const fs::directory_entry& entry : fs::directory_iterator(directory))
    if (entry.is_directory() && !entry.path().filename().string().starts_with('.')) places.push_back(entry.path());
  std::sort(places.begin() + 1, places.end());
  for (const fs::path& place : places) {
    std::vector<fs::path> rows;
    for (const fs::directory_entry& entry : fs::directory_iterator(place))
      if (entry.is_regular_file() && is_rows(entry.path())) rows.push_back(entry.path());
    std::sort(rows.begin(), rows.end());
    const std::string train = files_of_set(place, rows, "train");
    if (train.empty()) continue;
    HubSets sets{.first = train, .train = train, .eval = std::nullopt};
    if (train.find('*') != std::string::npos)
      sets.first = *std::find_if(rows.begin(), rows.end(),
                                 [](const fs::path& file) { return file.filename().string().starts_with("train-"); });
    for (const char* name : {"validation", "valid", "val", "dev", "test"})
      if (const std::string eval = files_of_set(place, rows, name); !sets.eval && !eval.empty()) sets.eval = eval;
    return sets;
  }
  return std::nullopt;
}

/// Looks at rows: conversations, labelled texts or a table.
SeenData inspect_file(const fs::path& file, const InspectOptions& options) {
  if (const std::optional<SeenChat> chat = inspect_chat(file, options)) return *chat;
  return inspect_rows(file, options);
}

SeenData inspect_directory(const fs::path& directory, const InspectOptions& options) {
  std::vector<fs::path> files;
  for (const fs::directory_entry& entry : fs::directory_iterator(directory))
    if (entry.is_regular_file()) files.push_back(entry.path());
  if (fs::is_regular_file(directory / "config.json") && fs::is_regular_file(directory / "model.safetensors"))
    throw core::Error(directory.string() + " holds a trained model in Hugging Face layout, and no data")
        .hint("give --from the data, and set model.init_from: " + directory.string() + " in the experiment");
  if (const std::optional<HubSets> sets = hub_sets(directory)) {
    SeenRows seen = inspect_rows(sets->first, options);
    seen.train = sets->train;
    if (options.eval.empty()) seen.eval = sets->eval;
    if (sets->train.find('*') != std::string::npos) seen.is_part = true;
    return seen;
  }
  if (const std::optional<fs::path> rows = rows_in(files)) return inspect_file(*rows, options);
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
  if (is_rows(path)) return inspect_file(path, options);
  return SeenTexts{.path = path.string(), .num_files = 1, .num_bytes = static_cast<std::int64_t>(fs::file_size(path))};
}

}  // namespace trainctl::data_tools
