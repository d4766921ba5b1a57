// trainctl's front: parses the command line, checks the experiment, and loads the engine if a command needs it.
#include <CLI/App.hpp>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "command_tree.h"
#include "complete.h"
#include "config/keys.h"
#include "core/error.h"
#include "core/file.h"
#include "core/terminal.h"
#include "core/text.h"
#include "core/version.h"
#include "experiment/shape.h"
#include "load_plugin.h"
#include "machine/limits.h"
#include "manual.h"
#include "plugin_commands.h"

namespace trainctl::cli {
namespace {

/// A word of the command line that is no option of the command.
struct UnknownOption {
  std::string problem;  // "train has no option --epochs"
  std::string advice;   // "--set train.epochs=3"; empty: no key has that name
};

/// Returns the shortest path of a key with this name, such as "train.epochs"; empty if there is none.
std::string key_called(const std::string& name) {
  std::string best;
  for (const config::KeyDescription& key : config::list_keys(experiment::experiment_shape())) {
    const bool fits = key.path == name || key.path.ends_with("." + name);
    const auto depth = [](const std::string& path) { return std::count(path.begin(), path.end(), '.'); };
    if (fits && (best.empty() || depth(key.path) < depth(best))) best = key.path;
  }
  return best;
}

/// Whether the command, or one that it is a sub-command of, has the option.
bool knows(const CLI::App& command, const std::string& option) {
  if (command.get_option_no_throw(option) != nullptr) return true;
  return command.get_parent() != nullptr && knows(*command.get_parent(), option);
}

/// Finds the first option of `words` that the command doesn't have, and the key of the experiment with its name. Empty
/// if the command has all of them.
UnknownOption find_unknown_option(const CLI::App& command, std::span<const std::string> words) {
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string name = words[i].substr(0, words[i].find('='));
    if (!name.starts_with("--") || name.size() < 3 || knows(command, name)) continue;
    UnknownOption unknown{.problem = command_path(command) + " has no option " + name, .advice = ""};
    std::string key = name.substr(2);
    std::replace(key.begin(), key.end(), '-', '_');
    const std::string path = command.get_option_no_throw("--set") == nullptr ? "" : key_called(key);
    if (path.empty()) return unknown;
    const std::size_t equals = words[i].find('=');
    const bool has_value = i + 1 < words.size() && !words[i + 1].starts_with("--");
    const std::string value = equals != std::string::npos ? words[i].substr(equals + 1)
                              : has_value                 ? words[i + 1]
                                                          : "VALUE";
    unknown.advice = "--set " + path + "=" + value;
    return unknown;
  }
  return {};
}

/// Refuses an unknown word in the command's place.
void refuse_unknown_command(int argc, char** argv) {
  if (argc < 2 || argv[1][0] == '-') return;
  std::vector<std::string> names;
  for (const Command& command : commands()) names.emplace_back(command.name);
  for (const std::string& name : plugin_command_names()) names.push_back(name);
  const std::string word = argv[1];
  for (const std::string& name : names)
    if (name == word) return;
  const std::string meant = core::nearest_word(word, names);
  throw CLI::ExtrasError(
      "unknown command '" + word + "'" +
          (meant.empty() ? "; the commands are " + core::list_words(names) : "; did you mean '" + meant + "'?"),
      CLI::ExitCodes::ExtrasError);
}

/// Answers what shells and packages ask: `__complete WORD…`, and `__manual DIRECTORY`. No help lists these words.
bool answer_for_tools(const CLI::App& app, const std::vector<std::string>& words) {
  if (words.empty()) return false;
  if (words.front() == "__complete")
    print_completion(complete(app, std::span(words).subspan(1)));
  else if (words.front() == "__manual" && words.size() == 2)
    write_manual(app, words.back());
  else
    return false;
  return true;
}

/// Whether the program, or a command that has sub-commands, is all that was typed: its help lists them.
bool lacks_subcommand(const CLI::App& app, int argc) {
  if (argc == 1) return true;
  const std::vector<CLI::App*> chosen = app.get_subcommands();
  return argc == 2 && chosen.size() == 1 && !chosen.front()->get_subcommands({}).empty();
}

/// Returns the innermost command that was typed, such as `clean` of `trainctl runs clean`; the program if there is
/// none.
const CLI::App& innermost_command(const CLI::App& app) {
  const std::vector<CLI::App*> chosen = app.get_subcommands();
  return chosen.empty() ? app : innermost_command(*chosen.front());
}

int run(int argc, char** argv) {
  CLI::App app("Trains neural networks from one YAML file.", "trainctl");
  app.set_version_flag("--version", std::string("trainctl ") + std::string(core::kVersion));
  app.require_subcommand(1);
  app.footer("'trainctl COMMAND --help' shows a command's options and examples.");
  Action action;
  load_plugins_of_environment();
  add_commands(app, action);
  if (answer_for_tools(app, {argv + 1, argv + argc})) return core::kExitDone;
  try {
    refuse_unknown_command(argc, argv);
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help and --version
    if (lacks_subcommand(app, argc)) {
      std::fputs(app.help().c_str(), stderr);
      return core::kExitUsage;
    }
    const CLI::App& command = innermost_command(app);
    const std::string path = command_path(command);
    const std::string help = "trainctl " + path + (path.empty() ? "" : " ") + "--help";
    const std::vector<std::string> words(argv + 1, argv + argc);
    const bool has_unknown_words = dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr;
    const UnknownOption unknown =
        has_unknown_words && !path.empty() ? find_unknown_option(command, words) : UnknownOption();
    const std::string problem = unknown.problem.empty() ? error.what() : unknown.problem;
    const std::string advice = unknown.advice.empty() ? help : unknown.advice;
    core::print(stderr, "trainctl: %s\n  try: %s\n", problem.c_str(), advice.c_str());
    return core::kExitUsage;
  }
  return action();
}

}  // namespace
}  // namespace trainctl::cli

