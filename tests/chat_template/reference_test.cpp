// Against jinja2 as transformers sets it up: templates of published tokenizers, and generated ones.
#include <algorithm>
#include <catch2/catch.hpp>
#include <fstream>
#include <nlohmann/json.hpp>

#include "chat_template/chat_template.h"
#include "core/error.h"
#include "support/python.h"

namespace trainctl::chat_template {
namespace {

using Json = nlohmann::ordered_json;

/// The date that tests/reference/chat_templates.py has for today.
constexpr std::tm kToday = [] {
  std::tm day{};
  day.tm_year = 124;
  day.tm_mon = 6;
  day.tm_mday = 26;
  day.tm_wday = 5;
  return day;
}();

Json read_cases(const std::string& part, const std::vector<std::string>& more) {
  const testing::TemporaryDirectory directory;
  const std::filesystem::path file = directory / "cases.json";
  std::vector<std::string> arguments = {part, file.string()};
  arguments.insert(arguments.end(), more.begin(), more.end());
  testing::run_reference("chat_templates.py", arguments);
  std::ifstream stream(file);
  return Json::parse(stream);
}

/// Where bytes are in code points, as Python counts.
std::size_t code_points_before(const std::string& text, std::size_t bytes) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(bytes),
                    [](char byte) { return (static_cast<unsigned char>(byte) & 0xC0U) != 0x80; }));
}

Json spans_of(const Rendered& rendered) {
  Json spans = Json::array();
  for (const TextSpan& span : rendered.generated)
    spans.push_back({code_points_before(rendered.text, span.begin), code_points_before(rendered.text, span.end)});
  return spans;
}

/// Renders a case; null where that is an error, which `message` then has.
Json outcome(const Json& one, std::string& message) {
  try {
    const ChatTemplate chat(one.at("template").get<std::string>(), one.at("name").get<std::string>());
    const Rendered rendered = chat.render(one.at("variables"), {.now = kToday});
    return {{"text", rendered.text}, {"spans", spans_of(rendered)}};
  } catch (const core::Error& error) {
    message = error.text();
    return nullptr;
  }
}

struct Counts {
  std::size_t texts = 0;
  std::size_t errors = 0;
  std::size_t spans = 0;
  std::size_t undecided = 0;
  std::vector<std::string> refused_here_alone{};  // the reasons
};

Counts compare_with_python(const Json& cases) {
  Counts counts;
  for (const Json& one : cases) {
    std::string message;
    const Json ours = outcome(one, message);
    INFO(one.at("name") << "\n"
                        << one.at("template").get<std::string>().substr(0, 3000) << "\nvariables: "
                        << one.at("variables") << "\nours: " << message << "\nPython: " << one.at("error"));
    // transformers counts a block's place wrong if a macro or a captured block holds the block.
    if (message.find("{% generation %} is inside") != std::string::npos) {
      ++counts.undecided;
      continue;
    }
    if (ours.is_null() && !one.at("expected").is_null()) {
      counts.refused_here_alone.push_back(one.at("name").get<std::string>() + ": " + message);
      continue;
    }
    CHECK(ours == one.at("expected"));
    ++(ours.is_null() ? counts.errors : counts.texts);
    if (!ours.is_null()) counts.spans += ours.at("spans").size();
  }
  return counts;
}

TEST_CASE("templates of published tokenizers render as with transformers", "[chat_template][reference]") {
  const std::string data = TRAINCTL_SOURCE_DIR "/.deps/data/";
  std::vector<std::string> directories;
  for (const std::string set : {"trl_chat_templates", "axolotl_chat_templates"})
    directories.push_back(testing::fetch_data(set).string());
  // 77 MB, taken where someone fetched them.
  if (std::filesystem::exists(data + "llama_cpp_chat_templates"))
    directories.push_back(data + "llama_cpp_chat_templates");
  const Counts counts = compare_with_python(read_cases("published", directories));
  CHECK(counts.texts > 1000);
  CHECK(counts.spans > 100);
  CHECK(counts.refused_here_alone == std::vector<std::string>{});
}

TEST_CASE("the templates of Jinja2's own tests render as with jinja2", "[chat_template][reference]") {
  const Counts counts = compare_with_python(read_cases("jinja2", {testing::fetch_data("jinja2_tests").string()}));
  std::string reasons;
  for (const std::string& reason : counts.refused_here_alone) reasons += "\n  " + reason;
  WARN(counts.texts << " equal, " << counts.errors << " refused by both, " << counts.refused_here_alone.size()
                    << " refused here alone:" << reasons);
  CHECK(counts.texts > 300);
  CHECK(counts.errors > 100);
}

TEST_CASE("snippets of the template language render as with jinja2", "[chat_template]") {
  const Counts counts = compare_with_python(read_cases("snippets", {}));
  CHECK(counts.texts > 150);
  CHECK(counts.errors > 20);
  CHECK(counts.refused_here_alone == std::vector<std::string>{});
}

TEST_CASE("generated templates render as with jinja2", "[chat_template][reference]") {
  const Counts counts = compare_with_python(read_cases("generated", {"4000"}));
  CHECK(counts.texts > 1000);
  CHECK(counts.errors > 100);
  CHECK(counts.undecided < 200);
  CHECK(counts.refused_here_alone == std::vector<std::string>{});
}

}  // namespace
}  // namespace trainctl::chat_template
