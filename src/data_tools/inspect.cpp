#include "data_tools/inspect.h"

#include <algorithm>
#include <cctype>
#include <utility>

#include "core/error.h"
#include "data_tools/inspect_rows.h"
#include "dataset/files/directory_walk.h"
#include "dataset/text/reading/text_file.h"

namespace trainctl::data_tools {
namespace {

namespace fs = std::filesystem;

bool is_plain_text(const fs::path& file) {
  static const std::vector<std::string> kEndings = {".txt", ".md"};
  return dataset::has_ending(file.string(), kEndings);
}

bool is_rows(const fs::path& file) {
  return dataset::ends_in_any_case(file.string(), ".data") ||
         dataset::format_of(file.string(), dataset::TextFormat::auto_) != dataset::TextFormat::text;
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
  std::optional<std::string> test{};
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
  for (const std::string& name : dataset::list_folder(directory).folders) places.push_back(directory / name);
  for (const fs::path& place : places) {
    std::vector<fs::path> rows;
    for (const std::string& name : dataset::list_folder(place).files)
      if (is_rows(name)) rows.push_back(place / name);
    const std::string train = files_of_set(place, rows, "train");
    if (train.empty()) continue;
    HubSets sets{.first = train, .train = train, .eval = std::nullopt};
    if (train.find('*') != std::string::npos)
      sets.first = *std::find_if(rows.begin(), rows.end(),
                                 [](const fs::path& file) { return file.filename().string().starts_with("train-"); });
    for (const char* name : {"validation", "valid", "val", "dev"})
      if (const std::string eval = files_of_set(place, rows, name); !sets.eval && !eval.empty()) sets.eval = eval;
    if (const std::string test = files_of_set(place, rows, "test"); !test.empty()) sets.test = test;
    if (!sets.eval) sets.eval = std::exchange(sets.test, std::nullopt);  // a test set alone is taken for evaluation
    return sets;
  }
  return std::nullopt;
}

/// Looks at rows: conversations, texts, labelled texts or a table.
SeenData inspect_file(const fs::path& file, const InspectOptions& options) {
  if (const std::optional<SeenChat> chat = inspect_chat(file, options)) return *chat;
  SeenRows seen = inspect_rows(file, options);
  if (!seen.label.empty()) return seen;
  return SeenTexts{.path = file.string(),
                   .num_files = 1,
                   .num_bytes = static_cast<std::int64_t>(fs::file_size(file)),
                   .member = seen.text};
}

/// The files of a directory, and of the folders in it that are not hidden.
struct Listing {
  std::vector<fs::path> files;  // in the directory itself, sorted
  std::int64_t num_images = 0;
  std::int64_t num_others = 0;
};

Listing list(const fs::path& directory) {
  Listing listing;
  dataset::walk_folders(directory, "", [&](const std::string& folder, const dataset::FolderEntries& entries) {
    for (const std::string& name : entries.files) {
      ++(is_image(name) ? listing.num_images : listing.num_others);
      if (folder.empty()) listing.files.push_back(directory / name);
    }
  });
  return listing;
}

/// Returns the names of a directory's files that `is_used` doesn't hold for.
template <class IsUsed>
std::vector<std::string> other_names(const std::vector<fs::path>& files, const IsUsed& is_used) {
  std::vector<std::string> names;
  for (const fs::path& file : files)
    if (!is_used(file)) names.push_back(file.filename().string());
  return names;
}

/// Looks at images in folders of classes, or beside a table of their labels. Null if there are neither.
std::optional<SeenImages> images_in(const fs::path& directory, const Listing& listing, const InspectOptions& options) {
  SeenImages images = inspect_images(directory, options);
  if (images.classes.size() >= 2) return images;
  for (const fs::path& file : listing.files)
    if (is_rows(file))
      if (std::optional<SeenImages> labelled = inspect_labelled_images(directory, file, options)) return labelled;
  return std::nullopt;
}

SeenData inspect_directory(const fs::path& directory, const InspectOptions& options) {
  if (fs::is_regular_file(directory / "config.json") && fs::is_regular_file(directory / "model.safetensors"))
    throw core::Error(directory.string() + " holds a trained model in Hugging Face layout, and no data")
        .hint("give --from the data, and set model.init_from: " + directory.string() + " in the experiment");
  const Listing listing = list(directory);
  if (listing.num_images > listing.num_others)
    if (std::optional<SeenImages> images = images_in(directory, listing, options)) return *std::move(images);
  if (const std::optional<HubSets> sets = hub_sets(directory)) {
    SeenRows seen = inspect_rows(sets->first, options);
    seen.train = sets->train;
    seen.test = sets->test;
    if (options.eval.empty()) seen.eval = sets->eval;
    if (sets->train.find('*') != std::string::npos) seen.is_part = true;
    seen.passed_over = other_names(listing.files, is_rows);
    return seen;
  }
  if (const std::optional<fs::path> rows = rows_in(listing.files)) {
    SeenData seen = inspect_file(*rows, options);
    if (auto* table = std::get_if<SeenRows>(&seen))
      table->passed_over = other_names(listing.files, [&](const fs::path& file) {
        return file == *rows || file.string() == table->eval || file.string() == table->test;
      });
    return seen;
  }
  SeenTexts texts{.path = directory.string()};
  for (const fs::path& file : listing.files)
    if (is_plain_text(file)) {
      ++texts.num_files;
      texts.num_bytes += static_cast<std::int64_t>(fs::file_size(file));
    }
  texts.passed_over = other_names(listing.files, is_plain_text);
  for (const char* ending : {".txt", ".md"})
    if (!texts.passed_over.empty() && std::any_of(listing.files.begin(), listing.files.end(),
                                                  [&](const fs::path& file) { return file.extension() == ending; }))
      texts.patterns.push_back((directory / ("*" + std::string(ending))).string());
  if (texts.num_files > 0) return texts;
  if (std::optional<SeenImages> images = images_in(directory, listing, options)) return *std::move(images);
  throw core::Error(directory.string() + " has no data of a known kind")
      .hint("expected a folder of images for each class, one table or file of labelled texts, or .txt files");
}

/// Refuses files that look like data and are of no kind that is read.
void refuse_other_kinds(const fs::path& file) {
  std::string ending = file.extension().string();
  std::transform(ending.begin(), ending.end(), ending.begin(), [](unsigned char c) { return std::tolower(c); });
  const auto refuse = [&](const std::string& what, const std::string& hint) {
    throw core::Error(file.string() + " is " + what + ", which is no data that is read here").hint(hint);
  };
  if (is_image(file)) refuse("one image", "give --from a directory with a folder of images for each class");
  if (ending == ".xlsx" || ending == ".xls" || ending == ".ods") refuse("a spreadsheet", "save its sheet as CSV");
  if (ending == ".json") refuse("a JSON document", "one object a line is read: jq -c '.[]' data.json > data.jsonl");
  if (ending == ".zip" || ending == ".gz" || ending == ".tgz" || ending == ".bz2" || ending == ".xz" ||
      ending == ".tar")
    refuse("an archive", "unpack it; shards of samples are read by dataset.kind: webdataset");
}

}  // namespace

SeenData inspect(const fs::path& path, const InspectOptions& options) {
  if (!fs::exists(path)) throw core::Error("there is no file or directory " + path.string());
  if (fs::is_directory(path)) return inspect_directory(path, options);
  if (is_rows(path)) return inspect_file(path, options);
  refuse_other_kinds(path);
  const dataset::TextFile text(path);  // refuses what isn't text
  return SeenTexts{.path = path.string(), .num_files = 1, .num_bytes = static_cast<std::int64_t>(fs::file_size(path))};
}

}  // namespace trainctl::data_tools
