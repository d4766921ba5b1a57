// Writing a set as shards: which sample goes into which shard is known beforehand, so shards are made in parallel, and
// those that are there after a kill needn't be made again.
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.h"
#include "core/file.h"
#include "core/json.h"
#include "core/overloaded.h"
#include "core/text.h"
#include "data_tools/sharding.h"
#include "dataset/files/parallel.h"
#include "dataset/image/codec/decode.h"
#include "dataset/image/codec/encoded_source.h"
#include "dataset/image/in_memory.h"
#include "dataset/image/transform/resample.h"
#include "dataset/sampler/sampler.h"
#include "dataset/shards/tar.h"
#include "dataset/sources.h"

namespace trainctl::data_tools {
namespace {

namespace fs = std::filesystem;

/// What is written for one image.
struct StoredImage {
  std::string ending;  // jpg, png, webp
  std::vector<std::byte> bytes;
};

void append_number(std::string& to, std::uint32_t value) {
  for (int shift = 24; shift >= 0; shift -= 8) to += static_cast<char>(value >> shift & 0xff);
}

/// Appends a chunk: length, type, data, CRC of type and data (https://www.w3.org/TR/png-3, 5.3).
void append_chunk(std::string& png, std::string_view type, const std::string& data) {
  append_number(png, static_cast<std::uint32_t>(data.size()));
  const std::string body = std::string(type) + data;
  png += body;
  append_number(png, static_cast<std::uint32_t>(
                         ::crc32(0, reinterpret_cast<const Bytef*>(body.data()), static_cast<uInt>(body.size()))));
}

/// The whole image, its longer side at most `max_side`.
dataset::Image decode_limited(const dataset::EncodedImage& image, std::int64_t max_side) {
  dataset::Decoder decoder;
  const dataset::ImageInfo info = decoder.open(image);
  const double scale =
      std::min(1.0, static_cast<double>(max_side) / static_cast<double>(std::max(info.width, info.height)));
  const auto limit = [&](std::int64_t side) {
    return std::max<std::int64_t>(1, std::lround(static_cast<double>(side) * scale));
  };
  dataset::Image pixels;
  dataset::Image result;
  result.resize(limit(info.height), limit(info.width));
  const dataset::Region whole{.height = info.height, .width = info.width};
  const dataset::Box box =
      decoder.read({.region = whole,
                    .min_height = result.height,
                    .min_width = result.width,
                    .scaling = scale < 1 ? dataset::DecodeScaling::automatic : dataset::DecodeScaling::off},
                   pixels);
  dataset::Resampler resampler;
  resampler.begin(pixels, {.box = box,
                           .height = result.height,
                           .width = result.width,
                           .part = {.height = result.height, .width = result.width}});
  for (std::int64_t y = 0; y < result.height; ++y)
    std::memcpy(result.row(y), resampler.row(y), static_cast<std::size_t>(result.row_bytes()));
  return result;
}

/// Not above `max_side` on its longer side; others are shrunk, and stored as JPEG. What needn't change is kept as it
/// is.
StoredImage limited(const dataset::EncodedImage& image, std::int64_t max_side, int quality) {
  const dataset::ImageInfo info = dataset::probe(image);
  if (std::max(info.width, info.height) > max_side)
    return {.ending = "jpg", .bytes = dataset::encode_jpeg(decode_limited(image, max_side), quality)};
  const std::string_view format = dataset::name_of(info.format);
  return {.ending = info.format == dataset::ImageFormat::jpeg ? "jpg" : std::string(format),
          .bytes = {image.bytes.begin(), image.bytes.end()}};
}

/// Pixels [H, W, 1 or 3] as PNG, without loss.
std::vector<std::byte> encode_png(const dataset::ImageShape& shape, const std::byte* pixels) {
  std::string header;
  append_number(header, static_cast<std::uint32_t>(shape.width));
  append_number(header, static_cast<std::uint32_t>(shape.height));
  header += '\x08';                                 // bits
  header += shape.channels == 1 ? '\x00' : '\x02';  // grey or RGB
  header.append(3, '\0');                           // deflate, adaptive filters, not interlaced
  std::string rows;
  for (std::int64_t y = 0; y < shape.height; ++y) {
    rows += '\0';  // no filter
    rows.append(reinterpret_cast<const char*>(pixels + y * shape.row_bytes()),
                static_cast<std::size_t>(shape.row_bytes()));
  }
  uLongf size = ::compressBound(rows.size());
  std::string packed(size, '\0');
  ::compress2(reinterpret_cast<Bytef*>(packed.data()), &size, reinterpret_cast<const Bytef*>(rows.data()), rows.size(),
              6);
  packed.resize(size);
  std::string png("\x89PNG\r\n\x1a\n", 8);
  append_chunk(png, "IHDR", header);
  append_chunk(png, "IDAT", packed);
  append_chunk(png, "IEND", "");
  const auto* begin = reinterpret_cast<const std::byte*>(png.data());
  return {begin, begin + png.size()};
}

constexpr std::int64_t kProbed = 200;  // samples whose sizes decide how many go into a shard
constexpr std::int64_t kNoLimit = std::int64_t{1} << 40;
constexpr std::int32_t kLlmcMagic[] = {20240520, 20240801};  // of 2- and of 4-byte ids, as token_file.h reads them
constexpr std::int32_t kLlmcVersion[] = {1, 7};

/// A source of the bytes of one set's shards.
class ShardContent {
 public:
  virtual ~ShardContent() = default;
  virtual std::string ending() const = 0;
  virtual std::int64_t samples_per_shard(std::int64_t shard_bytes) const = 0;
  /// Writes samples [begin, end) of the set's order.
  virtual void write(std::int64_t begin, std::int64_t end, core::FileWriter& file) const = 0;
};

class ImageContent final : public ShardContent {
 public:
  ImageContent(const dataset::Source& source, const ShardRequest& request)
      : source_(source), reading_(source.reading()), request_(request), order_(request.seed, 0, source.size()) {}

