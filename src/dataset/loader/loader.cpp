#include "dataset/loader/loader.h"

#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <exception>
#include <mutex>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "core/checked.h"
#include "core/error.h"
#include "core/text.h"
#include "dataset/image/cache/decoded_cache.h"
#include "dataset/loader/batch_task.h"
#include "dataset/loader/readahead.h"
#include "dataset/loader/slice_writer.h"
#include "dataset/loader/worker_autoscaler.h"
#include "dataset/sampler/length_groups.h"
#include "dataset/sampler/sampler.h"

namespace trainctl::dataset {
namespace {

// A thread takes this much of a batch at a time: small images by the whole batch, so that locks cost nothing; large
// ones one by one, so that all threads work on the batch that is needed next.
constexpr std::int64_t kSliceBytes = 512 << 10;
constexpr std::int64_t kMostBytesAhead = std::int64_t{1} << 30;

/// A loader whose consumer also writes samples: those that it needs next and no worker has begun. So `num_workers: 0`
/// is no special case. A consumer that keeps every batch never waits for a buffer that does not come back.
class PrefetchingLoader final : public Loader {
 public:
  explicit PrefetchingLoader(LoaderParts parts)
      : parts_(std::move(parts)),
        order_(make_order(parts_)),
        size_(order_->size()),
        spec_(spec_of(parts_)),
        slice_size_(std::max<std::int64_t>(1, kSliceBytes / parts_.writer->input_bytes())),
        growth_(parts_.workers, parts_.most_workers),
        ahead_(batches_ahead(parts_.workers)),
        pool_(BufferPool::create(
            buffer_sizes(), parts_.memory,
            static_cast<std::size_t>(batches_ahead(std::max(parts_.workers, parts_.most_workers))) + 1)),
        scratch_(parts_.writer->make_scratch()) {
    if (parts_.length_group_batches > 0 && !parts_.source->lengths().empty())
      buckets_.emplace(parts_.source->lengths(), parts_.batch_size, parts_.length_group_batches, parts_.seed);
  }

  ~PrefetchingLoader() override { stop_workers(); }

  std::int64_t longest_sample() const {
    const std::span<const std::int32_t> lengths = parts_.source->lengths();
    return lengths.empty() ? 0 : *std::max_element(lengths.begin(), lengths.end());
  }

  std::optional<Batch> next() override {
    const core::TimePoint asked = parts_.now();
    std::shared_ptr<BatchTask> ticket = take_next();
    const core::TimePoint given = parts_.now();
    last_wait_ms_ = milliseconds(given - asked);
    stats_.wait_ms += last_wait_ms_;
    if (growth_.may_grow()) grow(milliseconds(given - begin_));
    if (ticket->ends_epoch()) {
      position_ = {.epoch = ticket->start.epoch + 1, .sample = 0};
      if (parts_.after_epoch == AfterEpoch::end) stop_workers();
      if (parts_.after_epoch != AfterEpoch::go_on) pool_->release_idle();
      return std::nullopt;
    }
    ++stats_.batches;
    position_ = {.epoch = ticket->start.epoch, .sample = ticket->start.sample + ticket->shared};
    const auto keep_alive = [buffer = ticket->buffer](void*) mutable { buffer.reset(); };
    close_up(*ticket);
    const auto rows = static_cast<std::int64_t>(ticket->written.size());
    Batch batch = parts_.writer->wrap(rows, ticket->buffer->inputs.get(), ticket->buffer->targets.get(), keep_alive);
    batch.epoch = ticket->start.epoch;
    batch.first_sample = ticket->start.sample + ticket->offset;
    batch.indices = std::move(ticket->written);
    return batch;
  }

  void seek(Position position) override {
    if (position.epoch < 0 || position.sample < 0 || position.sample > size_)
      throw core::Error("cannot go to sample " + core::format_count(position.sample) + " of epoch " +
                        core::format_count(position.epoch) + " in a dataset of " + core::format_count(size_) +
                        " samples")
          .hint(
              "go on with the data that the checkpoint was written with, or start anew from its weights "
              "(model.init_from)");
    {
      const std::lock_guard lock(mutex_);
      if (position != position_) {
        tickets_.clear();
        planned_ = position_ = position;
      }
      if (tickets_.empty()) planning_ = true;
    }
    start_workers();
    work_.notify_one();
  }

