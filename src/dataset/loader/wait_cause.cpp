#include "dataset/loader/wait_cause.h"

#include <algorithm>
#include <cmath>

namespace trainctl::dataset {
namespace {

std::string percent(double share) {
  return std::to_string(std::lround(100 * share)) + " %";
}

std::string advice_on_workers(const WaitWindow& window, std::int64_t workers) {
  const std::string wanted = std::to_string(std::min(window.cores, 2 * workers)) + " or more";
  const std::string now = std::to_string(window.loader.workers) + " now, " + std::to_string(window.cores) + " cores)";
  if (window.loader.most_workers == 0) return "too few workers; set dataset.num_workers to " + wanted + " (" + now;
  return "too few workers; dataset.num_workers: auto leaves cores to the training, so set " + wanted + " to try it (" +
         now;
}

std::string advice(WaitCause cause, const WaitWindow& window) {
  const std::int64_t workers = std::max<std::int64_t>(window.loader.workers, 1);
  switch (cause) {
    case WaitCause::none:
      return "";
    case WaitCause::disk:
      return "reading from the disk; put the data on a faster one, set dataset.num_workers higher so that more reads "
             "are under way, or make shards with 'trainctl data shard' and set dataset.shuffle_buffer";
    case WaitCause::decode:
      return "decoding images; store them smaller with 'trainctl data shard --max-side', or set dataset.num_workers to "
             "more than " +
             std::to_string(workers) + " if there are free cores";
    case WaitCause::transform:
      return "transforming samples; take costly ones out of dataset.transforms, or set dataset.num_workers to more "
             "than " +
             std::to_string(workers) + " if there are free cores";
    case WaitCause::too_few_workers:
      return advice_on_workers(window, workers);
    case WaitCause::copy:
      return "copying batches to the device; set dataset.pin_memory: true for a GPU, or dataset.batch_size lower";
  }
  return "";
}

}  // namespace

std::string name_of(WaitCause cause) {
  switch (cause) {
    case WaitCause::none:
      return "none";
    case WaitCause::disk:
      return "disk";
    case WaitCause::decode:
      return "decode";
    case WaitCause::transform:
      return "transform";
    case WaitCause::too_few_workers:
      return "too few workers";
    case WaitCause::copy:
      return "copy";
  }
  return "none";
}

WaitCause wait_cause(const WaitWindow& window) {
  const LoaderStats& loader = window.loader;
  if (loader.wait_ms + window.copy_ms <= kTolerableWaitShare * window.total_ms) return WaitCause::none;
  if (window.copy_ms > loader.wait_ms) return WaitCause::copy;
  // What is waited for may be finished, and counted, in the next window.
  if (loader.read_ms + loader.decode_ms + loader.transform_ms <= 0) return WaitCause::none;
  if (loader.read_ms >= std::max(loader.decode_ms, loader.transform_ms)) return WaitCause::disk;
  if (2 * loader.workers <= window.cores) return WaitCause::too_few_workers;
  return loader.decode_ms >= loader.transform_ms ? WaitCause::decode : WaitCause::transform;
}

std::string describe_wait(WaitCause cause, const WaitWindow& window) {
  if (cause == WaitCause::none) return "";
  const LoaderStats& loader = window.loader;
  const double share = (loader.wait_ms + window.copy_ms) / window.total_ms;
  const double busy = std::max(loader.read_ms + loader.decode_ms + loader.transform_ms, 1e-9);
  return percent(share) + " of the time goes into waiting for data: " + advice(cause, window) + " [workers: read " +
         percent(loader.read_ms / busy) + ", decode " + percent(loader.decode_ms / busy) + ", transform " +
         percent(loader.transform_ms / busy) + "]";
}

}  // namespace trainctl::dataset
