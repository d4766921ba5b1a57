#include "dataset/loader/bad_samples.h"

#include <cstring>
#include <limits>
#include <utility>

#include "core/text.h"
#include "dataset/image/codec/decode.h"
#include "runtime/random.h"

namespace trainctl::dataset {
namespace {

constexpr std::int64_t kSkipped = std::numeric_limits<std::int64_t>::min();  // no label
constexpr int kMostReplacements = 100;

/// A writer that replaces or skips bad samples. `wrap` closes up the rows of skipped ones.
class TolerantWriter final : public SampleWriter {
 public:
  TolerantWriter(std::unique_ptr<SampleWriter> writer, const Source& source, OnBadSample policy,
                 std::shared_ptr<BadSampleLog> log)
      : writer_(std::move(writer)), source_(source), policy_(policy), log_(std::move(log)) {}

  SampleSpec spec(const SampleSpec& source) const override { return writer_->spec(source); }
  std::int64_t input_bytes() const override { return writer_->input_bytes(); }
  std::int64_t target_count() const override { return writer_->target_count(); }
  Scratch make_scratch() const override { return writer_->make_scratch(); }
  void will_need(SampleKey key) const override { writer_->will_need(key); }

  void write(SampleKey key, Scratch& scratch, std::byte* input, std::int64_t* target) const override {
    const std::int64_t asked = key.index;
    for (int attempt = 0; attempt <= kMostReplacements; ++attempt) {
      try {
        return writer_->write(key, scratch, input, target);
      } catch (const BadSample& bad) {
        log_->add(&source_, {key.index, bad.what()});
      }
      if (policy_ == OnBadSample::skip) {
        *target = kSkipped;
        return;
      }
      const std::uint64_t draw = runtime::mix(runtime::key_of("replacement"), static_cast<std::uint64_t>(asked),
                                              static_cast<std::uint64_t>(attempt));
      key.index = runtime::Random(draw).below(source_.size());
    }
    throw core::Error(std::to_string(kMostReplacements) + " samples in a row can't be read");
  }

  Batch wrap(std::int64_t count, void* inputs, void* targets,
             const std::function<void(void*)>& release) const override {
    if (policy_ == OnBadSample::skip)
      count = close_up(count, static_cast<std::byte*>(inputs), static_cast<std::int64_t*>(targets));
    return writer_->wrap(count, inputs, targets, release);
  }

 private:
  std::int64_t close_up(std::int64_t count, std::byte* inputs, std::int64_t* targets) const {
    const std::int64_t width = target_count();
    std::int64_t kept = 0;
    for (std::int64_t i = 0; i < count; ++i) {
      if (targets[i * width] == kSkipped) continue;
      if (kept != i) {
        std::memcpy(inputs + kept * input_bytes(), inputs + i * input_bytes(), static_cast<std::size_t>(input_bytes()));
        std::memcpy(targets + kept * width, targets + i * width,
                    static_cast<std::size_t>(width) * sizeof(std::int64_t));
      }
      ++kept;
    }
    return kept;
  }

  std::unique_ptr<SampleWriter> writer_;
  const Source& source_;
  OnBadSample policy_;
  std::shared_ptr<BadSampleLog> log_;
};

}  // namespace

void BadSampleLog::add(const void* source, BadSampleReport report) {
  const std::lock_guard lock(mutex_);
  if (!known_.insert({source, report.index}).second) return;
  if (static_cast<std::int64_t>(known_.size()) > most_)
    throw core::Error("more than " + core::format_count(most_) +
                      " samples are bad (dataset.max_bad_samples); the last: " + report.what)
        .hint("repair the data, or raise dataset.max_bad_samples");
  fresh_.push_back(std::move(report));
}

std::vector<BadSampleReport> BadSampleLog::take() {
  const std::lock_guard lock(mutex_);
  return std::exchange(fresh_, {});
}

std::int64_t BadSampleLog::count() const {
  const std::lock_guard lock(mutex_);
  return static_cast<std::int64_t>(known_.size());
}

std::unique_ptr<SampleWriter> tolerate_bad_samples(std::unique_ptr<SampleWriter> writer, const Source& source,
                                                   OnBadSample policy, std::shared_ptr<BadSampleLog> log) {
  if (policy == OnBadSample::fail) return writer;
  return std::make_unique<TolerantWriter>(std::move(writer), source, policy, std::move(log));
}

}  // namespace trainctl::dataset
