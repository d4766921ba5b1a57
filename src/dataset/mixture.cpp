// Several sources as one: their indices follow one another; an order of its own mixes them by their weights.
#include <algorithm>
#include <utility>

#include "core/error.h"
#include "core/file.h"
#include "core/overloaded.h"
#include "core/text.h"
#include "dataset/collate/sample_writer.h"
#include "dataset/image/codec/encoded_source.h"
#include "dataset/sampler/interleave.h"
#include "dataset/sources.h"
#include "dataset/table/table_encoding.h"
#include "runtime/random.h"

namespace trainctl::dataset {
namespace {

constexpr std::int64_t kMostKeptRounds = 64;

/// A source's order, and the index of its first sample in the mixture.
struct MixedOrder {
  std::shared_ptr<const Sampler> order;
  std::int64_t first = 0;  // index of the source's first sample
};

class MixtureEpoch final : public EpochOrder {
 public:
  MixtureEpoch(const Mixing& mixing, const std::vector<MixedOrder>& orders, std::int64_t begin, std::int64_t size)
      : mixing_(mixing), orders_(orders), begin_(begin) {
    for (std::size_t i = 0; i < orders.size(); ++i) {
      Rounds& rounds = rounds_.emplace_back();
      rounds.first = mixing.count_before(i, begin) / orders[i].order->size();
      const std::int64_t last = mixing.count_before(i, begin + size) / orders[i].order->size();
      for (std::int64_t round = rounds.first; round <= std::min(last, rounds.first + kMostKeptRounds - 1); ++round)
        rounds.kept.push_back(orders[i].order->epoch(round));
    }
  }

  SampleKey at(std::int64_t position) const override {
    const Mixing::Turn turn = mixing_.at(begin_ + position);
    const MixedOrder& source = orders_[turn.source];
    const Rounds& rounds = rounds_[turn.source];
    const std::int64_t round = turn.rank / source.order->size();
    const std::int64_t inside = turn.rank % source.order->size();
    const auto kept = static_cast<std::size_t>(round - rounds.first);
    SampleKey key = kept < rounds.kept.size() ? rounds.kept[kept]->at(inside) : source.order->epoch(round)->at(inside);
    key.index += source.first;
    return key;
  }

 private:
  struct Rounds {
    std::int64_t first = 0;
    std::vector<std::shared_ptr<const EpochOrder>> kept{};
  };

  const Mixing& mixing_;
  const std::vector<MixedOrder>& orders_;
  std::int64_t begin_;
  std::vector<Rounds> rounds_;
};

/// A sampler whose epochs are stretches of one endless sequence, so that proportions hold across their borders.
class MixtureOrder final : public Sampler {
 public:
  MixtureOrder(std::shared_ptr<const Mixing> mixing, std::vector<MixedOrder> orders, std::int64_t size)
      : mixing_(std::move(mixing)), orders_(std::move(orders)), size_(size) {}
  std::int64_t size() const override { return size_; }
  std::shared_ptr<const EpochOrder> epoch(std::int64_t epoch) const override {
    return std::make_shared<MixtureEpoch>(*mixing_, orders_, epoch * size_, size_);
  }

 private:
  std::shared_ptr<const Mixing> mixing_;
  std::vector<MixedOrder> orders_;
  std::int64_t size_;
};

core::Error differing(std::size_t source, const std::string& what) {
  return core::Error("dataset.sources[" + std::to_string(source) + "] and dataset.sources[0] can't be mixed: their " +
                     what + " differ");
}

/// The sources, and the index of each one's first sample. Without weights (evaluation) the mixture has no order of its
/// own.
class Parts {
 public:
  Parts(std::vector<std::unique_ptr<Source>> sources, std::vector<double> weights, std::int64_t samples_per_epoch)
      : sources_(std::move(sources)), samples_per_epoch_(samples_per_epoch) {
    if (!weights.empty()) mixing_ = std::make_shared<const Mixing>(weights);
    for (const auto& source : sources_) {
      firsts_.push_back(size_);
      size_ += source->size();
      const std::span<const std::int32_t> lengths = source->lengths();
      lengths_.insert(lengths_.end(), lengths.begin(), lengths.end());
    }
    if (static_cast<std::int64_t>(lengths_.size()) != size_) lengths_.clear();
    merge_specs();
  }

  std::int64_t size() const { return size_; }
  const SampleSpec& spec() const { return spec_; }
  std::span<const std::int32_t> lengths() const { return lengths_; }
  const std::vector<std::unique_ptr<Source>>& sources() const { return sources_; }

  /// Returns the source of an index, and the index there.
  std::pair<std::size_t, std::int64_t> find(std::int64_t index) const {
    const auto source =
        static_cast<std::size_t>(std::upper_bound(firsts_.begin(), firsts_.end(), index) - firsts_.begin() - 1);
    return {source, index - firsts_[source]};
  }

  std::string fingerprint() const {
    std::string text = "mixture";
    for (const auto& source : sources_) text += " " + source->fingerprint();
    return core::checksum(text);
  }

