// DIRECTORY/class/…/image.jpg.
#include <algorithm>
#include <optional>

#include "core/error.h"
#include "core/file.h"
#include "core/text.h"
#include "dataset/image/codec/encoded_source.h"
#include "dataset/image/folder/folder_index.h"
#include "dataset/image/folder/image_file.h"
#include "dataset/sampler/split.h"
#include "dataset/sources.h"

namespace trainctl::dataset {
namespace {

namespace fs = std::filesystem;

/// The images of an index, or some of them.
struct Selection {
  std::shared_ptr<const FolderIndex> index;
  std::optional<std::vector<std::uint32_t>> images;  // none: all
  std::vector<std::int64_t> labels;                  // of the index's classes, in the training set
};

class ImageFolder final : public EncodedImageSource {
 public:
  ImageFolder(fs::path directory, Selection selection, std::vector<std::string> class_names)
      : directory_(std::move(directory)), selection_(std::move(selection)) {
    spec_.input_shape = {3, 0, 0};
    spec_.num_classes = static_cast<std::int64_t>(class_names.size());
    spec_.class_names = std::move(class_names);
  }

  std::int64_t size() const override {
    return selection_.images ? static_cast<std::int64_t>(selection_.images->size()) : selection_.index->size();
  }
  const SampleSpec& spec() const override { return spec_; }

  EncodedSample read(std::int64_t index, std::vector<std::byte>& buffer, std::string& name) const override {
    const std::int64_t image = image_of(index);
    name = path_of(image);
    const std::size_t size = read_image_file(name, buffer);
    return {.image = {.bytes = std::span(buffer).first(size), .name = name}, .label = label_of(image)};
  }
  std::vector<std::int64_t> labels() const override {
    std::vector<std::int64_t> all;
    for (std::int64_t index = 0; index < size(); ++index) all.push_back(label_of(image_of(index)));
    return all;
  }
  void will_need(std::int64_t index) const override { expect_image_file(path_of(image_of(index))); }

  std::string fingerprint() const override {
    std::string text(selection_.index->fingerprint());
    if (selection_.images) text += core::checksum(std::as_bytes(std::span(*selection_.images)));
    return core::checksum(text);
  }

 private:
  std::int64_t label_of(std::int64_t image) const {
    return selection_.labels[static_cast<std::size_t>(selection_.index->label(image))];
  }
  std::int64_t image_of(std::int64_t index) const {
    return selection_.images ? (*selection_.images)[static_cast<std::size_t>(index)] : index;
  }
  std::string path_of(std::int64_t image) const { return (directory_ / selection_.index->path(image)).string(); }

  fs::path directory_;
  Selection selection_;
  SampleSpec spec_;
};

/// Returns each class's number among those of the training set or the trained model.
std::vector<std::int64_t> labels_among(const std::vector<std::string>& names, const std::vector<std::string>& known,
                                       const std::string& directory) {
  constexpr std::size_t kMostListed = 10;
  std::vector<std::int64_t> labels;
  for (const std::string& name : names) {
    const auto found = std::lower_bound(known.begin(), known.end(), name);
    if (found == known.end() || *found != name)
      throw core::Error("class '" + name + "' of " + directory +
                        " is none of the known ones: " + core::list_first_words(known, kMostListed))
          .hint("each set has a folder for each class; does dataset.train hold sets instead?");
    labels.push_back(found - known.begin());
  }
  return labels;
}

DividedSamples divided_images(const FolderIndex& index, const Split& split) {
  std::vector<std::uint64_t> hashes;
  std::vector<std::int64_t> labels;
  for (std::int64_t i = 0; i < index.size(); ++i) {
    hashes.push_back(key_hash(index.path(i)));
    labels.push_back(index.label(i));
  }
  return divide(hashes, labels, split, "image");
}

/// What the sets of a folder share.
struct Folder {
  const ImageFolderConfig& config;
  std::shared_ptr<const FolderIndex> index;  // of the training directory
  std::vector<std::string> classes;

  std::unique_ptr<Source> part(const std::vector<std::int64_t>& images) const {
    if (images.empty()) return nullptr;
    return std::make_unique<ImageFolder>(config.train,
                                         Selection{index, std::vector<std::uint32_t>(images.begin(), images.end()),
                                                   labels_among(index->classes(), classes, config.train)},
                                         classes);
  }
  /// `of`: a directory with the training set's classes, or some of them.
  std::unique_ptr<Source> whole(const std::string& directory, std::shared_ptr<const FolderIndex> of) const {
    std::vector<std::int64_t> labels = labels_among(of->classes(), classes, directory);
    return std::make_unique<ImageFolder>(directory, Selection{std::move(of), std::nullopt, std::move(labels)}, classes);
  }
};

}  // namespace

Sources build(const ImageFolderConfig& config, const LoaderOptions& options) {
  if (config.labels) return build_labeled_images(config, options);
  const auto open = [&](const std::string& directory) {
    return std::make_shared<const FolderIndex>(
        open_folder({directory, config.class_from, config.extensions, config.cache_dir}, options.tell));
  };
  std::shared_ptr<const FolderIndex> index = open(config.train);
  std::vector<std::string> classes = options.trained != nullptr ? options.trained->class_names : index->classes();
  const Folder folder{config, std::move(index), std::move(classes)};
  const Split split{.eval_fraction = config.eval_fraction,
                    .test_fraction = config.test_fraction,
                    .seed = static_cast<std::uint64_t>(config.split_seed),
                    .fold = options.fold};
  Sources sources;
  if (split.divides()) {
    const DividedSamples parts = divided_images(*folder.index, split);
    sources = {.train = folder.part(parts.train), .eval = folder.part(parts.eval), .test = folder.part(parts.test)};
  } else {
    sources.train = folder.whole(config.train, folder.index);
  }
  if (config.eval) sources.eval = folder.whole(*config.eval, open(*config.eval));
  if (config.test && options.evaluated == EvaluatedSet::test)
    sources.test = folder.whole(*config.test, open(*config.test));
  return sources;
}

}  // namespace trainctl::dataset
