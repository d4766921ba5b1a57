#include "model/freeze.h"

#include <algorithm>
#include <set>

#include "core/error.h"
#include "core/name_pattern.h"

namespace trainctl::model {

void freeze(Model& model, const std::vector<std::string>& patterns) {
  if (patterns.empty()) return;
  std::set<std::string> used;
  bool trains = false;
  std::string some_name;
  model.visit_parameters([&](const std::string& name, TensorDecl& decl) {
    for (const std::string& pattern : patterns) {
      const bool is_trained = pattern.starts_with('!');
      if (!core::covers_parameter(is_trained ? pattern.substr(1) : pattern, name)) continue;
      used.insert(pattern);
      decl.trainable = is_trained;
    }
    trains = trains || decl.trainable;
    if (some_name.empty() || name.ends_with(".weight")) some_name = name;
  });
  for (const std::string& pattern : patterns)
    if (!used.contains(pattern))
      throw core::Error("model.freeze: no layer or parameter is called `" + pattern + "`")
          .hint("the parameters are called like '" + some_name + "'");
  if (!trains)
    throw core::Error("model.freeze freezes every parameter").hint("add what to train, with ! before it: '!head'");
}

}  // namespace trainctl::model
