#include "experiment/renamed.h"

#include <catch2/catch.hpp>

#include "experiment/describe.h"
#include "problem_lines.h"
#include "support/temporary_directory.h"

namespace trainctl::experiment::renamed_test {
namespace {

std::string problems_of_setting(const std::string& assignment) {
  const testing::TemporaryDirectory folder;
  const std::vector<std::string> sets = {assignment};
  try {
    load_experiment(folder.write("f.yaml", "name: x\n"), sets);
  } catch (const core::ConfigError& error) {
    return error.what();
  }
  return "";
}

/// "kind: full" as "kind=full"; a key gets a value.
std::string assigned(std::string_view name) {
  std::string text(name);
  const auto colon = text.find(": ");
  return colon == std::string::npos ? text + "=1" : text.replace(colon, 2, "=");
}

TEST_CASE("every old name is refused with its new one, which the file has", "[experiment]") {
  const std::string schema = experiment_schema();
  for (const config::Renamed& renamed : kRenamed) {
    INFO(renamed.section << " " << renamed.was);
    const std::string section = renamed.section.empty() ? "" : std::string(renamed.section) + ".";
    const auto colon = renamed.now.find(": ");
    const std::string now(colon == std::string_view::npos ? renamed.now : renamed.now.substr(colon + 2));
    CHECK_THAT(problems_of_setting(section + assigned(renamed.was)), Catch::Contains("renamed to '" + now + "'"));
    const bool is_bool = now == "true" || now == "false";
    CHECK_THAT(schema, Catch::Contains(is_bool ? "\"boolean\"" : "\"" + now.substr(now.rfind('.') + 1) + "\""));
  }
}

TEST_CASE("a name of another trainer is refused with the one that is meant", "[experiment]") {
  const std::string schema = experiment_schema();
  for (const config::Renamed& name : kNamesElsewhere) {
    const std::string section = name.section.empty() ? "" : std::string(name.section) + ".";
    INFO(section << name.was);
    const std::string now(name.now);
    CHECK_THAT(problems_of_setting(section + assigned(name.was)), Catch::Contains("is called here '" + now + "'"));
    CHECK_THAT(schema, Catch::Contains("\"" + now.substr(now.rfind('.') + 1) + "\""));
  }
}

}  // namespace
}  // namespace trainctl::experiment::renamed_test
