// What a scripted network may not do, whoever runs it.
#pragma once

#include <torch/csrc/jit/api/module.h>

#include <string>

namespace trainctl::model {

/// Refuses operators with side effects, which no network needs: a foreign file must not read or write others. Looks
/// into what `forward` calls, too. An Error names `path` and the operator.
void refuse_side_effects(const torch::jit::Method& forward, const std::string& path);

}  // namespace trainctl::model
