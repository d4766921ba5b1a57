#include "chat_template/template_files.h"

#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/file.h"
#include "core/json.h"

namespace trainctl::chat_template {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr std::uint64_t kLargestFile = 64 << 20;

/// The forms of the member: a text, {NAME: TEXT}, [{"name": NAME, "template": TEXT}].
NamedTemplates templates_in(const Json& member) {
  NamedTemplates templates;
  if (member.is_string()) templates[kDefaultTemplate] = member.get<std::string>();
  if (member.is_object())
    for (const auto& [name, source] : member.items())
      if (source.is_string()) templates[name] = source.get<std::string>();
  if (member.is_array())
    for (const Json& one : member)
      if (one.is_object()) templates[one.value("name", "")] = one.value("template", "");
  return templates;
}

}  // namespace

std::map<std::string, fs::path> additional_templates(const fs::path& directory) {
  std::map<std::string, fs::path> files;
  if (const fs::path additional = directory / kTemplateDirectory; fs::is_directory(additional))
    for (const fs::directory_entry& file : fs::directory_iterator(additional))
      if (file.path().extension() == ".jinja" && file.is_regular_file())
        files[file.path().stem().string()] = file.path();
  return files;
}

NamedTemplates read_templates(const fs::path& directory) {
  NamedTemplates templates;
  if (const fs::path file = directory / kTemplateFile; fs::is_regular_file(file))
    templates[kDefaultTemplate] = core::read_file(file, kLargestFile);
  for (const auto& [name, file] : additional_templates(directory))
    templates[name] = core::read_file(file, kLargestFile);
  const fs::path config = directory / "tokenizer_config.json";
  if (!templates.empty() || !fs::is_regular_file(config)) return templates;
  const Json json = core::parse_json_or_discard<Json>(core::read_file(config, kLargestFile));
  return json.is_object() && json.contains("chat_template") ? templates_in(json.at("chat_template")) : templates;
}

}  // namespace trainctl::chat_template
