// Image files with labels in a table: DIRECTORY/image.jpg, and a row "image.jpg,cat" or "image.jpg,cat|outdoors".
#include <algorithm>
#include <filesystem>
#include <unordered_map>

#include "core/error.h"
#include "core/file.h"
#include "core/text.h"
#include "dataset/annotation/image_labels.h"
#include "dataset/files/directory_walk.h"
#include "dataset/image/codec/encoded_source.h"
#include "dataset/image/folder/folder_change_detector.h"
#include "dataset/image/folder/image_file.h"
#include "dataset/image/transform/transform.h"
#include "dataset/sampler/split.h"
#include "dataset/sources.h"
#include "dataset/text/class_labels.h"

namespace trainctl::dataset {
namespace {

namespace fs = std::filesystem;

/// The images of a table, in the order of its rows.
struct LabeledFiles {
  fs::path directory;
  std::vector<std::string> files;                 // below the directory
  std::vector<std::vector<std::int64_t>> labels;  // of each file, rising
  std::string fingerprint;

  std::string path(std::int64_t file) const { return (directory / files[static_cast<std::size_t>(file)]).string(); }
};

class LabeledImages final : public EncodedImageSource {
 public:
  /// `images`: numbers of files, rising.
  LabeledImages(std::shared_ptr<const LabeledFiles> files, std::vector<std::int64_t> images, SampleSpec spec)
      : files_(std::move(files)), images_(std::move(images)), spec_(std::move(spec)) {}

  std::int64_t size() const override { return std::ssize(images_); }
  const SampleSpec& spec() const override { return spec_; }

  EncodedSample read(std::int64_t index, std::vector<std::byte>& buffer, std::string& name) const override {
    name = files_->path(image_of(index));
    const std::size_t size = read_image_file(name, buffer);
    return {.image = {.bytes = std::span(buffer).first(size), .name = name}, .label = has_sets() ? 0 : label_of(index)};
  }
  std::span<const std::int64_t> label_set(std::int64_t index) const override {
    return files_->labels[static_cast<std::size_t>(image_of(index))];
  }
  std::vector<std::int64_t> labels() const override {
    std::vector<std::int64_t> all;
    for (std::int64_t index = 0; !has_sets() && index < size(); ++index) all.push_back(label_of(index));
    return all;
  }
  void will_need(std::int64_t index) const override { expect_image_file(files_->path(image_of(index))); }
  std::string fingerprint() const override {
    return core::checksum(files_->fingerprint + core::checksum(std::as_bytes(std::span(images_))));
  }

 private:
  bool has_sets() const { return spec_.targets == Targets::label_sets; }
  std::int64_t image_of(std::int64_t index) const { return images_[static_cast<std::size_t>(index)]; }
  std::int64_t label_of(std::int64_t index) const { return label_set(index).front(); }

  std::shared_ptr<const LabeledFiles> files_;
  std::vector<std::int64_t> images_;
  SampleSpec spec_;
};

/// Finds the files that rows mean, below a directory.
class PictureSearch {
 public:
  PictureSearch(fs::path directory, const std::vector<std::string>& endings)
      : directory_(std::move(directory)), endings_(endings) {}

  /// Returns the name itself, or the name with the first of the endings with which there is a file.
  std::string file_of(const ImageLabelRows& table, const ImageLabelRow& row) {
    std::error_code ignored;
    const std::string named = fs::path(row.file).lexically_normal().string();
    if (fs::is_regular_file(directory_ / named, ignored)) return named;
    const auto found = by_stem().find(named);
    for (const std::string& ending : endings_)
      if (found != by_stem().end())
        for (const std::string& file : found->second)
          if (has_ending(file, {&ending, 1})) return file;
    throw core::Error(table.place(row) + ": there is no picture " + (directory_ / row.file).string())
        .hint("dataset.labels.file names the column of file names below " + directory_.string());
  }

 private:
  /// Lists the directory once, and only if a name lacks its ending.
  const std::unordered_map<std::string, std::vector<std::string>>& by_stem() {
    if (!is_listed_)
      for (const fs::path& path : files_below(directory_, endings_)) {
        const fs::path file = path.lexically_relative(directory_);
        by_stem_[(file.parent_path() / file.stem()).string()].push_back(file.string());
      }
    is_listed_ = true;
    return by_stem_;
  }

