// Whole sets: written as shards, verified, counted. What `trainctl data shard`, `verify` and `stats` do.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "dataset/config.h"

namespace trainctl::data_tools {

struct ShardRequest {
  std::filesystem::path output;
  std::int64_t shard_bytes = 256 << 20;
  std::optional<std::int64_t> max_side{};  // larger images are shrunk to it and stored as JPEG
  int quality = 90;                        // of those
  std::int64_t threads = 1;
  std::uint64_t seed = 0;  // of the order in which samples are dealt to shards
  std::function<void(const std::string&)> tell{};
};

/// A shard as index.json has it.
struct WrittenShard {
  std::string file;
  std::int64_t samples = 0;
  std::int64_t bytes = 0;
  std::string checksum;  // XXH3 of the file
};

struct ShardReport {
  std::vector<WrittenShard> shards;
  std::int64_t kept = 0;  // of them, those that an earlier, interrupted call had written
  std::int64_t samples = 0;
  std::int64_t bytes = 0;
  double seconds = 0;
};

/// Writes the training set (train-000000.tar …) and, if there is one, the evaluation set (eval-…) into request.output.
/// Also writes index.json: each shard's samples, bytes and checksum, and the names of the classes. Images become tar
/// shards for kind webdataset, in a random but fixed order. Texts of kind text_lm become llm.c's token files for kind
/// tokenized, in order. Other samples are an Error. Each shard is written beside its place and renamed. A later call
/// continues after a killed one if data and options are the same; other data or options are an Error.
ShardReport shard_dataset(const dataset::DatasetConfig& config, const ShardRequest& request);

/// A sample or shard that isn't as it should be.
struct Fault {
  std::string name;
  std::string what;
};

struct VerifyReport {
  std::int64_t samples = 0;
  std::int64_t shards = 0;  // whose checksums were compared
  std::int64_t turned = 0;  // images that EXIF says are stored turned or mirrored; they are read as they are stored
  std::vector<Fault> faults;
  double seconds = 0;
};

/// Reads every sample of both sets, decoding images, and compares the checksums of shards that have an index.json.
VerifyReport verify_dataset(const dataset::DatasetConfig& config, std::int64_t threads);

struct StatRequest {
  std::int64_t max_samples = 10'000;  // that are read for sizes, means and deviations, evenly spread
  std::int64_t threads = 1;
  std::optional<std::filesystem::path> html{};
  std::function<void(const std::string&)> tell{};  // what a user should know of the data, such as rows left out
};

/// The statistics of one set.
struct SetStatistics {
  std::string part;  // train, eval
  std::int64_t samples = 0;
  std::vector<std::int64_t> class_counts;  // of the samples read
  std::int64_t read = 0;
  std::int64_t bad = 0;
  std::int64_t turned = 0;               // as in VerifyReport
  double bytes = 0;                      // mean of a stored sample
  std::array<std::int64_t, 3> width{};   // smallest, median, largest
  std::array<std::int64_t, 3> height{};  // images only
  std::vector<double> mean;              // by channel, on the scale 0 to 1; tokens and rows have none
  std::vector<double> std;

  /// ", counted in the 500 samples read"; "" if all were read.
  std::string counted_in() const;
};

struct StatReport {
  std::vector<SetStatistics> sets;
  std::vector<std::string> class_names;
  double seconds = 0;
};

/// Also writes one page with a contact sheet, where `html` says so.
StatReport dataset_statistics(const dataset::DatasetConfig& config, const StatRequest& request);

}  // namespace trainctl::data_tools
