#include "command_tree.h"

#include "examples.h"

namespace trainctl::cli {
namespace {

/// Sets the end of the command's help: its examples, or one of each sub-command.
void add_examples(CLI::App& command) {
  const std::vector<CLI::App*> subs = command.get_subcommands({});
  std::vector<Example> examples = subs.empty() ? examples_of(command_path(command)) : std::vector<Example>{};
  for (CLI::App* sub : subs) {
    add_examples(*sub);
    for (const Example& first : examples_of(command_path(*sub))) {
      examples.push_back(first);
      break;
    }
  }
  std::string text = "Examples:\n";
  for (const Example& example : examples) text += std::string("  ") + example.line + "\n      " + example.effect + "\n";
  command.footer(text);
}

}  // namespace

std::string command_path(const CLI::App& command) {
  const CLI::App* const parent = command.get_parent();
  if (parent == nullptr) return "";
  const std::string before = command_path(*parent);
  return before + (before.empty() ? "" : " ") + command.get_name();
}

void add_commands(CLI::App& app, Action& action) {
  for (const Command& command : commands()) {
    CLI::App* sub = app.add_subcommand(command.name, command.summary);
    const Action declared = command.declare(*sub);
    if (declared) sub->final_callback([&action, declared] { action = declared; });
    add_examples(*sub);
  }
}

}  // namespace trainctl::cli
