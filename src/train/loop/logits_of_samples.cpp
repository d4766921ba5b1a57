#include "train/loop/logits_of_samples.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/any.h>
#include <ATen/ops/full.h>
#include <ATen/ops/isnan.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/tensor.h>

#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/text.h"
#include "train/loop/device_feed.h"

namespace trainctl::train {

at::Tensor logits_of_samples(Run& run, tracking::Sink& sink) {
  const dataset::SampleSpec& spec = run.data.eval->spec();
  if (spec.targets != dataset::Targets::labels)
    throw core::Error("--logits stores the logits of classes, and task.kind is " +
                      std::string(run.experiment.task.kind()))
        .hint("a teacher in distillation.teacher works for the other tasks");
  const at::NoGradGuard no_grad;
  run.model->set_training(false);
  DeviceFeed feed(run.device, run.channels_last ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::Contiguous,
                  spec.to_normalize);
  const at::Tensor logits =
      at::full({run.data.eval->num_samples(), spec.num_classes}, std::numeric_limits<double>::quiet_NaN(), at::kFloat);
  run.data.eval->seek({});
  std::int64_t done = 0;
  while (std::optional<dataset::Batch> batch = run.data.eval->next()) {
    const std::vector<std::int64_t> indices = batch->indices;
    const amp::Autocast autocast = run.autocast();
    const at::Tensor output = run.model->forward(task::model_input(feed(std::move(*batch))));
    logits.index_copy_(0, at::tensor(indices, at::kLong), output.to(at::kCPU, at::kFloat));
    sink.on(tracking::Progress{
        .step = run.step, .phase = "logits", .done = ++done, .total = run.data.eval->batches_per_epoch()});
  }
  if (const std::int64_t absent = logits.isnan().any(1).sum().item<std::int64_t>(); absent > 0)
    throw core::Error("--logits: " + core::format_count(absent) + " of " + core::format_count(logits.size(0)) +
                      " samples have no finite logits: they can't be read, or the network gives none")
        .hint("bad_samples.jsonl of the run lists samples that can't be read; repair or remove them");
  return logits;
}

}  // namespace trainctl::train
