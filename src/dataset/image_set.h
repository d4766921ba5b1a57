// Images held in memory, as bytes, with a label each: what the file formats are read into.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "dataset/dataset.h"

namespace trainctl {

struct ImageShape {
  std::int64_t height = 0;
  std::int64_t width = 0;
  std::int64_t channels = 1;
  std::int64_t row_bytes() const { return width * channels; }
  std::int64_t bytes() const { return height * row_bytes(); }
  bool operator==(const ImageShape&) const = default;
};

/// "3×32×32" (channels, rows, columns).
std::string describe(const ImageShape& shape);

struct ImageSet {
  ImageShape shape;
  std::vector<std::byte> pixels;     // [N, H, W, C]
  std::vector<std::uint8_t> labels;  // [N]
  std::int64_t num_classes = 0;
  std::vector<std::string> class_names{};  // empty: they have none
};

std::unique_ptr<Source> make_source(ImageSet set);

/// A training set and, where there is one, an evaluation set.
struct Sources {
  std::unique_ptr<Source> train;
  std::unique_ptr<Source> eval;
};

/// Whichever of the kinds below it is.
Sources open_sources(const SourceConfig& config, const LoaderOptions& options);
Sources open_sources(const PlainSourceConfig& config, const LoaderOptions& options);

Sources build(const IdxConfig& config);
Sources build(const Cifar10Config& config);
Sources build(const Cifar100Config& config);
Sources build(const SyntheticImagesConfig& config);
Sources build(const SyntheticTokensConfig& config);
Sources build(const ImageFolderConfig& config, const LoaderOptions& options);
Sources build(const WebDatasetConfig& config, const LoaderOptions& options);
Sources build(const TokenShardsConfig& config, const LoaderOptions& options);
Sources build(const TableConfig& config, const LoaderOptions& options);
Sources build(const MixtureConfig& config, const LoaderOptions& options);
Sources build(const TextLmConfig& config, const LoaderOptions& options);
Sources build(const TextMlmConfig& config, const LoaderOptions& options);
Sources build(const TextClassificationConfig& config, const LoaderOptions& options);
Sources build(const TextTokenClassificationConfig& config, const LoaderOptions& options);

}  // namespace trainctl