  std::string ending() const override { return ".tar"; }

  std::int64_t samples_per_shard(std::int64_t shard_bytes) const override {
    const std::int64_t count = std::min(kProbed, source_.size());
    std::atomic<std::int64_t> bytes = 0;
    dataset::for_each_in_parallel(count, request_.threads, [&](std::int64_t i) {
      bytes += static_cast<std::int64_t>(members(i * source_.size() / count).size());
    });
    return std::max<std::int64_t>(1, shard_bytes * count / std::max<std::int64_t>(1, bytes));
  }

  void write(std::int64_t begin, std::int64_t end, core::FileWriter& file) const override {
    for (std::int64_t position = begin; position < end; ++position) file.write(members(position));
    file.write(dataset::tar_end());
  }

 private:
  static std::string member(const std::string& name, std::string_view content) {
    return dataset::tar_header(name, content.size()) + std::string(content) + dataset::tar_padding(content.size());
  }

  /// An image file and its label.
  using Stored = std::pair<StoredImage, std::int64_t>;

  Stored stored(const dataset::EncodedImageSource& source, std::int64_t index) const {
    std::vector<std::byte> buffer;
    std::string name;
    const dataset::EncodedSample sample = source.read(index, buffer, name);
    return {limited(sample.image, request_.max_side.value_or(kNoLimit), request_.quality), sample.label};
  }

  Stored stored(const dataset::RawSource& source, std::int64_t index) const {
    std::vector<std::byte> pixels(static_cast<std::size_t>(source.sample_bytes()));
    const std::int64_t label = source.get(index, pixels.data());
    return {{.ending = "png", .bytes = encode_png(image_shape_of(source.spec()), pixels.data())}, label};
  }

  /// Returns a sample as members of a tar.
  std::string members(std::int64_t position) const {
    const std::int64_t index = order_(position);
    const auto [image, label] =
        std::visit(core::Overloaded{[&](const dataset::EncodedImageSource* source) { return stored(*source, index); },
                                    [&](const dataset::RawSource* source) { return stored(*source, index); }},
                   reading_);
    char key[32];
    std::snprintf(key, sizeof key, "%010lld", static_cast<long long>(index));
    const std::string_view bytes(reinterpret_cast<const char*>(image.bytes.data()), image.bytes.size());
    return member(std::string(key) + "." + image.ending, bytes) +
           member(std::string(key) + ".cls", std::to_string(label));
  }

  static dataset::ImageShape image_shape_of(const dataset::SampleSpec& spec) {
    return {.height = spec.input_shape[1], .width = spec.input_shape[2], .channels = spec.input_shape[0]};
  }

  const dataset::Source& source_;
  dataset::SampleReading reading_;
  const ShardRequest& request_;
  dataset::Order order_;
};

/// The shards of text_lm, whose sequences follow one another. A shard has its sequences' tokens and the last one's
/// successor.
class TokenContent final : public ShardContent {
 public:
  explicit TokenContent(const dataset::RawSource& source)
      : source_(source), length_(source.spec().input_shape[0]), wide_(source.spec().vocab_size > 1 << 16) {}