  Position position() const override { return position_; }
  std::int64_t num_samples() const override { return size_; }
  std::int64_t batches_per_epoch() const override {
    const auto batches_of = [&](std::int64_t samples, LastBatch last) {
      return last == LastBatch::drop ? samples / shared_size() : (samples + shared_size() - 1) / shared_size();
    };
    if (parts_.global_batch == 0) return batches_of(size_, parts_.last_batch);
    return size_ / parts_.global_batch * batches_of(parts_.global_batch, LastBatch::keep) +
           batches_of(size_ % parts_.global_batch, parts_.last_batch);
  }
  const SampleSpec& spec() const override { return spec_; }
  double last_wait_ms() const override { return last_wait_ms_; }

  LoaderStats take_stats() override {
    const StageTimes now = stage_times();
    const StageTimes times = now - std::exchange(told_times_, now);
    LoaderStats stats = std::exchange(stats_, {});
    stats.read_ms = static_cast<double>(times.read) / 1e6;
    stats.decode_ms = static_cast<double>(times.decode) / 1e6;
    stats.transform_ms = static_cast<double>(times.transform) / 1e6;
    stats.workers = growth_.workers();
    stats.most_workers = parts_.most_workers > parts_.workers ? parts_.most_workers : 0;
    if (parts_.cache) {
      stats.cache_hits = parts_.cache->take_hits();
      stats.cache_misses = parts_.cache->take_misses();
      stats.cache_bytes = parts_.cache->bytes_used();
    }
    return stats;
  }

 private:
  static double milliseconds(core::TimePoint::duration duration) {
    return std::chrono::duration<double, std::milli>(duration).count();
  }

  /// Returns the spec of the batches, with the number of samples of each class.
  static SampleSpec spec_of(const LoaderParts& parts) {
    SampleSpec spec = parts.writer->spec(parts.source->spec());
    spec.class_counts = parts.class_counts;
    return spec;
  }

  static std::unique_ptr<Sampler> make_order(const LoaderParts& parts) {
    if (!parts.balanced_labels.empty()) return make_balanced_order(parts.balanced_labels, parts.seed);
    std::unique_ptr<Sampler> own = parts.source->make_order(parts.shuffling, parts.seed);
    return own ? std::move(own) : make_uniform_order(parts.source->size(), parts.shuffling, parts.seed);
  }

  /// Returns the samples of one batch over all ranks.
  std::int64_t shared_size() const { return parts_.batch_size * parts_.share.world; }

  BufferPool::Sizes buffer_sizes() const {
    const std::int64_t samples = std::min(parts_.batch_size, size_);
    const auto inputs = core::checked_product({samples, parts_.writer->input_bytes()});
    const auto targets =
        core::checked_product({samples, parts_.writer->target_count(), std::int64_t{sizeof(std::int64_t)}});
    if (!inputs || !targets)
      throw core::Error("a batch of " + core::format_count(samples) + " samples has more bytes than can be counted")
          .hint("set dataset.batch_size lower, or make the samples smaller");
    return {.input_bytes = static_cast<std::size_t>(*inputs), .target_bytes = static_cast<std::size_t>(*targets)};
  }

  /// Returns the number of batches that the workers may prepare ahead.
  std::int64_t batches_ahead(std::int64_t workers) const {
    const auto batch_bytes = static_cast<std::int64_t>(buffer_sizes().input_bytes);
    return trainctl::dataset::batches_ahead(workers, parts_.prefetch_factor, batch_bytes);
  }

  StageTimes stage_times() {
    const std::lock_guard lock(mutex_);
    return times_;
  }

  void grow(double now_ms) {
    const std::int64_t before = growth_.workers();
    growth_.batch_given(now_ms, last_wait_ms_, stage_times());
    if (growth_.workers() == before) return;
    start_workers();
    const std::lock_guard lock(mutex_);
    ahead_ = batches_ahead(growth_.workers());
  }

  void start_workers() {
    try {
      while (static_cast<std::int64_t>(workers_.size()) < growth_.workers()) {
        workers_.emplace_back([this, scratch = parts_.writer->make_scratch()]() mutable { work(scratch); });
        pthread_setname_np(workers_.back().native_handle(), ("loader-" + std::to_string(workers_.size() - 1)).c_str());
      }
    } catch (const std::system_error& error) {
      const auto started = static_cast<std::int64_t>(workers_.size());
      if (started >= parts_.workers) return growth_.stop_at(started);
      throw core::Error("cannot start worker " + std::to_string(started) + " of " + std::to_string(parts_.workers) +
                        ": " + error.what())
          .hint("set dataset.num_workers lower");
    }
  }

