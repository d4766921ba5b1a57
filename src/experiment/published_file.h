// A JSON file beside published weights, whose keys become keys of the experiment.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "config/node.h"
#include "experiment/published_keys.h"

namespace trainctl::experiment {

/// A published JSON object, with its text, in which keys have their lines.
struct PublishedFile {
  std::string path;
  std::string text;
  nlohmann::json json;

  /// Returns where the key is written, or the file's beginning.
  config::Origin origin_of(const std::string& key) const;
  /// Returns the value of a key, for a message.
  std::string json_of(const std::string& key) const;
};

/// Throws Error for a file that can't be read or is no JSON object.
PublishedFile open_published(const std::filesystem::path& path);

/// Adds the keys that `section` leaves out, with their lines in the file as origins.
void adopt(config::Node& section, const PublishedFile& file, const std::vector<PublishedKey>& keys);

}  // namespace trainctl::experiment
