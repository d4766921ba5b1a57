// `distillation:`. Part of task/config.h; without LibTorch.
#pragma once

#include <optional>
#include <string>

#include "config/field.h"
#include "model/config.h"

namespace trainctl::task {

/// A trained network that gives targets.
struct TeacherConfig {
  model::NetworkConfig network;
  std::string init_from;

  static constexpr auto fields() {
    using config::choice;
    using config::field;
    using C = TeacherConfig;
    return config::Fields{
        choice<&C::network>("The network.", config::required_unless("init_from")),
        field<&C::init_from>("Its weights: a run or checkpoint directory, a directory in Hugging Face layout, or a "
                             "file of safetensors or torch.save. Of a directory, the kind and the sizes follow.",
                             config::required & config::non_empty),
    };
  }
};

/// Training towards a teacher's outputs (https://arxiv.org/abs/1503.02531).
struct DistillationConfig {
  std::optional<TeacherConfig> teacher{};
  std::optional<std::string> logits{};
  double temperature = 2;
  double weight = 0.5;

  static constexpr auto fields() {
    using config::field;
    using C = DistillationConfig;
    return config::Fields{
        field<&C::teacher>("The network whose outputs are targets, without dropout, and never trained. Give this or "
                           "logits."),
        field<&C::logits>("A file of a teacher's logits of the training set, which `trainctl eval RUN --split train "
                          "--logits FILE` writes; for classification. They are of samples without random transforms.",
                          config::non_empty),
        field<&C::temperature>("Divides the logits of both networks in the teacher's part of the loss: from one on, "
                               "unlikely classes count more. That part is multiplied by its square.",
                               config::positive),
        field<&C::weight>("Share of the teacher's part in the loss; the rest is the task's own, on the targets of the "
                          "data.",
                          config::fraction),
    };
  }
};

}  // namespace trainctl::task