  void stop_workers() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    work_.notify_all();
    for (std::thread& worker : workers_) worker.join();
    workers_.clear();
    stopping_ = false;
  }

  /// Returns the batch task of next(). A failed one stays in place, so that the next call fails again.
  std::shared_ptr<BatchTask> take_next() {
    start_workers();
    std::unique_lock lock(mutex_);
    if (tickets_.empty()) plan_ticket();
    const std::shared_ptr<BatchTask> ticket = tickets_.front();
    if (!ticket->settled()) ++stats_.starved;
    while (!ticket->settled()) {
      if (ticket->claimed < ticket->count)
        write(claim(ticket), scratch_, lock);
      else
        settled_.wait(lock);
    }
    if (ticket->failure) std::rethrow_exception(ticket->failure);
    tickets_.pop_front();
    lock.unlock();
    work_.notify_one();
    return ticket;
  }

  void work(Scratch& scratch) {
    std::unique_lock lock(mutex_);
    while (!stopping_) {
      if (const std::shared_ptr<BatchTask> ticket = unclaimed_ticket())
        write(claim(ticket), scratch, lock);
      else
        work_.wait(lock);
    }
  }

  /// Plans a batch task; false if memory is short. The worker then leaves the planning to next(), which reports a
  /// lasting shortage.
  bool try_to_plan() noexcept {
    try {
      plan_ticket();
      return true;
    } catch (...) {
      return false;
    }
  }

  bool may_plan() const { return planning_ && static_cast<std::int64_t>(tickets_.size()) < ahead_; }

  /// Returns the earliest batch task with unclaimed samples; null if enough is prepared.
  std::shared_ptr<BatchTask> unclaimed_ticket() {
    for (const std::shared_ptr<BatchTask>& ticket : tickets_)
      if (ticket->claimed < ticket->count) return ticket;
    while (may_plan() && try_to_plan()) {
      if (tickets_.back()->claimed < tickets_.back()->count) return tickets_.back();
    }
    return nullptr;
  }

  /// Adds the next batch, or the end of the epoch.
  void plan_ticket() {
    planning_ = true;
    if (!planned_order_ || planned_order_epoch_ != planned_.epoch) {
      planned_order_ = order_->epoch(planned_.epoch);
      planned_order_epoch_ = planned_.epoch;
    }
    const std::int64_t left = size_ - planned_.sample;
    const std::int64_t global = parts_.global_batch;
    const std::int64_t left_in_step = global > 0 ? global - planned_.sample % global : shared_size();
    const std::int64_t full = std::min(shared_size(), left_in_step);
    const std::int64_t least = parts_.last_batch == LastBatch::drop ? full : 1;
    const std::int64_t shared = left < least ? 0 : std::min(left, full);
    const auto [rank, world] = parts_.share;
    const std::int64_t offset = shared * rank / world;
    auto ticket = std::make_shared<BatchTask>(BatchTask{.start = planned_,
                                                        .shared = shared,
                                                        .offset = offset,
                                                        .count = shared * (rank + 1) / world - offset,
                                                        .order = planned_order_});
    tickets_.push_back(ticket);
    if (ticket->ends_epoch()) {
      planned_ = {.epoch = planned_.epoch + 1, .sample = 0};
      planning_ = parts_.after_epoch == AfterEpoch::go_on;
      return;
    }
    planned_.sample += shared;
    prepare(*ticket);
  }

  /// Moves the rows behind those that were left out to the front.
  void close_up(BatchTask& ticket) const {
    auto* inputs = static_cast<std::byte*>(ticket.buffer->inputs.get());
    auto* targets = static_cast<std::byte*>(ticket.buffer->targets.get());
    const auto input_bytes = static_cast<std::size_t>(parts_.writer->input_bytes());
    const auto target_bytes = static_cast<std::size_t>(parts_.writer->target_count()) * sizeof(std::int64_t);
    std::size_t kept = 0;
    for (std::size_t row = 0; row < ticket.written.size(); ++row) {
      if (ticket.written[row] == kLeftOut) continue;
      if (kept != row) {
        std::memcpy(inputs + kept * input_bytes, inputs + row * input_bytes, input_bytes);
        std::memcpy(targets + kept * target_bytes, targets + row * target_bytes, target_bytes);
        ticket.written[kept] = ticket.written[row];
      }
      ++kept;
    }
    ticket.written.resize(kept);
  }

