// A number of tasks on a number of threads.
#pragma once

#include <cstdint>
#include <functional>

namespace trainctl::dataset {

/// Calls `task(i)` for each i below `count`, on up to `threads` threads, and returns when all are done. Of the tasks
/// that fail, the one with the smallest number is rethrown; those not yet begun are left out then.
void for_each_in_parallel(std::int64_t count, std::int64_t threads, const std::function<void(std::int64_t)>& task);

}  // namespace trainctl::dataset
