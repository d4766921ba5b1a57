// `trainctl parameters --hidden '[64]' --pieces 3`: how many parameters a maxout network has.
#include <cstdio>

#include "core/error.h"
#include "example.h"

namespace example {
namespace {

using namespace trainctl;

struct ParametersCommand {
  static constexpr std::string_view kind = "parameters";
  static constexpr std::string_view summary = "the number of parameters of a maxout network";
  std::int64_t inputs = 784;
  std::vector<std::int64_t> hidden = {64};
  std::int64_t pieces = 2;
  std::int64_t classes = 10;

  static constexpr auto fields() {
    using config::field;
    using C = ParametersCommand;
    return config::Fields{
        field<&C::inputs>("Values of a sample.", config::at_least(1)),
        field<&C::hidden>("Units of each hidden layer.", config::positive),
        field<&C::pieces>("Linear functions of a unit.", config::at_least(2)),
        field<&C::classes>("Outputs.", config::at_least(1)),
    };
  }
};

int run(const ParametersCommand& command) {
  std::int64_t total = 0;
  std::int64_t features = command.inputs;
  for (const std::int64_t units : command.hidden) {
    total += (features + 1) * units * command.pieces;
    features = units;
  }
  std::printf("%lld\n", static_cast<long long>(total + (features + 1) * command.classes));
  return core::kExitDone;
}

}  // namespace

void add_command(plugin::Registry& registry) {
  registry.add_command<ParametersCommand>();
}

}  // namespace example
