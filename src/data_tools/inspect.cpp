#include "data_tools/inspect.h"

#include <algorithm>
#include <concepts>
#include <initializer_list>
#include <utility>

#include "core/error.h"
#include "core/text.h"
#include "data_tools/inspect_rows.h"
#include "dataset/files/directory_walk.h"
#include "dataset/files/file_list.h"
#include "dataset/text/reading/text_file.h"

namespace trainctl::data_tools {
namespace {

namespace fs = std::filesystem;

/// A readme or a license says something about the data.
bool is_plain_text(const fs::path& file) {
  static const std::vector<std::string> kEndings = {".txt", ".md"};
  const std::string name = lower_case(file.filename().string());
  return dataset::has_ending(name, kEndings) && !name.starts_with("readme") && !name.starts_with("license");
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
    if (lower_case(file.filename().string()).find("train") != std::string::npos) return file;
  return rows.size() == 1 ? std::optional(rows.front()) : std::nullopt;
}

/// The sets beside one to train on.
struct OtherSets {
  std::optional<std::string> eval{};
  std::optional<std::string> test{};
};

/// Returns the file beside `file` whose name has the first of these words in place of `train` that any file has, in any
/// case.
std::optional<std::string> set_beside(const fs::path& file, std::initializer_list<const char*> words) {
  const std::string name = lower_case(file.filename().string());
  const std::size_t begin = name.find("train");
  if (begin == std::string::npos) return std::nullopt;
  const std::size_t end = begin + (name.find("training") == begin ? 8 : 5);
  const fs::path folder = file.parent_path();
  const std::vector<std::string> beside = dataset::list_folder(folder.empty() ? "." : folder).files;
  for (const std::string word : words)
    for (const std::string& ending : {word, word + "ing"}) {
      const std::string wanted = name.substr(0, begin) + ending + name.substr(end);
      const auto found =
          std::find_if(beside.begin(), beside.end(), [&](const auto& other) { return lower_case(other) == wanted; });
      if (found != beside.end()) return (folder / *found).string();
    }
  return std::nullopt;
}

/// Finds the sets beside a file: `validation` and `test` in place of `train`, or adult.test beside adult.data.
OtherSets sets_beside(const fs::path& file) {
  OtherSets sets{.eval = set_beside(file, {"eval", "valid", "validation", "val", "dev"}),
                 .test = set_beside(file, {"test"})};
  if (const fs::path test = fs::path(file).replace_extension(".test");
      lower_case(file.extension().string()) == ".data" && fs::is_regular_file(test))
    sets.test = test.string();
  return sets;
}

/// Notes what rows of another set lack, and returns whether they may be evaluated. Competitions give a test set without
/// labels. Columns without names can't be told apart.
bool note_missing(const std::string& files, SeenRows& seen) {
  if (!seen.has_header) return true;
  const MissingValues missing = missing_values(dataset::expand_files({&files, 1}, {}, "eval").front(), seen);
  if (missing.every_label) return false;
  seen.sets_miss_labels = seen.sets_miss_labels || missing.any_label;
  seen.sets_miss_numbers = seen.sets_miss_numbers || missing.any_number;
  return true;
}

/// Takes the sets that the user names, or that lie beside the one to train on. A test set alone is taken for
/// evaluation.
template <class Seen>
void take_sets(const InspectOptions& options, OtherSets sets, Seen& seen) {
  if constexpr (std::same_as<Seen, SeenRows>)
    for (std::optional<std::string>* set : {&sets.eval, &sets.test})
      if (*set && !note_missing(**set, seen)) {
        seen.unlabelled.push_back(fs::path(**set).filename().string());
        *set = std::nullopt;
      }
  if constexpr (std::same_as<Seen, SeenRows>)
    if (!options.eval.empty()) note_missing(options.eval, seen);
  seen.eval = options.eval.empty() ? sets.eval : std::optional(options.eval);
  seen.test = sets.test;
  if (!seen.eval) seen.eval = std::exchange(seen.test, std::nullopt);
  if (seen.test == seen.eval) seen.test = std::nullopt;
}

/// The sets of a dataset in Hugging Face layout: `train.csv` or `data/train-00000-of-00003.parquet`.
struct HubSets {
  fs::path first;  // file of the training set
  std::string train;
  OtherSets others{};
};

/// Returns the files of a set: those whose name begins so, in any case.
std::vector<fs::path> files_of_set(const std::vector<fs::path>& rows, const std::string& set) {
  std::vector<fs::path> files;
  for (const fs::path& file : rows) {
    const std::string name = lower_case(file.filename().string());
    if (name.starts_with(set + ".") || (name.starts_with(set + "-") && name.find("-of-") != std::string::npos))
      files.push_back(file);
  }
  return files;
}

/// Returns the file, or the pattern of several.
std::string pattern_of(const std::vector<fs::path>& files) {
  const fs::path& first = files.front();
  if (files.size() == 1) return first.string();
  const std::string name = first.filename().string();
  return (first.parent_path() / (name.substr(0, name.find('-')) + "-*" + first.extension().string())).string();
}

/// Looks in the directory, and in the folders in it, for the files that a download from the hub has.
std::optional<HubSets> hub_sets(const fs::path& directory) {
  std::vector<fs::path> places = {directory};
  for (const std::string& name : dataset::list_folder(directory).folders) places.push_back(directory / name);
  for (const fs::path& place : places) {
    std::vector<fs::path> rows;
    for (const std::string& name : dataset::list_folder(place).files)
      if (is_rows(name)) rows.push_back(place / name);
    const std::vector<fs::path> train = files_of_set(rows, "train");
    if (train.empty()) continue;
    HubSets sets{.first = train.front(), .train = pattern_of(train)};
    for (const char* name : {"validation", "valid", "val", "dev"})
      if (const std::vector<fs::path> eval = files_of_set(rows, name); !sets.others.eval && !eval.empty())
        sets.others.eval = pattern_of(eval);
    if (const std::vector<fs::path> test = files_of_set(rows, "test"); !test.empty())
      sets.others.test = pattern_of(test);
    return sets;
  }
  return std::nullopt;
}

/// Looks at rows: conversations, texts, labelled texts or a table.
SeenData look_at_rows(const fs::path& file, const InspectOptions& options) {
  if (const std::optional<SeenChat> chat = inspect_chat(file)) return *chat;
  SeenRows seen = inspect_rows(file, options);
  if (!seen.label.empty()) return seen;
  return SeenTexts{.train = file.string(),
                   .num_files = 1,
                   .num_bytes = static_cast<std::int64_t>(fs::file_size(file)),
                   .member = seen.text};
}

SeenData inspect_file(const fs::path& file, const InspectOptions& options) {
  SeenData data = look_at_rows(file, options);
  std::visit(
      [&]<class Seen>(Seen& seen) {
        if constexpr (!std::same_as<Seen, SeenImages>) take_sets(options, sets_beside(file), seen);
      },
      data);
  return data;
}

/// The files of a directory, and of the folders in it that are not hidden.
struct Listing {
  std::vector<fs::path> files;  // in the directory itself, sorted
  std::int64_t num_images = 0;
  std::int64_t num_others = 0;
  std::int64_t num_texts_below = 0;  // plain texts in the folders
};

Listing list(const fs::path& directory) {
  Listing listing;
  dataset::walk_folders(directory, "", [&](const std::string& folder, const dataset::FolderEntries& entries) {
    for (const std::string& name : entries.files) {
      ++(is_image(name) ? listing.num_images : listing.num_others);
      if (folder.empty())
        listing.files.push_back(directory / name);
      else if (is_plain_text(name))
        ++listing.num_texts_below;
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
  const bool has_folders = images.classes.size() >= 2;
  const std::optional<core::Error> no_classes = has_folders ? why_no_classes(images) : std::nullopt;
  if (has_folders && !no_classes) {
    check_classes(images.train, images.classes);
    return images;
  }
  for (const fs::path& file : listing.files)
    if (is_rows(file))
      if (std::optional<SeenImages> labelled = inspect_labelled_images(directory, file, options)) return labelled;
  if (no_classes) throw core::Error(*no_classes);
  return std::nullopt;
}

/// Looks at a dataset in the layout of the hub.
SeenData inspect_hub(const HubSets& sets, const std::vector<fs::path>& files, const InspectOptions& options) {
  SeenData data = look_at_rows(sets.first, options);
  std::visit(
      [&]<class Seen>(Seen& seen) {
        if constexpr (!std::same_as<Seen, SeenImages>) {
          seen.train = sets.train;
          seen.passed_over = other_names(files, is_rows);
          take_sets(options, sets.others, seen);
        }
        if constexpr (requires { seen.is_part; }) seen.is_part = seen.is_part || sets.train != sets.first;
      },
      data);
  return data;
}

/// Looks at plain texts: all of them, or those of a training set and the sets beside it. None if there are none.
std::optional<SeenTexts> texts_in(const fs::path& directory, const Listing& listing, const InspectOptions& options) {
  for (const fs::path& file : listing.files)
    if (is_plain_text(file) && set_of_name(file.stem().string()) == NamedSet::train) {
      SeenTexts texts{
          .train = file.string(), .num_files = 1, .num_bytes = static_cast<std::int64_t>(fs::file_size(file))};
      take_sets(options, sets_beside(file), texts);
      texts.passed_over = other_names(listing.files, [&](const fs::path& other) {
        return other == file || other.string() == texts.eval || other.string() == texts.test;
      });
      return texts;
    }
  SeenTexts texts{.train = directory.string()};
  for (const fs::path& file : listing.files)
    if (is_plain_text(file)) {
      ++texts.num_files;
      texts.num_bytes += static_cast<std::int64_t>(fs::file_size(file));
    }
  if (texts.num_files == 0 || texts.num_files <= listing.num_texts_below || texts.num_files <= listing.num_images)
    return std::nullopt;
  take_sets(options, {}, texts);
  texts.passed_over = other_names(listing.files, is_plain_text);
  for (const std::string ending : {".txt", ".md"}) {
    const auto has_ending = [&](const fs::path& file) { return file.extension() == ending; };
    if (texts.passed_over.empty() || std::none_of(listing.files.begin(), listing.files.end(), has_ending)) continue;
    if (std::none_of(texts.passed_over.begin(), texts.passed_over.end(), has_ending))
      texts.patterns.push_back((directory / ("*" + ending)).string());
    else
      for (const fs::path& file : listing.files)
        if (is_plain_text(file) && has_ending(file)) texts.patterns.push_back(file.string());
  }
  return texts;
}

SeenData inspect_directory(const fs::path& directory, const InspectOptions& options) {
  if (fs::is_regular_file(directory / "config.json") && fs::is_regular_file(directory / "model.safetensors"))
    throw core::Error(directory.string() + " holds a trained model in Hugging Face layout, and no data")
        .hint("give --from the data, and set model.init_from: " + directory.string() + " in the experiment");
  const Listing listing = list(directory);
  if (listing.num_images > listing.num_others) {
    if (std::optional<SeenImages> images = images_in(directory, listing, options)) return *std::move(images);
    throw core::Error(directory.string() + " has " + core::format_count(listing.num_images) +
                      " images, and neither a folder of them for each class nor a table with their names and labels")
        .hint("docs/own_data.md says how images are laid out, and docs/images.md how masks are");
  }
  if (const std::optional<HubSets> sets = hub_sets(directory)) return inspect_hub(*sets, listing.files, options);
  if (const std::optional<fs::path> rows = rows_in(listing.files)) {
    SeenData data = inspect_file(*rows, options);
    std::visit(
        [&](auto& seen) {
          seen.passed_over = other_names(listing.files, [&](const fs::path& file) {
            return file == *rows || file.string() == seen.eval || file.string() == seen.test;
          });
        },
        data);
    return data;
  }
  if (const std::optional<SeenTexts> texts = texts_in(directory, listing, options)) return *texts;
  if (std::optional<SeenImages> images = images_in(directory, listing, options)) return *std::move(images);
  throw core::Error(directory.string() + " has no data of a known kind")
      .hint(
          "expected a folder of images for each class, one table or file of labelled texts, or .txt files; texts in a "
          "folder for each class are read as rows with a text and a label");
}

/// Refuses files that look like data and are of no kind that is read.
void refuse_other_kinds(const fs::path& file) {
  const std::string ending = lower_case(file.extension().string());
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
  SeenTexts seen{.train = path.string(), .num_files = 1, .num_bytes = static_cast<std::int64_t>(fs::file_size(path))};
  take_sets(options, sets_beside(path), seen);
  return seen;
}

}  // namespace trainctl::data_tools
