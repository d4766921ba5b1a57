// Commands of plug-ins.
#pragma once

#include <string_view>

#include "config/plugged.h"

namespace trainctl::plugin {

/// What the command line asks the config struct of a plug-in's command.
struct CommandInterface {
  std::string_view summary;
  /// Returns the exit code: 0 done, 1 failed, 2 wrong use. May throw core::Error.
  int (*run)(const void* config);
};

/// Returns what the config struct of a command says, as an interface. `static constexpr std::string_view summary` is
/// its line in the help. `int run(const Config&)` is found in the namespace of the struct.
template <class Config>
CommandInterface command_interface() {
  return {.summary = Config::summary,
          .run = [](const void* config) -> int { return run(config::plugged_config<Config>(config)); }};
}

}  // namespace trainctl::plugin
