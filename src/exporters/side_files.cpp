#include "exporters/side_files.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/file.h"
#include "core/json.h"
#include "core/text.h"
#include "pretrained/hugging_face_config.h"
#include "pretrained/tokenizer_files.h"

namespace trainctl::exporters {
namespace {

namespace fs = std::filesystem;

/// Returns whether the directory's model.json lists the file, as it is now.
bool is_of_older_export(const std::map<std::string, std::string>& listed, const fs::path& directory,
                        const std::string& name) {
  const auto found = listed.find(name);
  return found != listed.end() && found->second == core::checksum_file(directory / name);
}

/// Returns the checksums that an older export's model.json lists; empty without such a file.
std::map<std::string, std::string> listed_in(const fs::path& directory) {
  std::map<std::string, std::string> listed;
  if (!fs::is_regular_file(directory / kModelJson)) return listed;
  const auto json = core::parse_json_or_discard(core::read_file(directory / kModelJson));
  if (!json.is_object() || !json.contains("trainctl") || !json.contains(kSideFiles)) return listed;
  for (const auto& [name, sum] : json[kSideFiles].items())
    if (sum.is_string()) listed[name] = sum.get<std::string>();
  return listed;
}

}  // namespace

std::vector<std::string> obeyed_files(const fs::path& directory, ArtefactFormat format) {
  std::vector<std::string> names = pretrained::names_of_tokenizer_files(directory);
  const auto add = [&](const char* name) {
    if (fs::is_regular_file(directory / name)) names.emplace_back(name);
  };
  if (format != ArtefactFormat::hugging_face && format != ArtefactFormat::peft) return names;
  add(pretrained::kGenerationConfig);
  add("chat_template.json");  // the older form of processors
  if (format == ArtefactFormat::peft) return names;
  add(pretrained::kPreprocessorConfig);
  add("processor_config.json");
  add("adapter_config.json");           // transformers loads the adapters and their base in place of the weights
  add("model.safetensors.index.json");  // vLLM loads the parts that it names
  return names;
}

std::vector<std::string> stale_files(const fs::path& directory, ArtefactFormat format,
                                     const std::set<std::string>& written) {
  std::vector<std::string> names = obeyed_files(directory, format);
  std::erase_if(names, [&](const std::string& name) { return written.contains(name); });
  const auto listed = listed_in(directory);
  std::vector<std::string> others;
  for (const std::string& name : names)
    if (!is_of_older_export(listed, directory, name)) others.push_back(name);
  if (others.empty()) return names;
  throw core::Error(directory.string() + " has files that no export listed in its model.json, and that programs " +
                    "would obey beside the new ones: " + core::list_words(others))
      .hint("give another --output, or remove them");
}

std::map<std::string, std::string> checksums_of_side_files(const fs::path& directory,
                                                           const std::vector<fs::path>& written) {
  std::map<std::string, std::string> listed = listed_in(directory);
  std::erase_if(listed, [&](const auto& one) { return !fs::is_regular_file(directory / one.first); });
  for (const std::string& name : obeyed_files(directory, ArtefactFormat::hugging_face))  // which has most
    if (std::ranges::find(written, directory / name) != written.end())
      listed[name] = core::checksum_file(directory / name);
  return listed;
}

}  // namespace trainctl::exporters
