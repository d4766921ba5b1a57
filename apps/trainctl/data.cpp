// `trainctl data`: sets in order. Each sub-command is one function here, and one in engine/.
#include <memory>

#include "core/error.h"
#include "run_experiment.h"

namespace trainctl {
namespace {

/// What the sub-command that was given does; it is set while the command line is parsed.
using Chosen = std::shared_ptr<Action>;

bool has_text_to_tokenise(const SourceConfig& source) {
  return source.visit([](const auto& config) {
    return requires {
      config.tokenizer;
      config.cache_dir;
    };
  });
}

void refuse_without_text(const LoadedExperiment& loaded) {
  const SourceConfig& source = loaded.experiment.dataset.source;
  if (has_text_to_tokenise(source)) return;
  const config::Node* kind = config::find_path(loaded.node, "dataset.kind");
  throw ConfigError({Problem{.where = kind == nullptr ? "" : kind->origin.text(),
                             .path = "dataset.kind",
                             .message = std::string(source.kind()) + " has no text to tokenise: nothing to prepare"}});
}

void add_prepare(CLI::App& app, const Chosen& chosen) {
  struct Options {
    ExperimentOptions experiment;
    RunOptions run;
    bool verify = false;
  };
  CLI::App* prepare = app.add_subcommand("prepare", "tokenise the dataset's text once, by all cores, for later runs");
  const auto options = std::make_shared<Options>();
  add_experiment_options(*prepare, options->experiment);
  prepare->add_flag("--verify", options->verify, "Read what is there, and compare its checksums");
  prepare->add_flag("--json", options->run.json, "One JSON document on standard output");
  prepare->final_callback([options, chosen] {
    *chosen = [options] {
      EngineCall call = engine_call("data prepare", options->experiment, options->run);
      refuse_without_text(call.loaded);
      call.verify = options->verify;
      return call_engine(call);
    };
  });
}

void add_bench(CLI::App& app, const Chosen& chosen) {
  struct Options {
    ExperimentOptions experiment;
    RunOptions run;
    DataBenchOptions bench;
  };
  CLI::App* bench = app.add_subcommand("bench", "run the loader alone: samples/s, CPU, memory, where the time goes");
  const auto options = std::make_shared<Options>();
  add_experiment_options(*bench, options->experiment);
  bench->add_option("--seconds", options->bench.seconds, "How long to measure")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  bench->add_option("--warmup", options->bench.warmup_s, "Seconds before that, not counted")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  bench->add_flag("--json", options->run.json, "One JSON document on standard output");
  bench->final_callback([options, chosen] {
    *chosen = [options] {
      EngineCall call = engine_call("data bench", options->experiment, options->run);
      call.data_bench = options->bench;
      return call_engine(call);
    };
  });
}

}  // namespace

Action declare_data(CLI::App& app) {
  app.require_subcommand(1);
  const auto chosen = std::make_shared<Action>();
  add_prepare(app, chosen);
  add_bench(app, chosen);
  return [chosen] { return (*chosen)(); };
}

}  // namespace trainctl
