#include "dataset/loader/slice_writer.h"

#include <string>

#include "core/error.h"
#include "core/mapped_file.h"

namespace trainctl::dataset {

std::exception_ptr SliceWriter::write(const Slice& slice, Scratch& scratch) const noexcept {
  BatchTask& task = *slice.ticket;
  auto* inputs = static_cast<std::byte*>(task.buffer->inputs.get());
  auto* targets = static_cast<std::int64_t*>(task.buffer->targets.get());
  try {
    if (readahead_.is_on()) ask_ahead(slice, scratch.times);
  } catch (...) {
    return std::current_exception();
  }
  for (std::int64_t i = slice.begin; i < slice.end; ++i) {
    SampleKey key;
    try {
      key = task.keys.empty() ? task.order->at(task.start.sample + task.offset + i)
                              : task.keys[static_cast<std::size_t>(i)];
      task.written[static_cast<std::size_t>(i)] =
          write_or_tolerate(writer_, key, scratch, inputs + i * writer_.input_bytes(),
                            targets + i * writer_.target_count(), source_, log_);
    } catch (...) {
      return core::current_error([&](core::Error error) {
        return error.during("preparing sample " + std::to_string(key.index) + " of epoch " + std::to_string(key.epoch));
      });
    }
  }
  try {
    core::check_mapped_files();
  } catch (...) {
    return std::current_exception();
  }
  return nullptr;
}

/// Announces this rank's samples that come a little after the slice.
void SliceWriter::ask_ahead(const Slice& slice, StageTimes& times) const {
  const BatchTask& task = *slice.ticket;
  if (!task.keys.empty()) return;
  StageClock clock;
  for (std::int64_t i = slice.begin + Readahead::kSamples; i < slice.end + Readahead::kSamples; ++i) {
    const std::int64_t position = task.start.sample + i / task.count * task.shared + task.offset;
    if (position + i % task.count < num_samples_) writer_.will_need(task.order->at(position + i % task.count));
  }
  clock.lap(times.read);
}

}  // namespace trainctl::dataset