  std::unique_ptr<Sampler> make_order(Shuffling shuffling, std::uint64_t seed) const {
    if (!mixing_) return nullptr;
    std::vector<MixedOrder> orders;
    for (std::size_t i = 0; i < sources_.size(); ++i) {
      const std::uint64_t own_seed = runtime::mix(seed, runtime::key_of("mixture"), i);
      std::unique_ptr<Sampler> order = sources_[i]->make_order(shuffling, own_seed);
      if (!order) order = make_uniform_order(sources_[i]->size(), shuffling, own_seed);
      orders.push_back({.order = std::move(order), .first = firsts_[i]});
    }
    return std::make_unique<MixtureOrder>(mixing_, std::move(orders), samples_per_epoch_);
  }

 private:
  void merge_specs() {
    spec_ = sources_[0]->spec();
    spec_.bytes_per_token = bytes_per_token();
    for (std::size_t i = 1; i < sources_.size(); ++i) {
      const SampleSpec& spec = sources_[i]->spec();
      const auto differs = [&](const std::string& what) { return differing(i, what); };
      if (spec.input_shape != spec_.input_shape || spec.input_dtype != spec_.input_dtype)
        throw differs("samples' shapes").hint("mix sources of one size, or of image files");
      if (spec.targets != spec_.targets) throw differs("targets");
      if (spec.class_names != spec_.class_names)
        throw differs("classes").hint("dataset.sources[…].labels can name them");
      if (spec.labels != spec_.labels)
        throw differs("labels' means or deviations").hint("dataset.sources[…].label_scaling: none");
      if ((spec.table == nullptr) != (spec_.table == nullptr) ||
          (spec.table != nullptr && text_of_encoding(*spec.table) != text_of_encoding(*spec_.table)))
        throw differs("columns' categories, means or deviations")
            .hint("tables that are read alike are one source: train: [a.csv, b.csv]");
      spec_.num_classes = std::max(spec_.num_classes, spec.num_classes);
      spec_.vocab_size = std::max(spec_.vocab_size, spec.vocab_size);
    }
  }

  /// Returns the sources' mean; invalid if one doesn't know its own.
  std::shared_future<double> bytes_per_token() const {
    std::vector<std::pair<std::shared_future<double>, double>> shares;
    for (const auto& source : sources_) {
      const std::shared_future<double>& own = source->spec().bytes_per_token;
      if (!own.valid()) return {};
      shares.emplace_back(own, static_cast<double>(source->size()) / static_cast<double>(size_));  // of one length
    }
    return std::async(std::launch::deferred,
                      [shares] {
                        double mean = 0;
                        for (const auto& [own, share] : shares) mean += own.get() * share;
                        return mean;
                      })
        .share();
  }

  std::vector<std::unique_ptr<Source>> sources_;
  std::shared_ptr<const Mixing> mixing_;
  std::int64_t samples_per_epoch_;
  std::vector<std::int64_t> firsts_;
  std::int64_t size_ = 0;
  std::vector<std::int32_t> lengths_;
  SampleSpec spec_;
};

/// A writer that passes each sample to its source's writer.
class MixtureWriter final : public SampleWriter {
 public:
  MixtureWriter(const Parts& parts, std::vector<std::unique_ptr<SampleWriter>> writers)
      : parts_(parts), writers_(std::move(writers)) {
    for (const auto& writer : writers_)
      if (writer->input_bytes() != input_bytes() || writer->target_count() != target_count())
        throw core::Error("dataset.sources can't be mixed: their samples take different room in a batch")
            .hint("give them the same length and the same documents");
  }

  std::int64_t input_bytes() const override { return writers_[0]->input_bytes(); }
  std::int64_t target_count() const override { return writers_[0]->target_count(); }
  Scratch make_scratch() const override { return writers_[0]->make_scratch(); }
  void write(SampleKey key, Scratch& scratch, std::byte* input, std::int64_t* target) const override {
    const auto [source, index] = parts_.find(key.index);
    writers_[source]->write({.epoch = key.epoch, .index = index}, scratch, input, target);
  }
  Batch wrap(std::int64_t count, void* inputs, void* targets,
             const std::function<void(void*)>& release) const override {
    return writers_[0]->wrap(count, inputs, targets, release);
  }

 private:
  const Parts& parts_;
  std::vector<std::unique_ptr<SampleWriter>> writers_;
};

class Mixture final : public RawSource {
 public:
  Mixture(Parts parts, std::vector<const RawSource*> sources) : parts_(std::move(parts)), sources_(std::move(sources)) {
    for (std::size_t i = 1; i < sources_.size(); ++i)
      if (sources_[i]->sample_bytes() != sources_[0]->sample_bytes()) throw differing(i, "samples' sizes");
  }

