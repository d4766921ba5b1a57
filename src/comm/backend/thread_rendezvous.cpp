#include "comm/backend/thread_rendezvous.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <numeric>
#include <stdexcept>

#include "core/error.h"
#include "core/text.h"

namespace trainctl::comm {
namespace {

using Future = ThreadRendezvous::Future;

Future new_future() {
  return c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()));
}

std::exception_ptr error_of(const std::string& why) {
  return std::make_exception_ptr(c10::DistBackendError({__func__, __FILE__, __LINE__}, why));
}

/// Completes the futures. Callbacks run in here, so callers must not hold the lock.
void complete(const std::vector<Future>& futures, const std::exception_ptr& error) {
  for (const Future& future : futures) future->setErrorIfNeeded(error);
}

std::string member(std::int64_t number) {
  return "member " + std::to_string(number);
}

}  // namespace

ThreadRendezvous::ThreadRendezvous(int num_members, std::chrono::milliseconds timeout)
    : num_members_(num_members), timeout_(timeout), has_left_(static_cast<std::size_t>(num_members)) {}

std::string ThreadRendezvous::absent_from(const Meeting& meeting) {
  std::vector<std::string> absent;
  for (std::size_t i = 0; i < meeting.members.size(); ++i)
    if (!meeting.futures[i]) absent.push_back(member(meeting.members[i]));
  return core::list_words(absent);
}

ThreadRendezvous::Meeting ThreadRendezvous::new_meeting(const ThreadChannel& channel) const {
  Meeting meeting;
  if (channel.sender >= 0) {
    meeting.members = {channel.sender, channel.receiver};
  } else {
    meeting.members.resize(static_cast<std::size_t>(num_members_));
    std::iota(meeting.members.begin(), meeting.members.end(), 0);
  }
  meeting.calls.resize(meeting.members.size());
  meeting.futures.resize(meeting.members.size());
  meeting.begin = Clock::now();
  meeting.deadline = meeting.begin + timeout_;
  return meeting;
}

std::string ThreadRendezvous::gone_from(const Number& number, const Meeting& meeting) {
  for (const int who : meeting.members)
    if (has_left_[static_cast<std::size_t>(who)] && num_entered_[{number.first, who}] <= number.second)
      return member(who) + " has left";
  return "";
}

std::vector<Future> ThreadRendezvous::fail(const std::string& why) {
  if (failure_.empty()) failure_ = why;
  std::vector<Future> futures;
  for (const auto& [number, meeting] : meetings_)
    for (const Future& future : meeting.futures)
      if (future) futures.push_back(future);
  meetings_.clear();
  return futures;
}

Future ThreadRendezvous::enter(int who, ThreadCall call, ThreadChannel channel) {
  const Future mine = new_future();
  std::vector<Future> futures;
  std::string why;
  std::optional<Meeting> complete_meeting;
  {
    const std::lock_guard lock(mutex_);
    const Number number{channel, num_entered_[{channel, who}]++};
    const auto [found, is_new] = meetings_.try_emplace(number);
    Meeting& meeting = found->second;
    if (is_new) meeting = new_meeting(channel);
    if (failure_.empty()) failure_ = gone_from(number, meeting);
    if (!failure_.empty()) {
      if (is_new) meetings_.erase(found);
      futures = {mine};
      why = failure_;
    } else {
      if (is_new) changed_.notify_all();
      for (std::size_t i = 0; i < meeting.futures.size() && why.empty(); ++i)
        if (meeting.futures[i] && !mismatch(meeting.calls[i], call).empty())
          why = mismatch(meeting.calls[i], call) + ": " + member(meeting.members[i]) + " calls " +
                describe(meeting.calls[i]) + ", " + member(who) + " calls " + describe(call);
      const auto place = static_cast<std::size_t>(std::find(meeting.members.begin(), meeting.members.end(), who) -
                                                  meeting.members.begin());
      meeting.calls[place] = std::move(call);
      meeting.futures[place] = mine;
      if (!why.empty())
        futures = fail(why);
      else if (++meeting.num_came == meeting.members.size()) {
        complete_meeting = std::move(meeting);
        meetings_.erase(found);
      }
    }
  }
  if (complete_meeting) {
    std::exception_ptr error;
    try {
      compute(complete_meeting->calls);
    } catch (const std::exception&) {
      error = std::current_exception();
    }
    for (std::size_t i = 0; i < complete_meeting->futures.size(); ++i) {
      if (error) {
        complete_meeting->futures[i]->setErrorIfNeeded(error);
        continue;
      }
      ThreadCall& done = complete_meeting->calls[i];
      complete_meeting->futures[i]->markCompleted(c10::IValue(done.outputs.empty() ? done.inputs : done.outputs));
    }
  } else if (!futures.empty()) {
    complete(futures, error_of(why));
  }
  return mine;
}

void ThreadRendezvous::leave(int who) {
  std::vector<Future> futures;
  std::string why;
  {
    const std::lock_guard lock(mutex_);
    has_left_[static_cast<std::size_t>(who)] = 1;
    for (const auto& [number, meeting] : meetings_)
      if (why.empty()) why = gone_from(number, meeting);
    if (!why.empty()) futures = fail(why);
    changed_.notify_all();
  }
  complete(futures, error_of(why));
}

void ThreadRendezvous::set_timeout(std::chrono::milliseconds timeout) {
  const std::lock_guard lock(mutex_);
  timeout_ = timeout;
}

/// Describes the first overdue collective and its absent members; "" if there is none.
std::string ThreadRendezvous::overdue(Clock::time_point now) const {
  for (const auto& [number, meeting] : meetings_) {
    if (meeting.deadline > now) continue;
    for (std::size_t i = 0; i < meeting.futures.size(); ++i)
      if (meeting.futures[i])
        return "timed out after " + core::format_duration(std::chrono::duration<double>(now - meeting.begin).count()) +
               " in " + describe(meeting.calls[i]) + ": " + absent_from(meeting) + " never came";
  }
  return "";
}

void ThreadRendezvous::watch() {
  std::unique_lock lock(mutex_);
  const auto all_left = [&] { return std::count(has_left_.begin(), has_left_.end(), 1) == num_members_; };
  while (!all_left()) {
    if (meetings_.empty()) {
      changed_.wait(lock);
      continue;
    }
    Clock::time_point next = Clock::time_point::max();
    for (const auto& [number, meeting] : meetings_) next = std::min(next, meeting.deadline);
    changed_.wait_until(lock, next);
    const std::string why = overdue(Clock::now());
    if (why.empty()) continue;
    const std::vector<Future> futures = fail(why);
    lock.unlock();
    complete(futures, error_of(why));
    lock.lock();
  }
}

}  // namespace trainctl::comm