  std::string ending() const override { return ".bin"; }
  std::int64_t samples_per_shard(std::int64_t shard_bytes) const override {
    return std::max<std::int64_t>(1, shard_bytes / (length_ * (wide_ ? 4 : 2)));
  }
  void write(std::int64_t begin, std::int64_t end, core::FileWriter& file) const override {
    std::vector<std::int32_t> header(256);
    header[0] = kLlmcMagic[wide_ ? 1 : 0];
    header[1] = kLlmcVersion[wide_ ? 1 : 0];
    const std::int64_t num_tokens = (end - begin) * length_ + 1;
    if (num_tokens > std::numeric_limits<std::int32_t>::max())
      throw core::Error("a shard of tokens has at most 2,147,483,647 of them").hint("a smaller --shard-mib");
    header[2] = static_cast<std::int32_t>(num_tokens);
    file.write(std::as_bytes(std::span<const std::int32_t>(header)));
    std::vector<std::int64_t> ids(static_cast<std::size_t>(length_ + 1));
    for (std::int64_t index = begin; index < end; ++index) {
      source_.get(index, reinterpret_cast<std::byte*>(ids.data()));
      std::string bytes;
      const std::size_t count = ids.size() - (index + 1 < end ? 1 : 0);
      for (std::size_t i = 0; i < count; ++i) bytes.append(reinterpret_cast<const char*>(&ids[i]), wide_ ? 4 : 2);
      file.write(bytes);
    }
  }

 private:
  const dataset::RawSource& source_;
  std::int64_t length_;
  bool wide_;
};

std::unique_ptr<ShardContent> content_of(const dataset::Source& source, const ShardRequest& request,
                                         const dataset::SourceConfig& config) {
  const dataset::SampleSpec& spec = source.spec();
  if (spec.is_image() && spec.input_shape[0] != 1 && spec.input_shape[0] != 3)
    throw core::Error("shards have images of 1 or 3 channels, and these have " + std::to_string(spec.input_shape[0]));
  if (spec.is_image() && spec.targets == dataset::Targets::labels)
    return std::make_unique<ImageContent>(source, request);
  const dataset::DatasetFacts facts = config::facts_of(config);
  if (facts.tokens() != nullptr && facts.tokens()->is_stream)
    return std::make_unique<TokenContent>(dataset::raw_samples(source));
  throw core::Error("samples of kind " + std::string(config.kind()) + " can't be written as shards")
      .hint("images with one label and text_lm can");
}

nlohmann::ordered_json as_json(const WrittenShard& shard) {
  return {{"file", shard.file}, {"samples", shard.samples}, {"bytes", shard.bytes}, {"checksum", shard.checksum}};
}

/// A writer of the shards of one set.
class SetWriter {
 public:
  SetWriter(const ShardContent& content, std::int64_t size, std::string part, const ShardRequest& request)
      : content_(content), size_(size), part_(std::move(part)), request_(request) {}

  void write(ShardReport& report) const {
    const std::int64_t each = content_.samples_per_shard(request_.shard_bytes);
    const std::int64_t count = (size_ + each - 1) / each;
    std::vector<WrittenShard> shards(static_cast<std::size_t>(count));
    std::atomic<std::int64_t> kept = 0;
    std::mutex telling;
    dataset::for_each_in_parallel(count, request_.threads, [&](std::int64_t i) {
      // Evenly, so that the last one isn't much smaller.
      const std::int64_t begin = size_ * i / count;
      const std::int64_t end = size_ * (i + 1) / count;
      WrittenShard& shard = shards[static_cast<std::size_t>(i)];
      char number[32];
      std::snprintf(number, sizeof number, "-%06lld", static_cast<long long>(i));
      shard.file = part_ + number + content_.ending();
      shard.samples = end - begin;
      if (is_there(shard)) {
        ++kept;
        return;
      }
      make(shard, begin, end);
      const std::lock_guard lock(telling);
      if (request_.tell)
        request_.tell(shard.file + ": " + core::format_count(shard.samples) + " samples, " +
                      core::format_bytes(static_cast<double>(shard.bytes)));
    });
    for (WrittenShard& shard : shards) {
      report.samples += shard.samples;
      report.bytes += shard.bytes;
      report.shards.push_back(std::move(shard));
    }
    report.kept += kept;
  }