  std::int64_t size() const override { return parts_.size(); }
  const SampleSpec& spec() const override { return parts_.spec(); }
  std::int64_t sample_bytes() const override { return sources_[0]->sample_bytes(); }
  std::int64_t get(std::int64_t index, std::byte* sample) const override {
    const auto [source, own] = parts_.find(index);
    return sources_[source]->get(own, sample);
  }
  std::string fingerprint() const override { return parts_.fingerprint(); }
  std::span<const std::int32_t> lengths() const override { return parts_.lengths(); }
  std::unique_ptr<Sampler> make_order(Shuffling shuffling, std::uint64_t seed) const override {
    return parts_.make_order(shuffling, seed);
  }
  std::unique_ptr<SampleWriter> make_writer(Phase phase, std::uint64_t seed) const override {
    std::vector<std::unique_ptr<SampleWriter>> writers;
    for (const auto& source : parts_.sources()) {
      std::unique_ptr<SampleWriter> writer =
          source->make_writer(phase, runtime::mix(seed, runtime::key_of("mixture"), writers.size()));
      if (writer) writers.push_back(std::move(writer));
    }
    if (writers.empty()) return nullptr;
    if (writers.size() != parts_.sources().size())
      throw core::Error("dataset.sources can't be mixed: only some make batches of their own");
    return std::make_unique<MixtureWriter>(parts_, std::move(writers));
  }

 private:
  Parts parts_;
  std::vector<const RawSource*> sources_;  // of parts_
};

class ImageMixture final : public EncodedImageSource {
 public:
  ImageMixture(Parts parts, std::vector<const EncodedImageSource*> sources)
      : parts_(std::move(parts)), sources_(std::move(sources)) {}

  std::int64_t size() const override { return parts_.size(); }
  const SampleSpec& spec() const override { return parts_.spec(); }
  EncodedSample read(std::int64_t index, std::vector<std::byte>& buffer, std::string& name) const override {
    const auto [source, own] = parts_.find(index);
    return sources_[source]->read(own, buffer, name);
  }
  std::span<const std::int64_t> label_set(std::int64_t index) const override {
    const auto [source, own] = parts_.find(index);
    return sources_[source]->label_set(own);
  }
  ClassMask class_mask(std::int64_t index, ImageSize size, std::vector<std::byte>& buffer) const override {
    const auto [source, own] = parts_.find(index);
    return sources_[source]->class_mask(own, size, buffer);
  }
  void will_need(std::int64_t index) const override {
    const auto [source, own] = parts_.find(index);
    sources_[source]->will_need(own);
  }
  std::string fingerprint() const override { return parts_.fingerprint(); }
  std::unique_ptr<Sampler> make_order(Shuffling shuffling, std::uint64_t seed) const override {
    return parts_.make_order(shuffling, seed);
  }

 private:
  Parts parts_;
  std::vector<const EncodedImageSource*> sources_;  // of parts_
};

std::unique_ptr<Source> mixed(Parts parts) {
  std::vector<const RawSource*> raw;
  std::vector<const EncodedImageSource*> images;
  for (const auto& source : parts.sources())
    std::visit(core::Overloaded{[&](const RawSource* one) { raw.push_back(one); },
                                [&](const EncodedImageSource* one) { images.push_back(one); }},
               source->reading());
  if (images.empty()) return std::make_unique<Mixture>(std::move(parts), std::move(raw));
  if (raw.empty()) return std::make_unique<ImageMixture>(std::move(parts), std::move(images));
  throw core::Error("dataset.sources can't be mixed: some have image files, others pixels of one size");
}

/// What all sources of a mixture must have alike, since batches and the network know one of each.
struct Reading {
  std::string tokenizer{};
  std::optional<Packing> packing{};
};
Reading reading_of(const PlainSourceConfig& source) {
  Reading reading;
  source.visit([&](const auto& config) {
    if constexpr (requires { std::string(config.tokenizer); }) reading.tokenizer = config.tokenizer;
    if constexpr (requires { config.packing == Packing::none; }) reading.packing = config.packing;
  });
  return reading;
}

void check_readings(const MixtureConfig& config) {
  const Reading first = reading_of(config.sources[0].source);
  for (std::size_t i = 1; i < config.sources.size(); ++i) {
    const Reading own = reading_of(config.sources[i].source);
    if (own.tokenizer != first.tokenizer) throw differing(i, "tokenizers").hint("give all sources one tokenizer");
    if (own.packing != first.packing) throw differing(i, "packings").hint("give all sources one packing");
  }
}

}  // namespace

Sources build(const MixtureConfig& config, const LoaderOptions& options) {
  check_readings(config);
  std::vector<std::unique_ptr<Source>> train;
  std::vector<std::unique_ptr<Source>> eval;
  std::vector<double> weights;
  for (std::size_t i = 0; i < config.sources.size(); ++i) {
    try {
      Sources sources = open_sources(config.sources[i].source, options);
      train.push_back(std::move(sources.train));
      if (sources.eval) eval.push_back(std::move(sources.eval));
      weights.push_back(config.sources[i].weight);
    } catch (core::Error& error) {
      throw std::move(error.during("opening dataset.sources[" + std::to_string(i) + "]"));
    }
  }
  std::int64_t total = 0;
  for (const auto& source : train) total += source->size();
  Sources sources;
  if (options.evaluated == EvaluatedSet::train) weights.clear();  // each sample once
  sources.train = mixed(Parts(std::move(train), weights, config.samples_per_epoch.value.value_or(total)));
  if (!eval.empty()) sources.eval = mixed(Parts(std::move(eval), {}, 0));
  return sources;
}

}  // namespace trainctl::dataset
