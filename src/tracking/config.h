// `tracking:`: where metrics go besides the console and metrics.jsonl.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "config/field.h"

namespace trainctl::tracking {

struct WandbConfig {
  std::string project;
  std::string entity;

  static constexpr auto fields() {
    using config::field;
    return config::Fields{
        field<&WandbConfig::project>("Project that the run belongs to; empty takes the experiment's name."),
        field<&WandbConfig::entity>("User or team that the project belongs to; empty takes the user's default."),
    };
  }
};

struct MlflowConfig {
  std::string server;
  std::string experiment;

  static constexpr auto fields() {
    using config::field;
    return config::Fields{
        field<&MlflowConfig::server>("Address of the server, such as http://localhost:5000; empty takes "
                                     "MLFLOW_TRACKING_URI. User, password and token come from the environment alone."),
        field<&MlflowConfig::experiment>("MLflow's experiment that the run belongs to; empty takes this one's name."),
    };
  }
};

struct TrackioConfig {
  std::string project;

  static constexpr auto fields() {
    using config::field;
    return config::Fields{
        field<&TrackioConfig::project>("Project that the run belongs to; empty takes the experiment's name."),
    };
  }
};

struct TrackingConfig {
  bool tensorboard = true;
  bool csv = false;
  std::optional<WandbConfig> wandb{};
  std::optional<MlflowConfig> mlflow{};
  std::optional<TrackioConfig> trackio{};
  double flush_timeout_s = 10;
  bool log_sample_ids = false;
  bool report = true;
  std::int64_t sample_predictions = 16;
  std::int64_t histogram_every = 0;

  static constexpr auto fields() {
    using config::field;
    using C = TrackingConfig;
    return config::Fields{
        field<&C::tensorboard>("Write TensorBoard event files into the run directory."),
        field<&C::csv>("Write the records as a table, metrics.csv in the run directory."),
        field<&C::wandb>("Write a run of Weights & Biases into the run directory, which `wandb sync` sends."),
        field<&C::mlflow>("Send the run to an MLflow server, by a process of its own."),
        field<&C::trackio>("Write the run into Trackio's database, by a process of its own."),
        field<&C::flush_timeout_s>("Longest wait in seconds at the end of a run for records that MLflow or Trackio "
                                   "has not received; `trainctl track` delivers the rest later.",
                                   config::non_negative),
        field<&C::log_sample_ids>("Record which samples each rank took at each step, in logs/samples_rank_<n>.jsonl."),
        field<&C::report>("Write a page about the run, report.html in the run directory, when training ends."),
        field<&C::sample_predictions>(
            "Samples of the newest evaluation that predictions.json and the page show: as many "
            "of the first ones, and of those with the largest loss. 0: none.",
            config::between(0, 100)),
        field<&C::histogram_every>(
            "Steps between histograms and norms of each trained weight and its gradient, for TensorBoard and Weights & "
            "Biases; the norms go to all trackers. 0: none.",
            config::non_negative),
    };
  }
};

}  // namespace trainctl::tracking
