#include "command_tree.h"

#include <cerrno>
#include <cstdlib>
#include <string>
#include <vector>

#include "examples.h"
#include "plugin_commands.h"

namespace trainctl::cli {
namespace {

/// Returns the examples of the command that are none of its sub-commands'.
std::vector<Example> own_examples(const CLI::App& command, const std::vector<CLI::App*>& subs) {
  std::vector<Example> examples = examples_of(command_path(command));
  for (const CLI::App* sub : subs)
    std::erase_if(examples, [beginning = "trainctl " + command_path(*sub)](const Example& example) {
      return std::string(example.line).starts_with(beginning);
    });
  return examples;
}

/// Sets the end of the command's help: its own examples, or one of each sub-command if it needs one of these.
void add_examples(CLI::App& command) {
  const std::vector<CLI::App*> subs = command.get_subcommands({});
  const bool needs_sub = command.get_require_subcommand_min() > 0;
  std::vector<Example> examples = needs_sub ? std::vector<Example>{} : own_examples(command, subs);
  for (CLI::App* sub : subs) {
    add_examples(*sub);
    if (!needs_sub) continue;
    for (const Example& first : examples_of(command_path(*sub))) {
      examples.push_back(first);
      break;
    }
  }
  std::string text = "Examples:\n";
  for (const Example& example : examples) text += std::string("  ") + example.line + "\n      " + example.effect + "\n";
  command.footer(text);
}

/// Adds to each option that takes an integer a check that refuses those beyond 64 bits. CLI11 takes them for the
/// largest integer.
void refuse_larger_integers(CLI::App& command) {
  for (CLI::Option* const option : command.get_options()) {
    const std::string type = option->get_type_name();
    const bool is_unsigned = type.starts_with("UINT");
    if (!is_unsigned && !type.starts_with("INT")) continue;
    option->check(CLI::Validator(
        [is_unsigned](const std::string& text) -> std::string {
          errno = 0;
          if (is_unsigned)
            std::strtoull(text.c_str(), nullptr, 10);
          else
            std::strtoll(text.c_str(), nullptr, 10);
          return errno == ERANGE ? "got " + text + "; expected an integer of 64 bits" : "";
        },
        ""));
  }
  for (CLI::App* const sub : command.get_subcommands({})) refuse_larger_integers(*sub);
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
    refuse_larger_integers(*sub);
  }
  add_plugin_commands(app, action);
}

}  // namespace trainctl::cli