  fs::path directory_;
  const std::vector<std::string>& endings_;
  std::unordered_map<std::string, std::vector<std::string>> by_stem_;  // sorted files
  bool is_listed_ = false;
};

std::shared_ptr<const LabeledFiles> find_files(const ImageLabelRows& table, const std::string& directory,
                                               const ImageFolderConfig& config, const ClassNumbers& classes) {
  auto found = std::make_shared<LabeledFiles>();
  found->directory = directory;
  core::Checksum sum;
  const auto add = [&](const std::string& text) { sum.update(std::as_bytes(std::span(text))); };
  PictureSearch search(directory, config.extensions);
  std::unordered_map<std::string, std::string> places;  // of each file's row
  for (const ImageLabelRow& row : table.rows) {
    found->files.push_back(search.file_of(table, row));
    const auto [known, is_new] = places.emplace(found->files.back(), table.place(row));
    if (!is_new)
      throw core::Error(table.place(row) + ": " + found->files.back() + " has a row already, at " + known->second)
          .hint("a picture has one row");
    std::vector<std::int64_t> labels;
    for (const std::string& label : row.labels) labels.push_back(classes.of(label, table.place(row)));
    std::sort(labels.begin(), labels.end());
    labels.erase(std::unique(labels.begin(), labels.end()), labels.end());
    add(found->files.back() + '\n');
    for (const std::int64_t label : labels) add(std::to_string(label) + ' ');
    found->labels.push_back(std::move(labels));
  }
  for (const std::string& name : classes.names()) add(name + '\n');
  add(watch_files(std::ssize(found->files), [&](std::int64_t file) { return fs::path(found->path(file)); }).content);
  found->fingerprint = sum.digest();
  return found;
}

std::vector<std::int64_t> all_of(const LabeledFiles& files) {
  std::vector<std::int64_t> images(files.files.size());
  for (std::size_t i = 0; i < images.size(); ++i) images[i] = static_cast<std::int64_t>(i);
  return images;
}

DividedSamples divided_files(const LabeledFiles& files, const Split& split, bool has_sets) {
  std::vector<std::uint64_t> hashes;
  std::vector<std::int64_t> labels;
  for (std::size_t i = 0; i < files.files.size(); ++i) {
    hashes.push_back(key_hash(files.files[i]));
    if (!has_sets) labels.push_back(files.labels[i].front());
  }
  return divide(hashes, labels, split, "image");
}

/// Returns the table of a set of its own.
const std::string& table_of(const std::optional<std::string>& table, const std::string& set) {
  if (!table)
    throw core::Error("dataset." + set + " has images, and dataset.labels." + set + " names no table of their labels");
  return *table;
}

}  // namespace

Sources build_labeled_images(const ImageFolderConfig& config, const LoaderOptions& options) {
  const ImageLabelsConfig& labels = *config.labels;
  const ImageLabelRows training = read_image_labels(labels.train, labels);
  const ClassNumbers classes(options.trained != nullptr ? options.trained->class_names
                                                        : class_names_of(labels, training));
  SampleSpec spec;
  spec.input_shape = {3, 0, 0};
  spec.num_classes = classes.size();
  spec.targets = labels.are_sets() ? Targets::label_sets : Targets::labels;
  spec.class_names = classes.names();
  const auto make = [&](const std::shared_ptr<const LabeledFiles>& files, std::vector<std::int64_t> images) {
    return images.empty() ? nullptr : std::make_unique<LabeledImages>(files, std::move(images), spec);
  };
  const auto open = [&](const std::string& directory, const std::string& table) {
    const auto files = find_files(read_image_labels(table, labels), directory, config, classes);
    return make(files, all_of(*files));
  };
  const std::shared_ptr<const LabeledFiles> files = find_files(training, config.train, config, classes);
  const Split split{.eval_fraction = config.eval_fraction,
                    .test_fraction = config.test_fraction,
                    .seed = static_cast<std::uint64_t>(config.split_seed),
                    .fold = options.fold};
  Sources sources;
  if (split.divides()) {
    const DividedSamples parts = divided_files(*files, split, labels.are_sets());
    sources = {.train = make(files, parts.train), .eval = make(files, parts.eval), .test = make(files, parts.test)};
  } else {
    sources.train = make(files, all_of(*files));
  }
  if (config.eval) sources.eval = open(*config.eval, table_of(labels.eval, "eval"));
  if (config.test && options.evaluated == EvaluatedSet::test)
    sources.test = open(*config.test, table_of(labels.test, "test"));
  return sources;
}

void read_first_rows(const ImageFolderConfig& config, Phase phase, std::int64_t num_rows) {
  if (!config.labels) return;
  const ImageLabelsConfig& labels = *config.labels;
  if (phase == Phase::evaluation && !labels.eval) return;
  const ImageLabelRows table =
      read_image_labels(phase == Phase::training ? labels.train : *labels.eval, labels, num_rows);
  PictureSearch search(phase == Phase::training ? config.train : config.eval.value_or(config.train), config.extensions);
  for (const ImageLabelRow& row : table.rows) search.file_of(table, row);
  if (labels.class_names.empty() && labels.label_columns.empty()) return;
  const ClassNumbers classes(class_names_of(labels, table));
  for (const ImageLabelRow& row : table.rows)
    for (const std::string& label : row.labels) classes.of(label, table.place(row));
}

}  // namespace trainctl::dataset
