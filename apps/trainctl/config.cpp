#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>

#include "command.h"
#include "config/emit.h"
#include "core/error.h"
#include "core/file.h"
#include "engine_call.h"
#include "experiment/describe.h"
#include "experiment/load.h"
#include "kinds.h"
#include "load_plugin.h"
#include "wrong_use.h"

namespace trainctl::cli {
namespace {

int print(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  return core::kExitDone;
}

void add_show(CLI::App& app) {
  CLI::App* show = app.add_subcommand("show", "the resolved experiment, with the source of each value");
  const auto options = std::make_shared<ExperimentOptions>();
  add_experiment_options(*show, *options);
  show->final_callback([options] {
    const experiment::LoadedExperiment loaded =
        experiment::load_experiment(options->config, options->sets, load_plugin);
    print(config::emit(loaded.node, config::Comments::origins));
  });
}

/// A file that lives as long as the object.
class NamedTemporaryFile {
 public:
  explicit NamedTemporaryFile(const std::string& text)
      : path_((std::filesystem::temp_directory_path() / "trainctl-XXXXXX").string()) {
    const int descriptor = ::mkstemp(path_.data());
    if (descriptor < 0) throw core::system_error("make", path_);
    ::close(descriptor);
    std::ofstream(path_) << text;
  }
  NamedTemporaryFile(const NamedTemporaryFile&) = delete;
  NamedTemporaryFile& operator=(const NamedTemporaryFile&) = delete;
  ~NamedTemporaryFile() {
    std::error_code ignored;
    std::filesystem::remove(path_, ignored);
  }
  std::filesystem::path path() const { return path_; }

 private:
  std::string path_;
};

experiment::LoadedExperiment load_text(const std::string& text) {
  const NamedTemporaryFile file(text);
  return experiment::load_experiment(file.path(), {}, load_plugin);
}

struct NewOptions {
  experiment::StarterChoice starter;
  ConfigNewOptions data;
};

int write_starter(const experiment::StarterChoice& choice, const std::string& output) {
  const std::string text = experiment::experiment_starter(choice);
  if (output.empty()) return print(text);
  core::write_file_atomically(output, text);
  return print("written to " + output + "; next: trainctl train " + output + "\n");
}

/// Writes an experiment for the user's data, or the starter.
int write_new(const NewOptions& options) {
  if (!options.data.output.empty() && std::filesystem::exists(options.data.output))
    throw core::Error(options.data.output + " exists; --output writes a new file")
        .hint("choose another name, or remove it");
  if (options.data.from.empty()) return write_starter(options.starter, options.data.output);
  if (!options.starter.model.empty() || !options.starter.optimizer.empty())
    throw wrong_use("--from",
                    "the data decide on the network and the optimizer; leave out --model and "
                    "--optimizer, and change the file");
  ConfigNewOptions data = options.data;
  data.load = load_text;
  data.name = options.starter.name;
  return call_engine({.command = data});
}

void add_new(CLI::App& app) {
  CLI::App* starter = app.add_subcommand("new", "an experiment for your data, or a starter explained line by line");
  const auto options = std::make_shared<NewOptions>();
  starter->add_option("--name", options->starter.name, "Name of the experiment")->capture_default_str();
  starter->add_option("--model", options->starter.model, "Network of a starter (default cnn)");
  starter->add_option("--optimizer", options->starter.optimizer, "Update rule of a starter (default adamw)");
  starter
      ->add_option("--from", options->data.from,
                   "Data to train on: a folder of images for each class, a table or texts with labels (.csv, .tsv, "
                   ".jsonl), conversations (.jsonl), or plain text")
      ->type_name("PATH");
  starter->add_option("--eval", options->data.eval, "Data to evaluate on (default what lies beside, or a tenth)")
      ->type_name("PATH");
  starter->add_option("--label", options->data.label, "Column with the label, by name or by number from 1")
      ->type_name("COLUMN");
  starter->add_option("--text", options->data.text, "Column with the texts")->type_name("COLUMN");
  starter->add_option("--output", options->data.output, "File to write (default standard output)")->type_name("FILE");
  starter->final_callback([options] { write_new(*options); });
}

}  // namespace

Action declare_config(CLI::App& app) {
  app.require_subcommand(1);
  add_show(app);
  add_new(app);
  app.add_subcommand("schema", "JSON schema for editors")->final_callback([] {
    print(experiment::experiment_schema());
  });
  app.add_subcommand("reference", "every key, as Markdown")->final_callback([] {
    print(experiment::experiment_reference());
  });
  app.add_subcommand("kinds", "all that can be chosen: kinds, metrics, formats, trackers, commands; as Markdown")
      ->final_callback([&app] { print(kinds_page(*app.get_parent())); });
  return [] { return core::kExitDone; };
}

}  // namespace trainctl::cli
