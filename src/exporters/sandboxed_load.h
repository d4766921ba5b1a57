// Work on a stranger's file, tried in a child process first: what crashes or hangs there can be refused here.
#pragma once

#include <chrono>
#include <functional>

namespace trainctl::exporters {

/// done: it returned, or threw, and will do the same here.
enum class TrialEnd { done, crashed, too_slow };

/// Forks: call it while no other thread holds a lock that `work` needs. What `work` prints is lost.
TrialEnd try_in_child(const std::function<void()>& work, std::chrono::milliseconds most);

}  // namespace trainctl::exporters
