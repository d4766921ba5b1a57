#include "plugin_commands.h"

#include <algorithm>
#include <memory>

#include "config/overlay.h"
#include "config/read.h"
#include "plugin/command.h"

namespace trainctl::cli {
namespace {

using CommandKind = config::PluggedKind<plugin::CommandInterface>;

const auto& plugged_commands() {
  return config::PluggedKinds<plugin::CommandInterface>::all().kinds();
}

std::string option_of(std::string_view key) {
  std::string option = "--" + std::string(key);
  std::ranges::replace(option, '_', '-');
  return option;
}

/// Runs the command with the values of its options: assignments "key=value".
int run(const CommandKind& command, const std::vector<std::string>& assignments) {
  config::Problems problems;
  config::Node given = config::Node::mapping({.kind = config::OriginKind::command_line});
  for (const std::string& assignment : assignments) config::apply_set(*command.shape, given, assignment, problems);
  const std::shared_ptr<void> config = command.make();
  config::read_into(*command.shape, given, config.get(), problems);
  problems.throw_if_any();
  return command.interface.run(config.get());
}

}  // namespace

std::vector<std::string> plugin_command_names() {
  std::vector<std::string> names;
  for (const CommandKind& command : plugged_commands()) names.emplace_back(command.name);
  return names;
}

void add_plugin_commands(CLI::App& app, Action& action) {
  for (const CommandKind& command : plugged_commands()) {
    CLI::App* const sub = app.add_subcommand(std::string(command.name), std::string(command.interface.summary));
    const auto assignments = std::make_shared<std::vector<std::string>>();
    for (const config::Key& key : command.shape->keys)
      sub->add_option_function<std::string>(
             option_of(key.name),
             [assignments, name = std::string(key.name)](const std::string& value) {
               assignments->push_back(name + "=" + value);
             },
             std::string(key.help))
          ->type_name("VALUE");
    sub->final_callback(
        [&action, &command, assignments] { action = [&command, assignments] { return run(command, *assignments); }; });
  }
}

}  // namespace trainctl::cli
