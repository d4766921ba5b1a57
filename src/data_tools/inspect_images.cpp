#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "core/error.h"
#include "core/file.h"
#include "data_tools/inspect_rows.h"
#include "dataset/files/directory_walk.h"
#include "dataset/image/codec/decode.h"
#include "dataset/table/table_data.h"
#include "dataset/text/reading/table_layout.h"
#include "dataset/text/reading/text_file.h"

namespace trainctl::data_tools {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostOpened = 300;
constexpr std::array kTrainNames = {"train", "training"};
constexpr std::array kEvalNames = {"val", "valid", "validation", "eval", "dev"};
constexpr std::array kTestNames = {"test", "testing"};

template <std::size_t Count>
std::optional<fs::path> part_of(const fs::path& directory, const std::array<const char*, Count>& names) {
  for (const char* name : names)
    if (fs::is_directory(directory / name)) return directory / name;
  return std::nullopt;
}

/// Returns the images of each class, by the name of its folder.
std::map<std::string, std::vector<fs::path>> images_by_class(const fs::path& directory) {
  std::map<std::string, std::vector<fs::path>> classes;
  for (const std::string& folder : dataset::list_folder(directory).folders) {
    std::vector<fs::path> images = dataset::files_below(directory / folder, dataset::ImageFolderConfig().extensions);
    if (!images.empty()) classes[folder] = std::move(images);
  }
  return classes;
}

std::int64_t median(std::vector<std::int64_t> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// Opens some of the images, evenly spread, for their sizes.
void look_at_sizes(const std::vector<fs::path>& images, SeenImages& seen) {
  std::vector<std::int64_t> widths;
  std::vector<std::int64_t> heights;
  const std::size_t stride = images.size() / kMostOpened + 1;
  for (std::size_t i = 0; i < images.size(); i += stride) {
    ++seen.num_looked_at;
    try {
      const std::string content = core::read_file(images[i]);
      const std::span<const char> bytes(content.data(), content.size());
      const dataset::ImageInfo info = dataset::probe({.bytes = std::as_bytes(bytes), .name = images[i].string()});
      widths.push_back(info.width);
      heights.push_back(info.height);
      if (info.orientation != 1) ++seen.num_turned;
    } catch (const core::Error&) {
      ++seen.num_damaged;
    }
  }
  seen.median_width = median(std::move(widths));
  seen.median_height = median(std::move(heights));
}

/// Returns the names of the files and folders that hold none of the images.
std::vector<std::string> names_beside(const fs::path& directory, const SeenImages& seen) {
  const auto is_used = [&](const fs::path& path) {
    const std::string text = path.string();
    return text == seen.train || text == seen.eval || text == seen.test || (seen.labels && text == seen.labels->table);
  };
  const bool has_classes = seen.train == directory.string() && !seen.labels;
  const dataset::FolderEntries entries = dataset::list_folder(directory);
  std::vector<std::string> names;
  for (const std::string& name : entries.folders)
    if (!has_classes && !is_used(directory / name)) names.push_back(name);
  for (const std::string& name : entries.files)
    if (!is_used(directory / name) && !(seen.labels && is_image(name))) names.push_back(name);
  std::sort(names.begin(), names.end());
  return names;
}

/// Finds the columns of file names and of labels; null if no column has the names of files in the directory.
std::optional<SeenLabels> labels_in(const fs::path& directory, const fs::path& table, const InspectOptions& options,
                                    Counts& classes) {
  constexpr std::size_t kMostRows = 100'000;
  const dataset::TextFile content(table);
  const dataset::TableLayout layout = dataset::layout_of_table(
      table, content.text(), dataset::known_layout(dataset::TableConfig(), table), dataset::ColumnChoice::by_number);
  std::vector<std::vector<std::string>> rows;
  dataset::TableRecords records = layout.open_rows(table, content.text());
  while (rows.size() < kMostRows && records.next()) rows.push_back(records.cells());
  const std::size_t width = rows.empty() ? 0 : rows.front().size();
  const auto is_file = [&](const std::vector<std::string>& row, std::size_t column) {
    return column < row.size() && !row[column].empty() && fs::is_regular_file(directory / row[column]);
  };
  const auto name_of = [&](std::size_t column) {
    return column < layout.header.size() ? layout.header[column] : std::to_string(column + 1);
  };
  for (std::size_t file = 0; file < width && width > 1; ++file) {
    if (!std::all_of(rows.begin(), rows.begin() + std::min<std::ptrdiff_t>(20, std::ssize(rows)),
                     [&](const auto& row) { return is_file(row, file); }))
      continue;
    const std::size_t label =
        options.label.empty() ? (file == 0 ? 1 : 0) : dataset::column_of(options.label, layout.header, table.string());
    std::map<std::string, std::int64_t> counts;
    for (const auto& row : rows)
      if (label < row.size()) ++counts[row[label]];
    classes.assign(counts.begin(), counts.end());
    return SeenLabels{.table = table.string(), .file = name_of(file), .label = name_of(label)};
  }
  return std::nullopt;
}

void sort_by_count(Counts& classes) {
  std::stable_sort(classes.begin(), classes.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
}

}  // namespace

bool is_image(const fs::path& file) {
  return dataset::has_ending(file.string(), dataset::ImageFolderConfig().extensions);
}

SeenImages inspect_images(const fs::path& directory, const InspectOptions& options) {
  SeenImages seen{.train = "", .eval = std::nullopt, .classes = {}};
  const std::optional<fs::path> train = part_of(directory, kTrainNames);
  seen.train = train.value_or(directory).string();
  if (!options.eval.empty())
    seen.eval = options.eval;
  else if (train)
    if (const std::optional<fs::path> eval = part_of(directory, kEvalNames)) seen.eval = eval->string();
  if (const std::optional<fs::path> test = part_of(directory, kTestNames); train && test) seen.test = test->string();
  if (!seen.eval) seen.eval = std::exchange(seen.test, std::nullopt);  // a test set alone is taken for evaluation
  const std::map<std::string, std::vector<fs::path>> classes = images_by_class(seen.train);
  std::vector<fs::path> all;
  for (const auto& [name, images] : classes) {
    seen.classes.emplace_back(name, static_cast<std::int64_t>(images.size()));
    all.insert(all.end(), images.begin(), images.end());
  }
  sort_by_count(seen.classes);
  seen.num_images = static_cast<std::int64_t>(all.size());
  look_at_sizes(all, seen);
  seen.passed_over = names_beside(directory, seen);
  return seen;
}

std::optional<SeenImages> inspect_labelled_images(const fs::path& directory, const fs::path& table,
                                                  const InspectOptions& options) {
  const dataset::TextFormat format = dataset::format_of(table.string(), dataset::TextFormat::auto_);
  if (format == dataset::TextFormat::jsonl || format == dataset::TextFormat::parquet) return std::nullopt;
  SeenImages seen{.train = directory.string(), .eval = std::nullopt, .classes = {}};
  seen.labels = labels_in(directory, table, options, seen.classes);
  if (!seen.labels) return std::nullopt;
  sort_by_count(seen.classes);
  std::vector<fs::path> all;
  for (const std::string& name : dataset::list_folder(directory).files)
    if (is_image(name)) all.push_back(directory / name);
  seen.num_images = static_cast<std::int64_t>(all.size());
  look_at_sizes(all, seen);
  seen.passed_over = names_beside(directory, seen);
  return seen;
}

}  // namespace trainctl::data_tools
