#include "dataset/missing_inputs.h"

#include <algorithm>
#include <filesystem>

#include "core/error.h"
#include "dataset/files/directory_walk.h"
#include "dataset/files/file_list.h"

namespace trainctl::dataset {
namespace {

namespace fs = std::filesystem;

/// Returns the message. A relative path is looked for from trainctl's working directory, not from the config's.
std::string no_such(const std::string& what, const fs::path& path) {
  std::error_code ignored;
  return "there is no " + what + " " + path.string() +
         (path.is_relative() ? ", looked for from " + fs::current_path(ignored).string() : "");
}

class Search {
 public:
  explicit Search(std::string prefix) : prefix_(std::move(prefix)) {}

  void file(const std::string& key, const fs::path& path) {
    std::error_code ignored;
    if (!fs::exists(path, ignored))
      add(key, no_such("file", path));
    else if (fs::is_directory(path, ignored))
      add(key, path.string() + " is a directory, where a file is expected");
  }

  void file_or_directory(const std::string& key, const fs::path& path) {
    std::error_code ignored;
    if (!fs::exists(path, ignored)) add(key, no_such("file or directory", path));
  }

  /// Reports a missing directory; returns whether it exists.
  bool directory(const std::string& key, const fs::path& path) {
    std::error_code ignored;
    if (!fs::exists(path, ignored))
      add(key, no_such("directory", path));
    else if (!fs::is_directory(path, ignored))
      add(key, path.string() + " is a file, where a directory is expected");
    else
      return true;
    return false;
  }

  void directory_of_classes(const std::string& key, const fs::path& path) {
    if (!directory(key, path)) return;
    try {
      if (list_folder(path).folders.empty())
        add(key, path.string() + " has no folder, where one for each class is expected");
    } catch (const core::Error& error) {
      add(key, error.what());
    }
  }

  void files(const std::string& key, const std::vector<std::string>& patterns) {
    for (std::size_t i = 0; i < patterns.size(); ++i) {
      const std::string item = key + "[" + std::to_string(i) + "]";
      try {
        expand_files({&patterns[i], 1}, {}, item);
      } catch (const core::Error& error) {
        const std::string text = error.what();
        add(item, text.starts_with(item + ": ") ? text.substr(item.size() + 2) : text);
      }
    }
  }

  void add(const std::string& key, std::string message) { found.push_back({prefix_ + key, std::move(message)}); }

  std::vector<InputProblem> found;

 private:
  std::string prefix_;
};

void look_for(const IdxConfig& config, Search& search) {
  search.file("train.images", config.train.images);
  search.file("train.labels", config.train.labels);
  const auto look = [&](const std::string& key, const std::optional<IdxFiles>& files) {
    if (!files) return;
    search.file(key + ".images", files->images);
    search.file(key + ".labels", files->labels);
  };
  look("eval", config.eval);
  look("test", config.test);
}

template <class Config>
requires(std::same_as<Config, Cifar10Config> ||
         std::same_as<Config, Cifar100Config>) void look_for(const Config& config, Search& search) {
  search.directory("path", config.path);
}

void look_for(const SyntheticImagesConfig&, Search&) {}
void look_for(const SyntheticTokensConfig&, Search&) {}

void look_for(const ImageFolderConfig& config, Search& search) {
  if (config.labels) {
    const auto look = [&](const std::string& set, const std::optional<std::string>& directory,
                          const std::optional<std::string>& table) {
      if (directory) search.directory(set, *directory);
      if (table) search.file("labels." + set, *table);
    };
    look("train", config.train, config.labels->train);
    look("eval", config.eval, config.labels->eval);
    look("test", config.test, config.labels->test);
    return;
  }
  search.directory_of_classes("train", config.train);
  if (config.eval) search.directory_of_classes("eval", *config.eval);
  if (config.test) search.directory_of_classes("test", *config.test);
}

void look_for(const SegmentationFolderConfig& config, Search& search) {
  const auto look = [&](const std::string& set, const std::optional<ImagesWithMasks>& directories) {
    if (!directories) return;
    search.directory(set + ".images", directories->images);
    search.directory(set + ".masks", directories->masks);
  };
  look("train", config.train);
  look("eval", config.eval);
  look("test", config.test);
}

/// Looks for tar shards, token files or tables.
template <class Config>
requires requires(const Config& config) {
  config.train.size();
  config.eval.size();
}
void look_for(const Config& config, Search& search) {
  search.files("train", config.train);
  search.files("eval", config.eval);
  if constexpr (requires { config.test; }) search.files("test", config.test);
}

/// Looks for texts.
template <class Config>
requires requires(const Config& config) {
  config.train.files;
  config.tokenizer;
}
void look_for(const Config& config, Search& search) {
  search.files("train.files", config.train.files);
  if (config.eval) search.files("eval.files", config.eval->files);
  if (config.test) search.files("test.files", config.test->files);
  if (config.tokenizer != "bytes") search.file_or_directory("tokenizer", config.tokenizer);
  if constexpr (requires { config.chat_template; })
    if (config.chat_template && *config.chat_template != kChatMl) search.file("chat_template", *config.chat_template);
}

void look_for(const PluggedSourceConfig& config, Search& search) {
  for (const InputProblem& problem : config.interface().missing_inputs(config.config()))
    search.add(problem.key, problem.message);
}

void look_for(const MixtureConfig& config, Search& search) {
  for (std::size_t i = 0; i < config.sources.size(); ++i) {
    Search part("dataset.sources[" + std::to_string(i) + "].");
    config.sources[i].source.visit([&](const auto& source) { look_for(source, part); });
    search.found.insert(search.found.end(), part.found.begin(), part.found.end());
  }
}

}  // namespace

std::vector<InputProblem> missing_inputs(const DatasetConfig& config) {
  Search search("dataset.");
  config.source.visit([&](const auto& source) { look_for(source, search); });
  return search.found;
}

}  // namespace trainctl::dataset
