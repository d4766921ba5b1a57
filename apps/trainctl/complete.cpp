#include "complete.h"

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <set>

#include "compare/report.h"
#include "config/flatten.h"
#include "config/keys.h"
#include "config/overlay.h"
#include "config/read.h"
#include "config/write.h"
#include "core/text.h"
#include "experiment/experiment.h"
#include "experiment/shape.h"

namespace trainctl::cli {
namespace {

namespace fs = std::filesystem;

/// What the value of an option or of a positional may be, and what the line says before it.
struct ValueQuestion {
  const CLI::Option& option;
  const std::string& word;               // what is typed of the value
  std::string experiment;                // first positional of the line, "" if there is none
  const std::vector<std::string>& sets;  // values of --set before
};

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::size_t begin = 0;
  for (std::size_t end = 0; end != std::string::npos; begin = end + 1) {
    end = text.find(separator, begin);
    parts.push_back(text.substr(begin, end == std::string::npos ? end : end - begin));
  }
  return parts;
}

void keep_beginnings(const std::string& word, std::vector<Candidate>& candidates) {
  std::erase_if(candidates, [&](const Candidate& candidate) { return !candidate.text.starts_with(word); });
}

// ---- runs

bool is_run(const fs::path& directory) {
  std::error_code ignored;
  return fs::exists(directory / "checkpoints", ignored) || fs::exists(directory / "metrics.jsonl", ignored);
}

/// Returns the directories in `directory` that are no hidden ones; none if it can't be read.
std::vector<fs::path> directories_in(const fs::path& directory) {
  std::vector<fs::path> found;
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(directory.empty() ? "." : directory, ignored))
    if (entry.is_directory(ignored) && !entry.path().filename().string().starts_with('.'))
      found.push_back(directory / entry.path().filename());
  return found;
}

/// Returns runs/NAME/TIME, and the runs beside what is typed. The newest is the first.
std::vector<fs::path> runs_near(const std::string& word) {
  std::set<fs::path> runs;
  std::vector<fs::path> parents = directories_in("runs");
  parents.push_back(fs::path(word).parent_path());
  for (const fs::path& parent : parents)
    for (const fs::path& directory : directories_in(parent))
      if (is_run(directory)) runs.insert(directory);
  std::vector<fs::path> sorted(runs.begin(), runs.end());
  std::ranges::stable_sort(sorted, std::greater{}, [](const fs::path& run) {
    std::error_code ignored;
    return fs::last_write_time(run, ignored);
  });
  return sorted;
}

std::vector<fs::path> checkpoints_of(const fs::path& run) {
  std::vector<fs::path> found = directories_in(run / "checkpoints");
  std::ranges::sort(found, std::greater{});
  return found;
}

/// Lists runs, and the checkpoints of a run that is typed whole.
std::vector<Candidate> run_candidates(const std::string& word) {
  std::vector<Candidate> found;
  for (const fs::path& run : runs_near(word)) {
    const std::vector<fs::path> checkpoints = checkpoints_of(run);
    found.push_back({run.string(), checkpoints.empty()
                                       ? "run without a checkpoint"
                                       : "run; newest checkpoint " + checkpoints.front().filename().string()});
  }
  const fs::path typed = fs::path(word).parent_path();
  for (const fs::path& run : {typed, typed.parent_path()})
    if (!run.empty() && is_run(run))
      for (const fs::path& checkpoint : checkpoints_of(run)) found.push_back({checkpoint.string(), "checkpoint"});
  keep_beginnings(word, found);
  return found;
}

// ---- keys after --set

/// The keys, and the values that the file gives them.
struct KnownKeys {
  std::vector<config::KeyDescription> keys;
  std::map<std::string, std::string> values;
};

/// Reads as much of the experiment as is right: a line that is being typed has mistakes. Without a file, lists the keys
/// of all kinds.
KnownKeys known_keys(const ValueQuestion& question) {
  const config::Shape& shape = experiment::experiment_shape();
  config::Problems problems;
  std::error_code ignored;
  std::optional<config::Node> written;
  if (fs::is_regular_file(question.experiment, ignored))
    written = config::load_with_bases(shape, question.experiment, problems);
  if (!written) return {config::list_keys(shape), {}};
  for (const std::string& assignment : question.sets) config::apply_set(shape, *written, assignment, problems);
  experiment::Experiment experiment;
  config::read_into(shape, *written, &experiment, problems);
  const config::Node complete = config::write_value(shape, &experiment);
  return {config::list_keys(shape, &complete), config::flatten(complete)};
}

