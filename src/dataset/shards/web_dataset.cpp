// Images in tar shards: what is where was found when the set was opened, samples are read from where they lie.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>
#include <unordered_map>

#include "core/error.h"
#include "core/file.h"
#include "core/json.h"
#include "core/mapped_file.h"
#include "core/text.h"
#include "dataset/files/file_list.h"
#include "dataset/files/parallel.h"
#include "dataset/image/codec/encoded_source.h"
#include "dataset/loader/bad_samples.h"
#include "dataset/sampler/shard_shuffle.h"
#include "dataset/sampler/split.h"
#include "dataset/shards/sampled_hash.h"
#include "dataset/shards/shard_file.h"
#include "dataset/shards/shard_index.h"
#include "dataset/sources.h"
#include "runtime/device.h"

namespace trainctl::dataset {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostOpenFiles = 512;
constexpr std::uint64_t kMostBytesAtRandom = std::uint64_t{4} << 30;
constexpr std::int64_t kAutoWindow = 16384;

struct OpenShard {
  ShardFile file;
  ShardIndex index;
  std::string content;  // what SampledHash says of it
};

/// The place of a sample.
struct SamplePlace {
  std::uint32_t shard = 0;
  std::uint32_t sample = 0;
};

std::vector<OpenShard> open_shards(const std::vector<std::string>& patterns, std::string_view key,
                                   const WebDatasetConfig& config, const LoaderOptions& options) {
  const std::vector<fs::path> paths = expand_files(patterns, {{".tar"}}, key);
  const ShardMembers members{.image = config.image, .label = config.label, .label_member = config.label_member};
  const KeepOpen keep_open = paths.size() <= kMostOpenFiles ? KeepOpen::yes : KeepOpen::no;
  const OnDamage on_damage = options.bad_samples && options.bad_samples->policy() != OnBadSample::fail
                                 ? OnDamage::leave_out
                                 : OnDamage::refuse;
  const SampledHash sample(paths);
  std::vector<std::optional<OpenShard>> opened(paths.size());
  for_each_in_parallel(static_cast<std::int64_t>(paths.size()), runtime::available_cores(), [&](std::int64_t i) {
    const fs::path& path = paths[static_cast<std::size_t>(i)];
    const core::MappedFile archive(path);
    opened[static_cast<std::size_t>(i)] =
        OpenShard{.file = ShardFile(path, keep_open),
                  .index = ShardIndex::open(path, archive.bytes(), members, config.cache_dir, on_damage),
                  .content = sample.of(path, archive.bytes())};
  });
  std::vector<OpenShard> shards;
  std::int64_t num_left_out = 0;
  for (std::optional<OpenShard>& shard : opened) {
    for (const std::string& what : shard->index.left_out())
      options.bad_samples->add({.index = num_left_out++, .what = what});
    shards.push_back(std::move(*shard));
  }
  return shards;
}

/// Returns the class names in the index.json beside a shard, which `trainctl data shard` writes.
std::vector<std::string> indexed_names(const fs::path& shard) {
  const fs::path file = shard.parent_path() / "index.json";
  std::error_code ignored;
  if (!fs::exists(file, ignored)) return {};
  const auto index = core::parse_json_or_discard(core::read_file(file));
  if (!index.is_object() || !index.contains("class_names") || !index["class_names"].is_array()) return {};
  std::vector<std::string> names;
  for (const nlohmann::json& name : index["class_names"])
    if (name.is_string()) names.push_back(name.get<std::string>());
  return names;
}

/// Returns the classes' names, if they have any.
std::vector<std::string> class_names(const WebDatasetConfig& config, const std::vector<OpenShard>& shards) {
  if (!config.class_names.empty()) return config.class_names;
  if (std::vector<std::string> names = indexed_names(shards.front().file.path()); !names.empty()) return names;
  std::set<std::string> names;
  for (const OpenShard& shard : shards)
    names.insert(shard.index.label_names().begin(), shard.index.label_names().end());
  return {names.begin(), names.end()};
}

/// Shards whose labels are class numbers.
class LabelledShards {
 public:
  LabelledShards(std::vector<OpenShard> shards, std::vector<std::string> names)
      : shards_(std::move(shards)), names_(std::move(names)) {
    refuse_numbers_beside_names();
    std::unordered_map<std::string, std::int64_t> numbers;
    for (std::size_t i = 0; i < names_.size(); ++i) numbers.emplace(names_[i], static_cast<std::int64_t>(i));
    for (const OpenShard& shard : shards_) {
      std::vector<std::int64_t>& classes = classes_.emplace_back();
      for (const std::string& name : shard.index.label_names()) {
        const auto found = numbers.find(name);
        if (found == numbers.end())
          throw core::Error(shard.file.path().string() + ": the label '" + name + "' is none of the classes")
              .hint("dataset.class_names lists them; without it, they are those of the training samples");
        classes.push_back(found->second);
      }
    }
  }

