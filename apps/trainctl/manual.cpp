#include "manual.h"

#include <algorithm>
#include <cctype>

#include "command_tree.h"
#include "core/file.h"
#include "core/version.h"
#include "examples.h"

namespace trainctl::cli {
namespace {

/// Escapes a text for roff: minus signs that can be copied, and no request at the beginning of a line.
std::string escaped(const std::string& text) {
  std::string result;
  for (const char c : text) {
    if (c == '\\')
      result += "\\e";
    else if (c == '-')
      result += "\\-";
    else
      result += c;
  }
  return result.starts_with('.') || result.starts_with('\'') ? "\\&" + result : result;
}

std::string bold(const std::string& text) {
  return "\\fB" + escaped(text) + "\\fR";
}

std::string upper(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return text;
}

/// Returns "train" as "Train.": summaries are phrases without a full stop.
std::string sentence(std::string text) {
  if (text.empty()) return text;
  text[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(text[0])));
  return text.ends_with('.') ? text : text + ".";
}

std::string section(const std::string& title) {
  return ".SH " + title + "\n";
}

std::string tagged(const std::string& tag, const std::string& text) {
  return ".TP\n" + tag + "\n" + escaped(text) + "\n";
}

/// Returns the option as it is typed: names, and the value with its choices and default.
std::string option_tag(const CLI::Option& option) {
  if (!option.nonpositional()) return bold(option.get_name());
  std::string names;
  for (const std::string& name : option.get_snames()) names += (names.empty() ? "" : ", ") + bold("-" + name);
  for (const std::string& name : option.get_lnames()) names += (names.empty() ? "" : ", ") + bold("--" + name);
  if (option.get_items_expected_max() == 0) return names;
  const std::string type = option.get_type_name();
  const auto choices = type.find('{');
  names += " " + escaped(choices == std::string::npos ? type.substr(0, type.find(':')) : type.substr(choices));
  return names + (option.get_default_str().empty() ? "" : escaped(" (default " + option.get_default_str() + ")"));
}

std::string options(const CLI::App& command, const std::string& heading) {
  std::string positionals;
  std::string others;
  for (const CLI::Option* option : command.get_options({})) {
    if (option->get_group().empty() || option->check_lname("help")) continue;
    std::string& text = option->nonpositional() ? others : positionals;
    text += tagged(option_tag(*option), sentence(option->get_description()));
  }
  return (positionals.empty() ? "" : heading + "ARGUMENTS\n" + positionals) +
         (others.empty() ? "" : heading + "OPTIONS\n" + others);
}

std::string synopsis(const CLI::App& command) {
  std::string text = bold("trainctl " + command_path(command));
  if (!command.get_subcommands({}).empty()) return text + " \\fISUBCOMMAND\\fR";
  text += " [\\fIOPTIONS\\fR]";
  for (const CLI::Option* option : command.get_options({})) {
    if (option->nonpositional()) continue;
    const std::string name =
        "\\fI" + escaped(option->get_name()) + "\\fR" + (option->get_items_expected_max() > 1 ? " .\\|.\\|." : "");
    text += option->get_required() ? " " + name : " [" + name + "]";
  }
  return text;
}

std::string examples(const std::string& command) {
  std::string text;
  for (const Example& example : examples_of(command)) text += tagged(bold(example.line), example.effect);
  return text.empty() ? "" : section("EXAMPLES") + text;
}

std::string title(const std::string& page, const std::string& summary) {
  return ".TH " + upper(page) + " 1 \"\" \"trainctl " + std::string(core::kVersion) + "\" \"trainctl\"\n" +
         section("NAME") + escaped(page) + " \\- " + escaped(summary) + "\n";
}

std::string command_page(const CLI::App& command) {
  const std::string& name = command.get_name();
  std::string text =
      title("trainctl-" + name, command.get_description()) + section("SYNOPSIS") + synopsis(command) + "\n";
  for (const CLI::App* sub : command.get_subcommands({})) text += ".br\n" + synopsis(*sub) + "\n";
  text += section("DESCRIPTION") + escaped(sentence(command.get_description())) + "\n" + options(command, ".SH ");
  for (const CLI::App* sub : command.get_subcommands({}))
    text +=
        section(upper(command_path(*sub))) + escaped(sentence(sub->get_description())) + "\n" + options(*sub, ".SS ");
  return text + examples(name) + section("EXIT STATUS") +
         "0: done; 1: the command failed; 2: wrong usage or a wrong experiment file; 128 + n: stopped by signal n.\n" +
         section("SEE ALSO") + "\\fBtrainctl\\fR(1)\n";
}

std::string program_page(const CLI::App& program) {
  std::string text = title("trainctl", "train neural networks from one YAML file") + section("SYNOPSIS") +
                     bold("trainctl") + " \\fICOMMAND\\fR [\\fIOPTIONS\\fR]\n" + section("DESCRIPTION") +
                     escaped(program.get_description()) + "\n" + options(program, ".SH ") + section("COMMANDS");
  for (const CLI::App* sub : program.get_subcommands({}))
    text += tagged("\\fBtrainctl\\-" + escaped(sub->get_name()) + "\\fR(1)", sentence(sub->get_description()));
  return text + section("ENVIRONMENT") +
         tagged(bold("TRAINCTL_LIBTORCH"), "Directory of another LibTorch of the same release: the one with lib/.") +
         tagged(bold("OMP_NUM_THREADS"), "Threads of each rank, if the experiment does not say device.num_threads.") +
         section("FILES") +
         tagged("\\fIruns/NAME/TIME\\-N/\\fR",
                "A run: its config.yaml, metrics.jsonl, summary.json, evaluation.json and checkpoints.") +
         section("EXIT STATUS") +
         "0: done; 1: the command failed; 2: wrong usage or a wrong experiment file; 128 + n: stopped by signal n.\n";
}

}  // namespace

void write_manual(const CLI::App& program, const std::filesystem::path& directory) {
  std::filesystem::create_directories(directory);
  core::write_file_atomically(directory / "trainctl.1", program_page(program));
  for (const CLI::App* command : program.get_subcommands({}))
    core::write_file_atomically(directory / ("trainctl-" + command->get_name() + ".1"), command_page(*command));
}

}  // namespace trainctl::cli
