#include "dataset/loader/bad_samples.h"

#include <utility>

#include "core/text.h"
#include "dataset/image/codec/decode.h"
#include "runtime/random.h"

namespace trainctl::dataset {
namespace {

constexpr int kMostReplacements = 100;

}  // namespace

void BadSampleLog::add(BadSampleReport report) {
  const std::lock_guard lock(mutex_);
  if (!known_.insert({report.index, report.what}).second) return;
  if (static_cast<std::int64_t>(known_.size()) > most_)
    throw core::Error("more than " + core::format_count(most_) +
                      " samples are bad (dataset.max_bad_samples); the last: " + report.what)
        .hint("repair the data, or raise dataset.max_bad_samples");
  fresh_.push_back(std::move(report));
}

void BadSampleLog::add_known(const BadSampleReport& report) {
  const std::lock_guard lock(mutex_);
  known_.insert({report.index, report.what});
  std::erase_if(fresh_,
                [&](const BadSampleReport& other) { return other.index == report.index && other.what == report.what; });
}

std::vector<BadSampleReport> BadSampleLog::take() {
  const std::lock_guard lock(mutex_);
  return std::exchange(fresh_, {});
}

std::int64_t BadSampleLog::count() const {
  const std::lock_guard lock(mutex_);
  return static_cast<std::int64_t>(known_.size());
}

std::int64_t write_or_tolerate(const SampleWriter& writer, SampleKey key, Scratch& scratch, std::byte* input,
                               std::int64_t* target, const Source& source, BadSampleLog* log) {
  const OnBadSample policy = log == nullptr ? OnBadSample::fail : log->policy();
  const std::int64_t asked = key.index;
  for (int attempt = 0; attempt <= kMostReplacements; ++attempt) {
    try {
      writer.write(key, scratch, input, target);
      return key.index;
    } catch (const BadSample& bad) {
      if (policy == OnBadSample::fail) throw;
      log->add({key.index, bad.what()});
    }
    if (policy == OnBadSample::skip) return kLeftOut;
    const std::uint64_t draw = runtime::mix(runtime::key_of("replacement"), static_cast<std::uint64_t>(asked),
                                            static_cast<std::uint64_t>(attempt));
    key.index = runtime::Random(draw).below(source.size());
  }
  throw core::Error(std::to_string(kMostReplacements) + " samples in a row can't be read");
}

}  // namespace trainctl::dataset
