// `trainctl completion`: the script that a shell reads, which asks `trainctl __complete`.
#include <cstdio>
#include <memory>

#include "cli/bash_completion.h"
#include "cli/fish_completion.h"
#include "cli/zsh_completion.h"
#include "command.h"
#include "core/error.h"

namespace trainctl::cli {

Action declare_completion(CLI::App& app) {
  const auto shell = std::make_shared<std::string>();
  app.add_option("SHELL", *shell, "bash, zsh or fish")->required()->check(CLI::IsMember({"bash", "zsh", "fish"}));
  return [shell] {
    const std::string_view script = *shell == "bash"  ? kBashCompletion
                                    : *shell == "zsh" ? kZshCompletion
                                                      : kFishCompletion;
    std::fwrite(script.data(), 1, script.size(), stdout);
    return core::kExitDone;
  };
}

}  // namespace trainctl::cli