 private:
  fs::path note_of(const WrittenShard& shard) const { return request_.output / ("." + shard.file + ".json"); }

  /// Returns whether the shard is complete. Its note is written after the shard is in place.
  bool is_there(WrittenShard& shard) const {
    std::error_code ignored;
    if (!fs::exists(note_of(shard), ignored) || !fs::exists(request_.output / shard.file, ignored)) return false;
    const auto note = core::parse_json_or_discard(core::read_file(note_of(shard), 1 << 16));
    if (!note.is_object() || note.value("samples", std::int64_t{-1}) != shard.samples) return false;
    shard.bytes = note.value("bytes", std::int64_t{-1});
    shard.checksum = note.value("checksum", "");
    return static_cast<std::int64_t>(fs::file_size(request_.output / shard.file, ignored)) == shard.bytes;
  }

  void make(WrittenShard& shard, std::int64_t begin, std::int64_t end) const {
    const fs::path place = request_.output / shard.file;
    const fs::path beside = request_.output / ("." + shard.file + ".part");
    {
      core::FileWriter file(beside);
      content_.write(begin, end, file);
      shard.bytes = static_cast<std::int64_t>(file.offset());
      file.close(core::Durability::disk);
    }
    shard.checksum = core::checksum_file(beside);
    fs::rename(beside, place);
    core::write_file_atomically(note_of(shard), as_json(shard).dump(), core::Durability::disk);
  }

  const ShardContent& content_;
  std::int64_t size_;
  std::string part_;
  const ShardRequest& request_;
};

/// Refuses a directory with shards of other data or options, so that they never mix; else writes the plan.
void settle_plan(const ShardRequest& request, const std::string& fingerprint) {
  const std::string plan = nlohmann::ordered_json{
      {"data", fingerprint},
      {"shard_bytes", request.shard_bytes},
      {"max_side", request.max_side.value_or(0)},
      {"quality", request.max_side ? request.quality : 0},
      {"seed", request.seed}}.dump(1);
  std::error_code problem;
  fs::create_directories(request.output, problem);
  if (problem) throw core::Error("cannot make " + request.output.string() + ": " + problem.message());
  const fs::path file = request.output / ".plan.json";
  if (fs::exists(file)) {
    if (core::read_file(file, 1 << 16) == plan) return;
    throw core::Error(request.output.string() + " has shards of other data, or made with other options")
        .hint("choose another --output, or remove it");
  }
  if (!fs::is_empty(request.output))
    throw core::Error(request.output.string() + " isn't empty").hint("choose another --output");
  core::write_file_atomically(file, plan, core::Durability::disk);
}

void write_index(const ShardRequest& request, const ShardReport& report, const dataset::SampleSpec& spec) {
  nlohmann::ordered_json index = {{"version", 1}, {"samples", report.samples}, {"bytes", report.bytes}};
  if (spec.num_classes > 0) index["num_classes"] = spec.num_classes;
  if (!spec.class_names.empty()) index["class_names"] = spec.class_names;
  if (spec.vocab_size > 0) index["vocab_size"] = spec.vocab_size;
  for (const WrittenShard& shard : report.shards) index["shards"].push_back(as_json(shard));
  core::write_file_atomically(request.output / "index.json", index.dump(1) + "\n", core::Durability::disk);
}

}  // namespace

ShardReport shard_dataset(const dataset::DatasetConfig& config, const ShardRequest& request) {
  const auto begin = std::chrono::steady_clock::now();
  dataset::LoaderOptions options;
  options.tell = request.tell;
  options.fold = config.fold;
  options.evaluated = dataset::EvaluatedSet::test;
  const dataset::Sources sources = dataset::open_sources(config.source, options);
  std::string fingerprint = sources.train->fingerprint();
  if (sources.eval) fingerprint += " " + sources.eval->fingerprint();
  if (sources.test) fingerprint += " " + sources.test->fingerprint();
  settle_plan(request, fingerprint);
  ShardReport report;
  for (const auto& [source, part] : {std::pair(sources.train.get(), "train"), std::pair(sources.eval.get(), "eval"),
                                     std::pair(sources.test.get(), "test")}) {
    if (source == nullptr) continue;
    const std::unique_ptr<ShardContent> content = content_of(*source, request, config.source);
    SetWriter(*content, source->size(), part, request).write(report);
  }
  write_index(request, report, sources.train->spec());
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return report;
}

}  // namespace trainctl::data_tools
