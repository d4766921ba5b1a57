#include "train/run/provenance.h"

#include <torch/headeronly/version.h>

#include "core/version.h"
#include "experiment/config_hash.h"
#include "runtime/device.h"

namespace trainctl::train {

std::map<std::string, std::string> provenance(const Run& run, const std::map<std::string, std::string>& config) {
  return {
      {"trainctl", std::string(core::kVersion)},        {"libtorch", TORCH_VERSION},
      {"config_hash", experiment::config_hash(config)}, {"data_fingerprint", run.data.fingerprint},
      {"seed", std::to_string(run.experiment.seed)},    {"device", runtime::describe(run.device)},
  };
}

}  // namespace trainctl::train