std::vector<Candidate> values_of_key(const std::string& path, const KnownKeys& known) {
  std::vector<Candidate> found;
  for (const config::KeyDescription& key : known.keys) {
    if (key.path != path) continue;
    for (const std::string_view word : key.words) found.push_back({path + "=" + std::string(word), ""});
    const auto value = known.values.find(path);
    if (value == known.values.end()) continue;
    const std::string text = path + "=" + value->second;
    const auto same = std::ranges::find(found, text, &Candidate::text);
    if (same == found.end())
      found.push_back({text, "as the file has it"});
    else
      same->help = "as the file has it";
  }
  return found;
}

/// Lists keys up to the next dot: "optimizer." and "seed=".
std::vector<Candidate> key_candidates(const ValueQuestion& question) {
  const KnownKeys known = known_keys(question);
  if (const auto equals = question.word.find('='); equals != std::string::npos)
    return values_of_key(question.word.substr(0, equals), known);
  std::vector<Candidate> found;
  for (const config::KeyDescription& key : known.keys) {
    if (!key.path.starts_with(question.word)) continue;
    const auto dot = key.path.find('.', question.word.size());
    if (dot == std::string::npos)
      found.push_back({key.path + "=", std::string(key.help)});
    else if (const std::string section = key.path.substr(0, dot + 1); found.empty() || found.back().text != section)
      found.push_back({section, ""});
  }
  return found;
}

// ---- others

std::vector<Candidate> kinds_of(const std::string& section) {
  std::vector<Candidate> found;
  for (const config::KeyDescription& key : config::list_keys(experiment::experiment_shape()))
    if (key.path == section + ".kind")
      for (const std::string_view word : key.words) found.push_back({std::string(word), ""});
  return found;
}

/// Continues a list "a,b,": the words that are not yet in it.
std::vector<Candidate> list_candidates(const std::string& word, const std::vector<std::string>& words) {
  const auto comma = word.rfind(',');
  const std::string before = comma == std::string::npos ? "" : word.substr(0, comma + 1);
  const std::vector<std::string> taken = split(before, ',');
  std::vector<Candidate> found;
  for (const std::string& one : words)
    if (std::ranges::find(taken, one) == taken.end()) found.push_back({before + one, ""});
  return found;
}

/// Returns {"a", "b"} of the choice "TEXT:{a,b}" that the help shows.
std::vector<std::string> choices_of(const std::string& type) {
  const auto begin = type.find('{');
  const auto end = type.find('}', begin);
  if (begin == std::string::npos || end == std::string::npos) return {};
  return split(type.substr(begin + 1, end - begin - 1), ',');
}

/// Adds what one word of a type stands for, such as RUN of "CONFIG|RUN".
void add_word_of_type(const std::string& type, const std::string& word, Completion& completion) {
  if (type == "RUN" || type == "PATH")
    for (Candidate& candidate : run_candidates(word)) completion.candidates.push_back(std::move(candidate));
  if (type == "CONFIG") completion.paths = std::max(completion.paths, Paths::experiments);
  if (type == "FILE" || type == "PATH") completion.paths = Paths::files;
  if (type == "DIR" || type == "RUN") completion.paths = std::max(completion.paths, Paths::directories);
  if (!type.empty() && std::islower(static_cast<unsigned char>(type[0])) != 0)
    completion.candidates.push_back({type, ""});
}

/// Answers from the option's type: its choices, and files, runs, keys or strategies by the names that the help shows.
Completion complete_value(const ValueQuestion& question) {
  Completion completion;
  const std::string name = question.option.get_name();
  const std::string type = question.option.nonpositional() ? question.option.get_type_name() : name;
  if (type.starts_with("KEY=VALUE"))
    completion.candidates = key_candidates(question);
  else if (type.starts_with("A,B"))
    completion.candidates =
        list_candidates(question.word, choices_of(type).empty() ? compare::strategy_names() : choices_of(type));
  else if (name == "--model" || name == "--optimizer")
    completion.candidates = kinds_of(name.substr(2));
  else if (const std::vector<std::string> choices = choices_of(type); !choices.empty())
    for (const std::string& choice : choices) completion.candidates.push_back({choice, ""});
  else
    for (const std::string& word : split(type.substr(0, type.find(':')), '|'))
      add_word_of_type(word, question.word, completion);
  keep_beginnings(question.word, completion.candidates);
  // Otherwise a shell completes "ru" to the directory "runs", and not to the only run.
  if (!question.word.empty() && !completion.candidates.empty()) completion.paths = Paths::none;
  return completion;
}

/// Whether words after the first belong to the option, too, until the next option.
bool takes_many(const CLI::Option& option) {
  return option.get_items_expected_max() > 1 && option.get_allow_extra_args();
}

