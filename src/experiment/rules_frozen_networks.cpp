#include "core/text.h"
#include "experiment/rules.h"

namespace trainctl::experiment {
namespace {

constexpr std::string_view kTeacher = "distillation.teacher.";

/// Returns the text with the keys of `model` as the teacher's.
std::string as_teachers(std::string text) {
  constexpr std::string_view kModel = "model.";
  for (std::size_t at = text.find(kModel); at != std::string::npos; at = text.find(kModel, at + kTeacher.size()))
    text.replace(at, kModel.size(), kTeacher);
  return text;
}

/// Reports the rules that the teacher's keys break.
void check_own_rules(Checked& c, const model::NetworkConfig& teacher) {
  const model::Surroundings around = surroundings_of_network(c.experiment);
  std::vector<config::BrokenRule> broken =
      teacher.visit([&](const auto& network) { return network.broken_rules(around); });
  for (config::BrokenRule& rule : broken) {
    for (std::string& path : rule.paths) path = as_teachers(path);
    rule.message = as_teachers(rule.message);
  }
  c.report(broken);
}

void check_input(Checked& c, const model::NetworkConfig& teacher) {
  const model::NetworkConfig& student = c.experiment.model.network;
  const bool reads_tokens = input_of(teacher) == model::Input::tokens;
  if (reads_tokens != (input_of(student) == model::Input::tokens))
    c.report({"distillation.teacher.kind", "model.kind"}, "the teacher reads what the trained network reads, and " +
                                                              std::string(teacher.kind()) + " takes " +
                                                              (reads_tokens ? "" : "no ") + "sequences of tokens");
}

void check_output(Checked& c, const model::NetworkConfig& teacher) {
  const task::TaskTraits& task = config::traits_of(c.experiment.task);
  if (!config::traits_of(teacher).outputs.value.contains(task.output))
    c.report({"distillation.teacher.kind", "task.kind"},
             std::string(teacher.kind()) + " has no head for " + std::string(c.experiment.task.kind()));
  const std::int64_t in_data = known_classes(c.experiment.dataset.source);
  const std::int64_t in_teacher = sizes_of(teacher).num_classes.value.value_or(0);
  if (in_data > 0 && in_teacher > 0 && in_data != in_teacher)
    c.report({"distillation.teacher.num_classes", "distillation.teacher.kind", "dataset.kind", "dataset.num_classes"},
             "the dataset has " + std::to_string(in_data) + " classes, and the teacher " + std::to_string(in_teacher));
}

/// A loss that is divided by the weights of classes has no place for a part without them.
void check_weights(Checked& c) {
  c.experiment.task.visit([&](const auto& one) {
    std::string key;  // that gives weights; "": none does
    if constexpr (requires { one.class_weights; })
      if (!one.class_weights.empty()) key = "task.class_weights";
    if constexpr (requires { one.class_weighting; })
      if (one.class_weighting != task::ClassWeighting::none) key = one.weight_key();
    if (!key.empty())
      c.report({key, "distillation"},
               "the teacher's part of the loss counts each sample as one; leave the weights out");
  });
}

/// Reports ranks that have a part of what a frozen network gives as a whole.
void check_ranks(Checked& c, const char* key) {
  for (const auto& [axis, size] : {std::pair{"distributed.tensor", c.experiment.distributed.tensor},
                                   std::pair{"distributed.context", c.experiment.distributed.context}})
    if (size > 1)
      c.report({axis, key},
               "each rank has the whole frozen network, and so compares whole sequences and all outputs; "
               "set " +
                   std::string(axis) + ": 1");
}

void check_reference(Checked& c) {
  c.experiment.task.visit([&](const auto& one) {
    if constexpr (requires { one.reference; }) {
      if (!one.reference && !c.experiment.model.init_from)
        c.report({"task.kind", "model.init_from", "task.reference"},
                 std::string(one.kind) +
                     " compares with the network that training starts from; set model.init_from to its weights");
      check_ranks(c, "task.kind");
    }
  });
}

/// Reports a share of the loss that leaves one of its two parts out, and the keys of that part.
void check_shares(Checked& c) {
  const double share = c.experiment.distillation->weight;
  if (share == 0)
    c.report({"distillation.weight", "distillation"},
             "the teacher computes and changes nothing; set a share above 0, or leave distillation out");
  if (share < 1) return;
  const auto report = [&](const char* key, bool is_set) {
    if (is_set)
      c.report({key, "distillation.weight"},
               "changes nothing while distillation.weight is 1, which leaves the task's own loss out");
  };
  c.experiment.task.visit([&](const auto& one) {
    if constexpr (requires { one.label_smoothing; }) report("task.label_smoothing", one.label_smoothing > 0);
    if constexpr (requires { one.focal_gamma; }) report("task.focal_gamma", one.focal_gamma > 0);
  });
}

/// Reports what logits of samples aren't for.
void check_logits(Checked& c) {
  if (config::traits_of(c.experiment.task).output != model::Output::per_sample)
    return c.report({"distillation.logits", "task.kind"},
                    "logits are stored for classification; give distillation.teacher for task " +
                        std::string(c.experiment.task.kind()));
  c.experiment.task.visit([&](const auto& one) {
    if constexpr (requires { one.mixup + one.cutmix; })
      if (one.mixup > 0 || one.cutmix > 0)
        c.report({"distillation.logits", "task.mixup", "task.cutmix"},
                 "stored logits are of whole samples, and mixup and cutmix blend two; give distillation.teacher");
  });
}

void check_teacher(Checked& checked) {
  const Experiment& experiment = checked.experiment;
  if (!experiment.distillation) return;
  if (!config::traits_of(experiment.task).takes_teacher)
    return checked.report({"distillation", "task.kind"},
                          "a teacher gives probabilities of classes or tokens, which task " +
                              std::string(experiment.task.kind()) + " doesn't compare");
  check_ranks(checked, "distillation");
  check_weights(checked);
  check_shares(checked);
  const task::DistillationConfig& distillation = *experiment.distillation;
  if (distillation.teacher.has_value() == distillation.logits.has_value())
    return checked.report(
        {"distillation", "distillation.teacher", "distillation.logits"},
        distillation.logits ? "teacher and logits are both given; leave one out" : "expected a teacher, or logits");
  if (!distillation.teacher) return check_logits(checked);
  const model::NetworkConfig& teacher = distillation.teacher->network;
  check_input(checked, teacher);
  check_output(checked, teacher);
  check_own_rules(checked, teacher);
}

}  // namespace

void check_frozen_networks(Checked& checked) {
  check_teacher(checked);
  check_reference(checked);
}

}  // namespace trainctl::experiment