  std::int64_t label(SamplePlace place) const {
    const std::int64_t label = sample(place).label;
    return label < kNoLabel ? classes_[place.shard][ShardIndex::name_of(label)] : label;
  }
  const ShardSample& sample(SamplePlace place) const { return shard(place).index.samples()[place.sample]; }
  const OpenShard& shard(SamplePlace place) const { return shards_[place.shard]; }
  /// Returns the sample's name for messages: "train-000.tar:some/key".
  std::string name(SamplePlace place) const {
    const OpenShard& of = shard(place);
    return of.file.path().string() + ":" + std::string(of.index.key(sample(place)));
  }

  std::int64_t largest_label() const {
    std::int64_t largest = static_cast<std::int64_t>(names_.size()) - 1;
    for (const OpenShard& shard : shards_) largest = std::max(largest, shard.index.largest_number());
    return largest;
  }

  /// Returns whether labels are names, and not the classes' numbers.
  bool has_label_names() const {
    return std::any_of(shards_.begin(), shards_.end(),
                       [](const OpenShard& shard) { return !shard.index.label_names().empty(); });
  }
  bool has_label_numbers() const {
    return std::any_of(shards_.begin(), shards_.end(),
                       [](const OpenShard& shard) { return shard.index.largest_number() >= 0; });
  }

  void check_labels(std::int64_t num_classes) const {
    for (std::uint32_t s = 0; s < shards_.size(); ++s) {
      const bool fit = shards_[s].index.largest_number() < num_classes &&
                       std::all_of(classes_[s].begin(), classes_[s].end(), [&](auto c) { return c < num_classes; });
      if (!fit) refuse_labels(s, num_classes);
    }
  }

  const std::vector<std::string>& names() const { return names_; }
  const std::vector<OpenShard>& shards() const { return shards_; }

  std::string fingerprint() const {
    std::string text;
    for (const OpenShard& shard : shards_) {
      text += shard.content + " " + shard.index.fingerprint();
      for (const std::string& name : shard.index.label_names()) text += " " + name;
    }
    return core::checksum(text);
  }

 private:
  void refuse_numbers_beside_names() const {
    if (!has_label_names() || !has_label_numbers()) return;
    const auto named = std::find_if(shards_.begin(), shards_.end(),
                                    [](const OpenShard& shard) { return !shard.index.label_names().empty(); });
    throw core::Error(named->file.path().string() + ": the label '" + named->index.label_names().front() +
                      "' is a name, and other labels are class numbers")
        .hint("write all labels as names, or all as numbers from 0");
  }

  /// Refuses the first label of a shard that is not below `num_classes`.
  void refuse_labels(std::uint32_t shard, std::int64_t num_classes) const {
    const auto count = static_cast<std::uint32_t>(shards_[shard].index.samples().size());
    for (std::uint32_t i = 0; i < count; ++i)
      if (const std::int64_t value = label({shard, i}); value >= num_classes)
        throw core::Error(name({shard, i}) + ": its label " + std::to_string(value) +
                          " is not below the number of classes, " + std::to_string(num_classes));
  }

  std::vector<OpenShard> shards_;
  std::vector<std::vector<std::int64_t>> classes_;  // of each shard's label names
  std::vector<std::string> names_;
};

/// All samples of the shards, or those on one side of a split.
class WebDataset final : public EncodedImageSource {
 public:
  WebDataset(std::shared_ptr<const LabelledShards> shards, std::vector<SamplePlace> places, std::int64_t num_classes,
             const WebDatasetConfig& config)
      : shards_(std::move(shards)), places_(std::move(places)), shuffle_shards_(config.shuffle_shards) {
    spec_.input_shape = {3, 0, 0};
    spec_.num_classes = num_classes;
    spec_.class_names = shards_->names();
    std::uint64_t bytes = 0;
    for (const OpenShard& shard : shards_->shards()) bytes += shard.file.size();
    window_ = config.shuffle_buffer.value.value_or(bytes <= kMostBytesAtRandom ? 0 : kAutoWindow);
  }