/// The state of a command line before the cursor.
class Line {
 public:
  explicit Line(const CLI::App& program) : command_(&program) {}

  void read(const std::string& word) {
    const bool is_option = word.size() > 1 && word[0] == '-';
    if (open_ != nullptr && !(is_option && has_value_)) return read_value(word);
    open_ = nullptr;
    if (is_option) return read_option(word);
    for (const CLI::App* sub : command_->get_subcommands({}))
      if (sub->get_name() == word) {
        command_ = sub;
        return positionals_.clear();
      }
    positionals_.push_back(word);
  }

  Completion complete(const std::string& word) const {
    const bool is_option = word.starts_with('-');
    if (open_ != nullptr && !(is_option && has_value_)) return value(*open_, word);
    if (const auto equals = word.find('='); is_option && equals != std::string::npos) {
      const CLI::Option* option = command_->get_option_no_throw(word.substr(0, equals));
      if (option == nullptr) return {};
      return with_prefix(word.substr(0, equals + 1), value(*option, word.substr(equals + 1)));
    }
    if (is_option) return options(word);
    if (const Completion found = subcommands(word); !found.candidates.empty()) return found;
    const CLI::Option* positional = positional_at_cursor();
    if (positional != nullptr) return value(*positional, word);
    return word.empty() ? options(word) : Completion{};
  }

 private:
  void read_option(const std::string& word) {
    const auto equals = word.find('=');
    const CLI::Option* option = command_->get_option_no_throw(word.substr(0, equals));
    if (option == nullptr || option->get_items_expected_max() == 0) return;
    open_ = option;
    has_value_ = false;
    if (equals != std::string::npos) read_value(word.substr(equals + 1));
  }

  void read_value(const std::string& word) {
    if (open_->get_name() == "--set") sets_.push_back(word);
    has_value_ = true;
    if (!takes_many(*open_)) open_ = nullptr;
  }

  Completion value(const CLI::Option& option, const std::string& word) const {
    return complete_value({.option = option,
                           .word = word,
                           .experiment = positionals_.empty() ? "" : positionals_.front(),
                           .sets = sets_});
  }

  static Completion with_prefix(const std::string& prefix, Completion completion) {
    for (Candidate& candidate : completion.candidates) candidate.text.insert(0, prefix);
    completion.paths = Paths::none;  // the shell would look for a file whose name begins with the option
    return completion;
  }

  Completion options(const std::string& word) const {
    Completion found;
    for (const CLI::Option* option : command_->get_options({}))
      for (const std::string& name : option->get_lnames())
        if (const std::string text = "--" + name; text.starts_with(word) && !option->get_group().empty())
          found.candidates.push_back({text, option->get_description()});
    return found;
  }

  Completion subcommands(const std::string& word) const {
    Completion found;
    for (const CLI::App* sub : command_->get_subcommands({}))
      if (sub->get_name().starts_with(word) && !sub->get_group().empty())
        found.candidates.push_back({sub->get_name(), sub->get_description()});
    return found;
  }

  const CLI::Option* positional_at_cursor() const {
    std::size_t place = positionals_.size();
    for (const CLI::Option* option : command_->get_options({})) {
      if (!option->get_positional()) continue;
      const auto count = static_cast<std::size_t>(std::max(1, option->get_items_expected_max()));
      if (place < count) return option;
      place -= count;
    }
    return nullptr;
  }

  const CLI::App* command_;
  const CLI::Option* open_ = nullptr;  // takes the next word
  bool has_value_ = false;             // of the open option
  std::vector<std::string> positionals_;
  std::vector<std::string> sets_;
};

/// Returns the text on one line: the protocol has a line per candidate.
std::string one_line(std::string text) {
  std::ranges::replace_if(
      text, [](char c) { return c == '\n' || c == '\t'; }, ' ');
  return text;
}

}  // namespace

Completion complete(const CLI::App& program, std::span<const std::string> words) {
  Line line(program);
  if (words.empty()) return line.complete("");
  for (const std::string& word : words.first(words.size() - 1)) line.read(word);
  return line.complete(words.back());
}

void print_completion(const Completion& completion) {
  constexpr const char* kPaths[] = {"none", "directories", "experiments", "files"};
  for (const Candidate& candidate : completion.candidates)
    std::printf("%s\t%s\n", one_line(candidate.text).c_str(), one_line(candidate.help).c_str());
  std::printf(":%s\n", kPaths[static_cast<std::size_t>(completion.paths)]);
}

}  // namespace trainctl::cli
