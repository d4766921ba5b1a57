// DIRECTORY/class/…/image.jpg.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>

#include "core/error.h"
#include "core/file.h"
#include "dataset/image/codec/encoded_source.h"
#include "dataset/image/folder/folder_index.h"
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

BadSample unreadable(const core::Error& problem) {
  BadSample error(problem.what());
  error.hint("dataset.on_bad_sample: skip or replace goes on without such files");
  return error;
}

std::size_t read_whole(const std::string& path, std::vector<std::byte>& buffer) {
  const core::RegularFile file(path);
  const auto size = static_cast<std::size_t>(file.size());
  if (buffer.size() < size) buffer.resize(size);
  std::size_t have = 0;
  while (have < size) {
    const ::ssize_t got = ::read(file.descriptor(), buffer.data() + have, size - have);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw core::system_error("read", path);
    if (got == 0) break;
    have += static_cast<std::size_t>(got);
  }
  return have;
}

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
    std::size_t size = 0;
    try {
      size = read_whole(name, buffer);
    } catch (const core::Error& problem) {
      throw unreadable(problem);
    }
    return {.image = {.bytes = std::span(buffer).first(size), .name = name}, .label = label_of(image)};
  }
  std::vector<std::int64_t> labels() const override {
    std::vector<std::int64_t> all;
    for (std::int64_t index = 0; index < size(); ++index) all.push_back(label_of(image_of(index)));
    return all;
  }
  void will_need(std::int64_t index) const override {
    const int descriptor = ::open(path_of(image_of(index)).c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (descriptor < 0) return;
    ::posix_fadvise(descriptor, 0, 0, POSIX_FADV_WILLNEED);
    ::close(descriptor);
  }

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

/// Returns each class's number among the training set's classes.
std::vector<std::int64_t> labels_among(const std::vector<std::string>& names, const std::vector<std::string>& known,
                                       const ImageFolderConfig& config) {
  std::vector<std::int64_t> labels;
  for (const std::string& name : names) {
    const auto found = std::lower_bound(known.begin(), known.end(), name);
    if (found == known.end() || *found != name)
      throw core::Error("class '" + name + "' of " + *config.eval + " is none of those of " + config.train);
    labels.push_back(found - known.begin());
  }
  return labels;
}

struct FolderParts {
  std::vector<std::uint32_t> train;
  std::vector<std::uint32_t> eval;
};

FolderParts split(const FolderIndex& index, const ImageFolderConfig& config) {
  const Split rule{config.eval_fraction, static_cast<std::uint64_t>(config.split_seed)};
  FolderParts parts;
  for (std::int64_t i = 0; i < index.size(); ++i)
    (rule.keeps_for_evaluation(key_hash(index.path(i))) ? parts.eval : parts.train)
        .push_back(static_cast<std::uint32_t>(i));
  for (const auto* part : {&parts.train, &parts.eval})
    if (part->empty())
      throw core::Error("dataset.eval_fraction, " + std::to_string(config.eval_fraction) + ", leaves no image to " +
                        (part == &parts.train ? "train" : "evaluate") + " on, of " + std::to_string(index.size()));
  return parts;
}

}  // namespace

Sources build(const ImageFolderConfig& config, const LoaderOptions& options) {
  const auto open = [&](const std::string& directory) {
    return std::make_shared<const FolderIndex>(
        open_folder({directory, config.class_from, config.extensions, config.cache_dir}, options.tell));
  };
  const auto index = open(config.train);
  std::vector<std::string> names = index->classes();
  Selection train{.index = index, .images = std::nullopt, .labels = labels_among(names, names, config)};
  Sources sources;
  if (config.eval) {
    const auto eval = open(*config.eval);
    sources.eval = std::make_unique<ImageFolder>(
        *config.eval, Selection{eval, std::nullopt, labels_among(eval->classes(), names, config)}, names);
  } else if (config.eval_fraction > 0) {
    FolderParts parts = split(*index, config);
    train.images = std::move(parts.train);
    sources.eval =
        std::make_unique<ImageFolder>(config.train, Selection{index, std::move(parts.eval), train.labels}, names);
  }
  sources.train = std::make_unique<ImageFolder>(config.train, std::move(train), std::move(names));
  return sources;
}

}  // namespace trainctl::dataset
