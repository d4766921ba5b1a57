// `trainctl data`: commands on datasets. Each sub-command is one function here and one in engine/.
#include <algorithm>
#include <memory>

#include "config/node.h"
#include "core/error.h"
#include "number_option.h"
#include "run_experiment.h"

namespace trainctl::cli {
namespace {

/// Action of the chosen sub-command; parsing the command line sets it.
using Chosen = std::shared_ptr<Action>;

/// Whether a source of the dataset is text.
bool has_text(const dataset::SourceConfig& source) {
  const std::vector<dataset::NamedSource> sources = dataset::sources_of(source);
  return std::any_of(sources.begin(), sources.end(), [](const dataset::NamedSource& one) {
    return one.facts.tokens() != nullptr && one.facts.tokens()->tokenizer.value.has_value();
  });
}

void refuse_without_text(const experiment::LoadedExperiment& loaded) {
  const dataset::SourceConfig& source = loaded.experiment.dataset.source;
  if (has_text(source)) return;
  throw core::ConfigError(
      {core::Problem{.where = config::origin_of(loaded.node, "dataset.kind").text(),
                     .path = "dataset.kind",
                     .message = std::string(source.kind()) + " has no text to tokenize: nothing to prepare"}});
}

void add_prepare(CLI::App& app, const Chosen& chosen) {
  struct Options {
    ExperimentOptions experiment;
    RunOptions run;
    DataPrepareOptions prepare;
  };
  CLI::App* prepare = app.add_subcommand("prepare", "tokenize the dataset's text once, on all cores, for later runs");
  const auto options = std::make_shared<Options>();
  add_experiment_options(*prepare, options->experiment);
  prepare->add_flag("--verify", options->prepare.verify, "Read existing files, and compare their checksums");
  prepare->add_flag("--json", options->run.json, "One JSON document on standard output");
  prepare->final_callback([options, chosen] {
    *chosen = [options] {
      const EngineCall call = engine_call(options->prepare, options->experiment, options->run);
      refuse_without_text(call.loaded);
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
  bench->add_option("--seconds", options->bench.seconds, "Seconds to measure")
      ->check(finite_number(1e-3, 1e6))
      ->capture_default_str();
  bench->add_option("--warmup", options->bench.warmup_s, "Seconds before the measurement")
      ->check(finite_number(0, 1e6))
      ->capture_default_str();
  bench->add_option("--from", options->bench.from, "Start at this sample of the first epoch, as a resumed run does")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  bench->add_flag("--json", options->run.json, "One JSON document on standard output");
  bench->final_callback([options, chosen] {
    *chosen = [options] { return call_engine(engine_call(options->bench, options->experiment, options->run)); };
  });
}

/// Options of a sub-command on whole datasets.
template <class Own>
struct SetOptions {
  ExperimentOptions experiment;
  RunOptions run;
  Own own;
};

template <class Own>
std::shared_ptr<SetOptions<Own>> add_set_command(CLI::App& command, const Chosen& chosen) {
  const auto options = std::make_shared<SetOptions<Own>>();
  add_experiment_options(command, options->experiment);
  command.add_flag("--json", options->run.json, "One JSON document on standard output");
  command.final_callback([options, chosen] {
    *chosen = [options] { return call_engine(engine_call(options->own, options->experiment, options->run)); };
  });
  return options;
}

void add_shard(CLI::App& app, const Chosen& chosen) {
  CLI::App* shard = app.add_subcommand("shard", "write images as tar shards, or tokenized text as token files");
  const auto options = add_set_command<DataShardOptions>(*shard, chosen);
  shard
      ->add_option("--output", options->own.output,
                   "Directory of the shards and their index.json; an interrupted command continues there")
      ->required()
      ->type_name("DIR");
  shard->add_option("--shard-mib", options->own.shard_mib, "Approximate size of a shard")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  shard
      ->add_option("--max-side", options->own.max_side,
                   "Shrink larger images to this side (pixels), and store them as JPEG")
      ->check(CLI::Range(1, 1 << 16));
  shard->add_option("--quality", options->own.quality, "Quality of these JPEGs")
      ->check(CLI::Range(1, 100))
      ->capture_default_str();
}

void add_data_verify(CLI::App& app, const Chosen& chosen) {
  CLI::App* verify = app.add_subcommand("verify", "read and decode every sample, and compare shards' checksums");
  add_set_command<DataVerifyOptions>(*verify, chosen);
}

void add_stats(CLI::App& app, const Chosen& chosen) {
  CLI::App* stats =
      app.add_subcommand("stats", "counts, class balance, sizes, mean and std; a page with a contact sheet");
  const auto options = add_set_command<DataStatsOptions>(*stats, chosen);
  stats->add_option("--html", options->own.html, "Also write an HTML report, with a contact sheet of images")
      ->type_name("FILE");
  stats->add_option("--max-samples", options->own.max_samples, "Number of samples to read, evenly spaced")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
}

void add_preview(CLI::App& app, const Chosen& chosen) {
  CLI::App* preview =
      app.add_subcommand("preview", "show samples as the model gets them: pictures, and what is learned of texts");
  const auto options = std::make_shared<SetOptions<DataPreviewOptions>>();
  const auto set = std::make_shared<std::string>("train");
  add_experiment_options(*preview, options->experiment);
  preview->add_option("-n,--num-samples", options->own.num_samples, "Number of samples to show")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  preview->add_option("--split", *set, "The set to show")
      ->check(CLI::IsMember({"train", "eval"}))
      ->capture_default_str();
  preview->add_option("--html", options->own.html, "Also write a page with the pictures and the colored texts")
      ->type_name("FILE");
  preview->final_callback([options, set, chosen] {
    *chosen = [options, set] {
      options->own.of_evaluation = *set == "eval";
      return call_engine(engine_call(options->own, options->experiment, options->run));
    };
  });
}

}  // namespace

Action declare_data(CLI::App& app) {
  app.require_subcommand(1);
  const auto chosen = std::make_shared<Action>();
  add_prepare(app, chosen);
  add_bench(app, chosen);
  add_shard(app, chosen);
  add_data_verify(app, chosen);
  add_stats(app, chosen);
  add_preview(app, chosen);
  return [chosen] { return (*chosen)(); };
}

}  // namespace trainctl::cli
