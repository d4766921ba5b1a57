// The sources of each dataset kind. A kind's build() is defined in the folder of its data.
#pragma once

#include <memory>

#include "dataset/dataset.h"

namespace trainctl::dataset {

/// A training set and, where there are such, an evaluation set and a test set. A test set in files of its own is there
/// if LoaderOptions::evaluated asks for it.
struct Sources {
  std::unique_ptr<Source> train;
  std::unique_ptr<Source> eval{};
  std::unique_ptr<Source> test{};
};

/// Whichever of the kinds below it is.
Sources open_sources(const SourceConfig& config, const LoaderOptions& options);
Sources open_sources(const PlainSourceConfig& config, const LoaderOptions& options);

Sources build(const IdxConfig& config, const LoaderOptions& options = {});
Sources build(const Cifar10Config& config, const LoaderOptions& options = {});
Sources build(const Cifar100Config& config, const LoaderOptions& options = {});
Sources build(const SyntheticImagesConfig& config);
Sources build(const SyntheticTokensConfig& config);
Sources build(const ImageFolderConfig& config, const LoaderOptions& options);
Sources build(const SegmentationFolderConfig& config, const LoaderOptions& options);
Sources build(const WebDatasetConfig& config, const LoaderOptions& options);
Sources build(const TokenizedConfig& config, const LoaderOptions& options);
Sources build(const TableConfig& config, const LoaderOptions& options);
Sources build(const MixtureConfig& config, const LoaderOptions& options);
Sources build(const TextLmConfig& config, const LoaderOptions& options);
Sources build(const ChatConfig& config, const LoaderOptions& options);
Sources build(const PreferenceConfig& config, const LoaderOptions& options);
Sources build(const TextMlmConfig& config, const LoaderOptions& options);
Sources build(const TextClassificationConfig& config, const LoaderOptions& options);
Sources build(const TextTokenClassificationConfig& config, const LoaderOptions& options);
Sources build(const TextSeq2SeqConfig& config, const LoaderOptions& options);
Sources build(const PluggedSourceConfig& config, const LoaderOptions& options);

/// The sources of an image folder with tables of labels.
Sources build_labeled_images(const ImageFolderConfig& config, const LoaderOptions& options);

/// Reads the first rows of the first file of a set, as training would. A column that isn't there, a cell of the wrong
/// type, and a label that is no class are Errors.
void read_first_rows(const ImageFolderConfig& config, Phase phase, std::int64_t num_rows);
void read_first_rows(const TableConfig& config, Phase phase, std::int64_t num_rows);
void read_first_rows(const TextClassificationConfig& config, Phase phase, std::int64_t num_rows);
void read_first_rows(const TextTokenClassificationConfig& config, Phase phase, std::int64_t num_rows);
void read_first_rows(const TextSeq2SeqConfig& config, Phase phase, std::int64_t num_rows);
void read_first_rows(const TextLmConfig& config, Phase phase, std::int64_t num_rows);
void read_first_rows(const ChatConfig& config, Phase phase, std::int64_t num_rows);
void read_first_rows(const PreferenceConfig& config, Phase phase, std::int64_t num_rows);
void read_first_rows(const TextMlmConfig& config, Phase phase, std::int64_t num_rows);

}  // namespace trainctl::dataset
