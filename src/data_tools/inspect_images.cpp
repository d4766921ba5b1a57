#include <algorithm>
#include <array>
#include <cctype>
#include <map>
#include <set>
#include <span>
#include <utility>

#include "core/error.h"
#include "core/file.h"
#include "core/text.h"
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

/// Names of folders that hold the parts of samples, and no class.
constexpr std::string_view kPartNames[] = {
    "images",  "image",       "imgs",        "img",          "jpegimages",    "pngimages",         "masks",
    "labels",  "annotation",  "annots",      "segmentation", "segmentations", "segmentationclass", "segmentationobject",
    "trimaps", "annotations", "groundtruth", "ground_truth"};

/// Returns the folder with the folders of classes: the directory itself, or the one folder in it. An archive is often
/// unpacked into a folder of its own name.
fs::path class_root(const fs::path& directory) {
  const std::vector<std::string> folders = dataset::list_folder(directory).folders;
  if (folders.size() != 1 || dataset::list_folder(directory / folders.front()).folders.empty()) return directory;
  return class_root(directory / folders.front());
}

/// Finds the folders of sets, by their names in any case. A set has a folder for each class.
std::map<NamedSet, fs::path> set_folders(const fs::path& directory) {
  std::map<NamedSet, fs::path> sets;
  for (const std::string& name : dataset::list_folder(directory).folders) {
    const std::optional<NamedSet> set = set_of_name(name);
    if (!set) continue;
    const fs::path root = class_root(directory / name);
    if (!dataset::list_folder(root).folders.empty()) sets.emplace(*set, root);
  }
  return sets;
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
  if (widths.empty() && seen.num_looked_at > 0)
    throw core::Error("none of " + core::format_count(seen.num_looked_at) + " images that were opened in " +
                      seen.train + " can be read")
        .hint("docs/images.md lists the formats; trainctl data verify says what is wrong with each file");
  seen.median_width = median(std::move(widths));
  seen.median_height = median(std::move(heights));
}

