// Tasks on all cores, whose results are used in the order in which the tasks were given.
#pragma once

#include <algorithm>
#include <deque>
#include <functional>
#include <future>
#include <thread>
#include <utility>

namespace trainctl::dataset {

template <class Result>
class OrderedTasks {
 public:
  explicit OrderedTasks(std::function<void(Result)> use) : use_(std::move(use)) {}

  /// Waits while as many tasks run as there are cores. `use` is called on this thread; a task's failure is rethrown.
  void start(std::function<Result()> task) {
    if (running_.size() >= most_) use_first();
    running_.push_back(std::async(std::launch::async, std::move(task)));
  }
  void finish() {
    while (!running_.empty()) use_first();
  }

 private:
  void use_first() {
    Result result = running_.front().get();
    running_.pop_front();
    use_(std::move(result));
  }

  const std::size_t most_ = std::max(1U, std::thread::hardware_concurrency());
  std::function<void(Result)> use_;
  std::deque<std::future<Result>> running_;  // their destructors wait
};

}  // namespace trainctl::dataset