  void prepare(BatchTask& ticket) noexcept {
    try {
      ticket.written.resize(static_cast<std::size_t>(ticket.count), kLeftOut);
      const Position own{.epoch = ticket.start.epoch, .sample = ticket.start.sample + ticket.offset};
      if (buckets_) ticket.keys = buckets_->batch(*ticket.order, size_, own, ticket.count);
      ticket.buffer = pool_->take();
    } catch (...) {
      fail(ticket, core::current_error([&](const core::Error& error) {
             return core::Error("cannot get memory for a batch of " + core::format_count(ticket.count) +
                                " samples: " + error.what())
                 .hint("set dataset.batch_size lower");
           }));
    }
  }

  Slice claim(const std::shared_ptr<BatchTask>& ticket) {
    const Slice slice{
        .ticket = ticket, .begin = ticket->claimed, .end = std::min(ticket->claimed + slice_size_, ticket->count)};
    ticket->claimed = slice.end;
    if (slice.end < ticket->count || may_plan()) work_.notify_one();
    return slice;
  }

  static void fail(BatchTask& ticket, std::exception_ptr failure) noexcept {
    ticket.failure = std::move(failure);
    ticket.claimed = ticket.count;
  }

  /// Writes a slice without the lock, which is held before and after the call.
  void write(const Slice& slice, Scratch& scratch, std::unique_lock<std::mutex>& lock) {
    BatchTask& ticket = *slice.ticket;
    lock.unlock();
    StageTimes times;
    StageClock clock;
    std::exception_ptr failure = slices_.write(slice, scratch);
    clock.lap(times.transform);
    const StageTimes told = std::exchange(scratch.times, {});
    times.transform = std::max<std::int64_t>(0, times.transform - told.read - told.decode - told.transform);
    times += told;
    lock.lock();
    times_ += times;
    readahead_.note(ticket.start.epoch, slice.end - slice.begin, times.read);
    ticket.finished += slice.end - slice.begin;
    if (failure && !ticket.failure) fail(ticket, std::move(failure));
    if (ticket.settled()) settled_.notify_one();
  }

  const LoaderParts parts_;
  const std::unique_ptr<Sampler> order_;
  const std::int64_t size_;
  const SampleSpec spec_;
  const std::int64_t slice_size_;

  WorkerAutoscaler growth_;  // the consumer's own
  std::int64_t ahead_;       // guarded by mutex_
  const std::shared_ptr<BufferPool> pool_;

  // The consumer's own.
  Scratch scratch_;
  const core::TimePoint begin_ = parts_.now();
  StageTimes told_times_;
  Position position_;
  double last_wait_ms_ = 0;
  LoaderStats stats_;

  std::mutex mutex_;                                // guards what follows
  std::condition_variable work_;                    // there is something to write, or to stop for
  std::condition_variable settled_;                 // a ticket is ready, or has failed
  std::deque<std::shared_ptr<BatchTask>> tickets_;  // in the order in which next() takes them
  std::optional<LengthBuckets> buckets_;
  Position planned_;  // where the next ticket begins
  std::shared_ptr<const EpochOrder> planned_order_;
  std::int64_t planned_order_epoch_ = -1;
  StageTimes times_;     // of all threads, since the loader began
  Readahead readahead_;  // told under the lock, asked without
  const SliceWriter slices_{*parts_.writer, *parts_.source, parts_.bad_samples.get(), readahead_, size_};
  bool planning_ = false;  // whether workers may add tickets
  bool stopping_ = false;
  std::vector<std::thread> workers_;
};

}  // namespace

std::int64_t batches_ahead(std::int64_t workers, std::int64_t prefetch_factor, std::int64_t batch_bytes) {
  return std::max<std::int64_t>(2, std::min(workers * prefetch_factor, kMostBytesAhead / batch_bytes));
}

std::unique_ptr<Loader> make_loader(LoaderParts parts) {
  return std::make_unique<PrefetchingLoader>(std::move(parts));
}

std::int64_t longest_sample(const Loader& loader) {
  const auto* own = dynamic_cast<const PrefetchingLoader*>(&loader);
  return own == nullptr ? 0 : own->longest_sample();
}

}  // namespace trainctl::dataset
