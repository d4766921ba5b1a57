// The chat templates of tokenizers' directories; the right values are those of transformers 5's AutoTokenizer.
#include "chat_template/template_files.h"

#include <catch2/catch.hpp>

#include "support/temporary_directory.h"

namespace trainctl::chat_template::template_files_test {

using trainctl::testing::TemporaryDirectory;

NamedTemplates templates_of(const std::string& config, const std::map<std::string, std::string>& files = {}) {
  const TemporaryDirectory directory;
  std::filesystem::create_directory(directory / "additional_chat_templates");
  directory.write("tokenizer_config.json", config);
  for (const auto& [name, text] : files) directory.write(name, text);
  return read_templates(directory.path());
}

TEST_CASE("a directory's chat templates are those that transformers takes", "[chat_template]") {
  const NamedTemplates both = {{"default", "a"}, {"tool_use", "b"}};
  CHECK(templates_of(R"({"chat_template": "a"})") == NamedTemplates{{"default", "a"}});
  CHECK(templates_of(R"({"chat_template": {"default": "a", "tool_use": "b"}})") == both);
  CHECK(templates_of(R"({"chat_template": [{"name": "default", "template": "a"},
                                          {"name": "tool_use", "template": "b"}]})") == both);
  CHECK(templates_of(R"({"chat_template": "c"})",
                     {{"chat_template.jinja", "a"}, {"additional_chat_templates/tool_use.jinja", "b"}}) == both);
  CHECK(templates_of(R"({"chat_template": "a"})", {{"additional_chat_templates/tool_use.jinja", "b"}}) ==
        NamedTemplates{{"tool_use", "b"}});
  CHECK(templates_of(R"({"chat_template": null})").empty());
  CHECK(templates_of("{}").empty());
}

}  // namespace trainctl::chat_template::template_files_test