/// Returns the names of the files and folders that hold none of the images.
std::vector<std::string> names_beside(const fs::path& directory, const SeenImages& seen) {
  const auto is_used = [&](const fs::path& path) {
    const std::string text = path.string();
    const auto leads_to = [&](const std::string& used) { return used == text || used.starts_with(text + "/"); };
    return leads_to(seen.train) || (seen.eval && leads_to(*seen.eval)) || (seen.test && leads_to(*seen.test)) ||
           (seen.labels && text == seen.labels->table);
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

/// Returns whether there is an image of this name, or of this name with an ending.
bool is_image_below(const fs::path& directory, const std::string& name) {
  if (name.empty()) return false;
  const std::vector<std::string> endings = dataset::ImageFolderConfig().extensions;
  return fs::is_regular_file(directory / name) || std::any_of(endings.begin(), endings.end(), [&](const auto& ending) {
           return fs::is_regular_file(directory / (name + "." + ending));
         });
}

/// Rows of a table of labels.
struct LabelRows {
  fs::path table;
  std::vector<std::string> header{};
  std::vector<std::vector<std::string>> rows{};

  std::size_t width() const { return rows.empty() ? 0 : rows.front().size(); }
  std::string name_of(std::size_t column) const {
    return column < header.size() ? header[column] : std::to_string(column + 1);
  }
};

LabelRows label_rows(const fs::path& table) {
  constexpr std::size_t kMostRows = 100'000;
  const dataset::TextFile content(table);
  const dataset::TableLayout layout = dataset::layout_of_table(
      table, content.text(), dataset::known_layout(dataset::TableConfig(), table), dataset::ColumnChoice::by_number);
  LabelRows labels{.table = table, .header = layout.header};
  dataset::TableRecords records = layout.open_rows(table, content.text());
  while (labels.rows.size() < kMostRows && records.next()) labels.rows.push_back(records.cells());
  return labels;
}

/// Returns the column that has the names of images below the directory, each once; none if there is none.
std::optional<std::size_t> column_of_images(const fs::path& directory, const LabelRows& labels) {
  const auto first_rows = std::span(labels.rows).first(std::min<std::size_t>(20, labels.rows.size()));
  for (std::size_t column = 0; column < labels.width(); ++column) {
    std::set<std::string> names;
    const bool all = std::all_of(first_rows.begin(), first_rows.end(), [&](const auto& row) {
      return column < row.size() && is_image_below(directory, row[column]) && names.insert(row[column]).second;
    });
    if (all) return column;
  }
  return std::nullopt;
}

/// Returns the column of labels: the one that the user names, the one of a usual name, or the only other one.
std::size_t column_of_labels(const LabelRows& labels, std::size_t file, const InspectOptions& options) {
  if (!options.label.empty()) return dataset::column_of(options.label, labels.header, labels.table.string());
  constexpr std::array kUsual = {"label", "labels", "class", "target", "category"};
  for (std::size_t column = 0; column < labels.header.size(); ++column)
    if (std::find(kUsual.begin(), kUsual.end(), lower_case(labels.header[column])) != kUsual.end()) return column;
  if (labels.width() == 2) return 1 - file;
  throw core::Error(labels.table.string() + " has the names of images in column '" + labels.name_of(file) +
                    "', and more than one column beside it")
      .hint("name the column with the label by --label; several labels for an image: docs/images.md");
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
  const std::map<NamedSet, fs::path> sets = set_folders(class_root(directory));
  const auto set = [&](NamedSet name) -> std::optional<std::string> {
    const auto found = sets.find(name);
    return found == sets.end() ? std::nullopt : std::optional(found->second.string());
  };
  const std::optional<std::string> train = set(NamedSet::train);
  seen.train = train.value_or(class_root(directory).string());
  if (train) {
    seen.eval = set(NamedSet::eval);
    seen.test = set(NamedSet::test);
  }
  if (!options.eval.empty()) seen.eval = options.eval;
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

std::optional<core::Error> why_no_classes(const SeenImages& seen) {
  std::vector<std::string> sets;
  for (const auto& [name, count] : seen.classes) {
    if (std::ranges::find(kPartNames, lower_case(name)) != std::end(kPartNames))
      return core::Error(seen.train + " has a folder '" + name + "', which is the name of no class")
          .hint(
              "images with masks are read by dataset.kind: segmentation_folder (docs/images.md has an example); "
              "otherwise give --from the directory that has a folder of images for each class");
    if (set_of_name(name)) sets.push_back(name);
  }
  const bool are_vehicles = sets.size() == 1 && lower_case(sets.front()) == "train" && seen.classes.size() > 2;
  if (sets.empty() || are_vehicles) return std::nullopt;
  return core::Error(seen.train + " has folders called after sets, " + core::list_words(sets) +
                     ", and none to train on with a folder for each class")
      .hint("give --from the directory that has a folder of images for each class, and --eval another such one");
}

std::optional<SeenImages> inspect_labelled_images(const fs::path& directory, const fs::path& table,
                                                  const InspectOptions& options) {
  const dataset::TextFormat format = dataset::format_of(table.string(), dataset::TextFormat::auto_);
  if (format == dataset::TextFormat::jsonl || format == dataset::TextFormat::parquet) return std::nullopt;
  const LabelRows labels = label_rows(table);
  std::vector<fs::path> places = {directory};
  for (const std::string& folder : dataset::list_folder(directory).folders) places.push_back(directory / folder);
  for (const fs::path& place : places) {
    const std::optional<std::size_t> file = column_of_images(place, labels);
    if (!file) continue;
    if (!options.eval.empty())
      throw core::Error("--eval names images, and the labels of " + place.string() + " are in a table")
          .hint("an evaluation set needs a table of its own: docs/images.md has an example");
    const std::size_t label = column_of_labels(labels, *file, options);
    SeenImages seen{.train = place.string(), .eval = std::nullopt, .classes = {}};
    seen.labels = {.table = table.string(), .file = labels.name_of(*file), .label = labels.name_of(label)};
    std::map<std::string, std::int64_t> counts;
    for (const auto& row : labels.rows)
      if (label < row.size()) ++counts[row[label]];
    seen.classes.assign(counts.begin(), counts.end());
    sort_by_count(seen.classes);
    check_classes(table.string() + ": column '" + seen.labels->label + "'", seen.classes);
    std::vector<fs::path> all;
    for (const std::string& name : dataset::list_folder(place).files)
      if (is_image(name)) all.push_back(place / name);
    seen.num_images = static_cast<std::int64_t>(all.size());
    look_at_sizes(all, seen);
    seen.passed_over = names_beside(directory, seen);
    return seen;
  }
  return std::nullopt;
}

std::optional<NamedSet> set_of_name(std::string_view name) {
  static const std::map<std::string, NamedSet> kSets = {{"train", NamedSet::train},     {"training", NamedSet::train},
                                                        {"val", NamedSet::eval},        {"valid", NamedSet::eval},
                                                        {"validation", NamedSet::eval}, {"eval", NamedSet::eval},
                                                        {"evaluation", NamedSet::eval}, {"dev", NamedSet::eval},
                                                        {"test", NamedSet::test},       {"testing", NamedSet::test}};
  constexpr std::array<std::string_view, 7> kTails = {"dataset", "data", "sets", "set", "images", "imgs", "split"};
  const auto is_letter = [](unsigned char c) { return std::isalpha(c) != 0; };
  std::string words = lower_case(std::string(name));
  while (true) {
    words.erase(std::find_if(words.rbegin(), words.rend(), is_letter).base(), words.end());
    const std::string last(std::find_if_not(words.rbegin(), words.rend(), is_letter).base(), words.end());
    if (const auto found = kSets.find(last); found != kSets.end()) return found->second;
    const auto tail = std::find_if(kTails.begin(), kTails.end(), [&](auto one) { return words.ends_with(one); });
    if (tail == kTails.end()) return std::nullopt;
    words.resize(words.size() - tail->size());
  }
}

}  // namespace trainctl::data_tools
