// `trainctl checkpoint`: commands that need a checkpoint but no experiment.
#include <memory>

#include "command.h"
#include "engine_call.h"

namespace trainctl::cli {
namespace {

/// Action of the chosen sub-command; parsing the command line sets it.
using Chosen = std::shared_ptr<Action>;

void add_path(CLI::App& app, std::string& path) {
  app.add_option("PATH", path, "A run, checkpoints or step directory; the newest of several checkpoints is taken")
      ->required();
}

void add_consolidate(CLI::App& app, const Chosen& chosen) {
  CLI::App* consolidate =
      app.add_subcommand("consolidate", "merge the weights of all parts into one .safetensors file");
  const auto call = std::make_shared<EngineCall>(EngineCall{.command = ConsolidateOptions{}});
  add_path(*consolidate, call->checkpoint);
  auto& options = std::get<ConsolidateOptions>(call->command);
  consolidate->add_option("--output", options.output, "File to write")->required()->type_name("FILE");
  consolidate->add_flag("--everything", options.everything,
                        "Also write the optimizer's state, under the checkpoint's names");
  consolidate->final_callback([call, chosen] { *chosen = [call] { return call_engine(*call); }; });
}

void add_average(CLI::App& app, const Chosen& chosen) {
  CLI::App* average = app.add_subcommand("average", "write a checkpoint whose weights are the mean of the last ones");
  const auto call = std::make_shared<EngineCall>(EngineCall{.command = AverageOptions{}});
  average->add_option("PATH", call->checkpoint, "A run or checkpoints directory")->required();
  auto& options = std::get<AverageOptions>(call->command);
  average->add_option("--last", options.last, "Average the newest N checkpoints")
      ->type_name("N")
      ->check(CLI::Range(2, 1000))
      ->capture_default_str();
  average->add_option("--output", options.output, "Directory to write (default 'average' beside the checkpoints)")
      ->type_name("DIR");
  average->final_callback([call, chosen] { *chosen = [call] { return call_engine(*call); }; });
}

void add_checkpoint_verify(CLI::App& app, const Chosen& chosen) {
  CLI::App* verify = app.add_subcommand("verify", "read every byte of the checkpoints, and report damaged ones");
  const auto call = std::make_shared<EngineCall>(EngineCall{.command = VerifyCheckpointOptions{}});
  add_path(*verify, call->checkpoint);
  verify->add_flag("--json", call->json, "One JSON document on standard output");
  verify->final_callback([call, chosen] { *chosen = [call] { return call_engine(*call); }; });
}

}  // namespace

Action declare_checkpoint(CLI::App& app) {
  const auto chosen = std::make_shared<Action>();
  add_consolidate(app, chosen);
  add_average(app, chosen);
  add_checkpoint_verify(app, chosen);
  app.require_subcommand(1);
  return [chosen] { return (*chosen)(); };
}

}  // namespace trainctl::cli