  std::int64_t size() const override { return static_cast<std::int64_t>(places_.size()); }
  const SampleSpec& spec() const override { return spec_; }

  EncodedSample read(std::int64_t index, std::vector<std::byte>& buffer, std::string& name) const override {
    const SamplePlace place = places_[static_cast<std::size_t>(index)];
    const ShardSample& sample = shards_->sample(place);
    name = shards_->name(place);
    buffer.resize(sample.image_bytes);
    try {
      shards_->shard(place).file.read(sample.image_offset, buffer);
    } catch (const core::Error& error) {
      throw BadSample(error.what());
    }
    return {.image = {.bytes = buffer, .name = name}, .label = shards_->label(place)};
  }
  void will_need(std::int64_t index) const override {
    const SamplePlace place = places_[static_cast<std::size_t>(index)];
    const ShardSample& sample = shards_->sample(place);
    shards_->shard(place).file.will_need(sample.image_offset, sample.image_bytes);
  }

  std::string fingerprint() const override {
    return core::checksum("webdataset " + shards_->fingerprint() + " " +
                          core::checksum(std::as_bytes(std::span<const SamplePlace>(places_))));
  }

  std::unique_ptr<Sampler> make_order(Shuffling shuffling, std::uint64_t seed) const override {
    if (shuffling == Shuffling::none || window_ == 0) return nullptr;
    std::vector<std::int64_t> sizes(shards_->shards().size());
    for (const SamplePlace place : places_) ++sizes[place.shard];
    return make_window_order(std::move(sizes), {.window = window_, .shards = shuffle_shards_, .seed = seed});
  }

 private:
  std::shared_ptr<const LabelledShards> shards_;
  std::vector<SamplePlace> places_;
  SampleSpec spec_;
  std::int64_t window_ = 0;
  std::int64_t shuffle_shards_;
};

enum class Side { all, training, evaluation };

std::vector<SamplePlace> places_of(const LabelledShards& shards, Side side, const Split& split) {
  std::vector<SamplePlace> places;
  std::size_t most = 0;
  for (const OpenShard& shard : shards.shards()) most += shard.index.samples().size();
  if (side != Side::evaluation) places.reserve(most);
  for (std::uint32_t s = 0; s < shards.shards().size(); ++s) {
    const std::span<const ShardSample> samples = shards.shards()[s].index.samples();
    for (std::uint32_t i = 0; i < samples.size(); ++i)
      if (side == Side::all || split.keeps_for_evaluation(samples[i].key_hash) == (side == Side::evaluation))
        places.push_back({.shard = s, .sample = i});
  }
  if (places.empty())
    throw core::Error(side == Side::evaluation ? "dataset.eval_fraction keeps none of the samples for evaluation"
                                               : "the shards of dataset.train have no samples to train on");
  return places;
}

}  // namespace

Sources build(const WebDatasetConfig& config, const LoaderOptions& options) {
  std::vector<OpenShard> opened = open_shards(config.train, "dataset.train", config, options);
  std::vector<std::string> names =
      options.trained != nullptr ? options.trained->class_names : class_names(config, opened);
  const auto train = std::make_shared<const LabelledShards>(std::move(opened), std::move(names));
  const std::int64_t num_classes = options.trained != nullptr
                                       ? options.trained->num_classes
                                       : config.num_classes.value.value_or(train->largest_label() + 1);
  train->check_labels(num_classes);
  const Split split{.eval_fraction = config.eval_fraction, .seed = static_cast<std::uint64_t>(config.split_seed)};
  const bool splits = config.eval.empty() && config.eval_fraction > 0;
  Sources sources;
  sources.train = std::make_unique<WebDataset>(train, places_of(*train, splits ? Side::training : Side::all, split),
                                               num_classes, config);
  if (splits) {
    sources.eval = std::make_unique<WebDataset>(train, places_of(*train, Side::evaluation, split), num_classes, config);
  } else if (!config.eval.empty()) {
    const auto eval = std::make_shared<const LabelledShards>(open_shards(config.eval, "dataset.eval", config, options),
                                                             train->names());
    if (train->has_label_names() && eval->has_label_numbers())
      throw core::Error("dataset.eval: labels are class numbers, and those of dataset.train are names")
          .hint("write labels alike in all shards");
    eval->check_labels(num_classes);
    sources.eval = std::make_unique<WebDataset>(eval, places_of(*eval, Side::all, split), num_classes, config);
  }
  return sources;
}

}  // namespace trainctl::dataset
