// The tasks, one file each, from their configs.
#pragma once

#include <memory>

#include "task/task.h"
#include "task/teacher.h"

namespace trainctl::task {

std::unique_ptr<Task> build(const DpoConfig& config, const dataset::SampleSpec& spec,
                            std::shared_ptr<model::Model> reference);
// `teacher`: null, or whose outputs count in the training loss (TaskTraits::takes_teacher).
std::unique_ptr<Task> build(const ClassificationConfig& config, const dataset::SampleSpec& spec, TeacherPtr teacher);
std::unique_ptr<Task> build(const PluggedTaskConfig& config, const dataset::SampleSpec& spec);
std::unique_ptr<Task> build(const RegressionConfig& config, const dataset::SampleSpec& spec);
std::unique_ptr<Task> build(const TokenClassificationConfig& config, const dataset::SampleSpec& spec,
                            TeacherPtr teacher);
std::unique_ptr<Task> build(const CausalLmConfig& config, const dataset::SampleSpec& spec, TeacherPtr teacher);
std::unique_ptr<Task> build(const MaskedLmConfig& config, const dataset::SampleSpec& spec, TeacherPtr teacher);
std::unique_ptr<Task> build(const Seq2SeqLmConfig& config, const dataset::SampleSpec& spec, TeacherPtr teacher);
std::unique_ptr<Task> build(const MultiLabelClassificationConfig& config, const dataset::SampleSpec& spec);
std::unique_ptr<Task> build(const SemanticSegmentationConfig& config, const dataset::SampleSpec& spec,
                            TeacherPtr teacher);

/// How many of a batch's targets aren't -100, without waiting for the device.
std::int64_t num_targets(const dataset::Batch& batch);

}  // namespace trainctl::task
