"""A command that computes with a tensor."""
from addition import Addition, After, Before, Forgotten, New, Run

FRONT = """#include <memory>

#include "command.h"
#include "engine_call.h"

namespace trainctl::cli {

Action declare_norm(CLI::App& app) {
  const auto call = std::make_shared<EngineCall>(EngineCall{.command = NormOptions{}});
  auto& options = std::get<NormOptions>(call->command);
  app.add_option("NUMBER", options.numbers, "Numbers of the vector")->required();
  return [call] { return call_engine(*call); };
}

}  // namespace trainctl::cli
"""

ENGINE = """#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/tensor.h>

#include <cstdio>

#include "core/error.h"
#include "engine.h"

namespace trainctl::engine {

int run_norm(const cli::EngineCall& call) {
  const at::Tensor numbers = at::tensor(call.options<cli::NormOptions>().numbers, at::kDouble);
  std::printf("%g\\n", at::linalg_vector_norm(numbers).item<double>());
  return core::kExitDone;
}

}  // namespace trainctl::engine
"""

OPTIONS = """struct NormOptions {
  static constexpr AutoValues auto_values = AutoValues::not_needed;
  std::vector<double> numbers = {};
};

"""

DECLARATIONS = "apps/trainctl/command.h"
ROWS = "apps/trainctl/commands.cpp"
EXAMPLES = "apps/trainctl/examples.cpp"
CALLS = "apps/trainctl/engine_call.h"
FUNCTIONS = "apps/trainctl/engine/engine.h"
ENGINE_ROWS = "apps/trainctl/engine/engine.cpp"

CASE = Addition(
    section="Adding a command",
    name="norm",
    steps={
        "apps/trainctl/norm.cpp": [New(FRONT)],
        DECLARATIONS: [After("Action declare_generate(CLI::App& app);\n", "Action declare_norm(CLI::App& app);\n")],
        ROWS: [Before('      {"doctor", ', '      {"norm", "the length of a vector", declare_norm},\n')],
        EXAMPLES: [Before('    Example{"trainctl doctor"', '    Example{"trainctl norm 3 4", "Prints 5."},\n')],
        CALLS: [Before("/// A command of the engine, ", OPTIONS), Before(", DataPreviewOptions>;", ", NormOptions")],
        FUNCTIONS: [After("int run_train(const cli::EngineCall& call);\n", "int run_norm(const cli::EngineCall& call);\n")],
        ENGINE_ROWS: [After("[&](const cli::DoctorOptions&) { return run_doctor(call); },\n",
                            "[&](const cli::NormOptions&) { return run_norm(call); },\n")],
        "apps/trainctl/engine/norm.cpp": [New(ENGINE)],
    },
    programs={
        "trainctl_engine": [],
        "trainctl": [
            Run(["--help"], says=["norm", "the length of a vector"]),
            Run(["norm", "--help"], says=["Numbers of the vector", "trainctl norm 3 4"]),
            Run(["norm", "3", "4"], says=["5\n"]),
            Run(["norm"], code=2, says=["NUMBER"]),
            Run(["nrm", "3"], code=2, says=["did you mean 'norm'"]),
        ],
    },
    forgotten=[
        Forgotten((DECLARATIONS, "Action declare_norm(CLI::App& app);\n", ""), says=["declare_norm"], source=ROWS),
        Forgotten(("apps/trainctl/norm.cpp", "", ""), says=["declare_norm"], program="trainctl"),
        Forgotten((CALLS, OPTIONS, "struct NormOptions {\n  std::vector<double> numbers = {};\n};\n\n"), says=["auto_values"], source=ENGINE_ROWS),
        Forgotten((CALLS, ", NormOptions", ""), says=["NormOptions"], source="apps/trainctl/norm.cpp"),
        Forgotten((FUNCTIONS, "int run_norm(const cli::EngineCall& call);\n", ""), says=["run_norm"], source=ENGINE_ROWS),
        Forgotten((ENGINE_ROWS, "[&](const cli::NormOptions&) { return run_norm(call); },\n", ""), says=["NormOptions"], source=ENGINE_ROWS),
        Forgotten(("apps/trainctl/engine/norm.cpp", "", ""), says=["run_norm"], program="trainctl_engine"),
    ],
)