/// Catches every exception and reports it. Returns the exit code.
static int run_and_report(int argc, char** argv) {
  try {
    trainctl::machine::require_stack();
    trainctl::machine::allow_many_files();
    const int code = trainctl::cli::run(argc, argv);
    if (code == trainctl::core::kExitDone) trainctl::core::flush_standard_output();
    return code;
  } catch (const trainctl::core::ConfigError& error) {
    for (const trainctl::core::Problem& problem : error.problems())
      trainctl::core::print(stderr, "%s\n", problem.text().c_str());
    return trainctl::core::kExitUsage;
  } catch (const std::exception& error) {
    trainctl::core::Error reported = trainctl::core::as_error(error);
    const bool is_ours = dynamic_cast<const trainctl::core::Error*>(&error) != nullptr;
    // The file system's state is no fault of the program.
    const bool is_of_files = dynamic_cast<const std::filesystem::filesystem_error*>(&error) != nullptr;
    if (!is_ours && !is_of_files && !reported.has_hint())
      reported.hint("no check of trainctl expected this; please report it with the experiment file");
    trainctl::core::print(stderr, "trainctl: %s\n", reported.text().c_str());
    return trainctl::core::kExitFailed;
  }
}

int main(int argc, char** argv) {
  std::signal(SIGXFSZ, SIG_IGN);  // a write beyond ulimit -f then fails with an error that is reported
  // A shell without job control makes background jobs ignore SIGINT, but an explicit SIGINT must stop them.
  std::signal(SIGINT, SIG_DFL);
  const int code = run_and_report(argc, argv);
#ifndef TRAINCTL_SANITIZED
  // Skips LibTorch's static destructors, which unregister thousands of operators and take a tenth of a second.
  std::fflush(nullptr);
  std::quick_exit(code);
#endif
  return code;
}
