// A trained network whose outputs are targets.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "model/model.h"
#include "task/distillation_config.h"

namespace trainctl::task {

/// Returns the input of a whole network, whatever blocks of another run there.
model::ModelInput whole_input(const model::ModelInput& input);

/// The teacher of a distillation (https://arxiv.org/abs/1503.02531), and how much its outputs count.
class Teacher {
 public:
  /// `network`: with its weights.
  Teacher(std::unique_ptr<model::Model> network, const DistillationConfig& config);
  /// `stored`: logits [samples, classes], row i of sample i of the training set.
  Teacher(at::Tensor stored, const DistillationConfig& config);

  /// Runs the whole network on a student's input, whatever blocks of the student run there; or returns the stored rows
  /// of the samples `indices`.
  at::Tensor logits(const model::ModelInput& input, const std::vector<std::int64_t>& indices) const;
  /// Returns what reaches the vocabulary head: hidden [B, T, D].
  at::Tensor hidden(const model::ModelInput& input) const;
  model::VocabularyHead& head() const { return *network_->vocabulary_head(); }

  /// Returns (1 - weight) own + weight T² KL(teacher ‖ student), summed over rows. student, teacher: logits [N, C];
  /// own: the task's loss, summed over the same rows.
  at::Tensor blend(const at::Tensor& own, const at::Tensor& student, const at::Tensor& teacher) const;

  double temperature() const { return temperature_; }
  double weight() const { return weight_; }

 private:
  std::unique_ptr<model::Model> network_;  // null: the logits are stored
  at::Tensor stored_;
  double temperature_;
  double weight_;
};

using TeacherPtr = std::shared_ptr<const Teacher>;

}  // namespace trainctl::task
