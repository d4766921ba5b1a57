#include "comm/backend/thread_rendezvous.h"

#include <c10/util/Exception.h>

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
    : num_members_(num_members),
      timeout_(timeout),
      num_entered_(static_cast<std::size_t>(num_members)),
      has_left_(static_cast<std::size_t>(num_members)) {}

std::string ThreadRendezvous::absent_from(const Meeting& meeting) const {
  std::vector<std::string> absent;
  for (int i = 0; i < num_members_; ++i)
    if (!meeting.futures[static_cast<std::size_t>(i)]) absent.push_back(member(i));
  return core::list_words(absent);
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

Future ThreadRendezvous::enter(int who, ThreadCall call) {
  const auto index = static_cast<std::size_t>(who);
  const Future mine = new_future();
  std::vector<Future> futures;
  std::string why;
  std::optional<Meeting> complete_meeting;
  {
    const std::lock_guard lock(mutex_);
    const std::int64_t number = num_entered_[index]++;
    for (std::size_t i = 0; i < has_left_.size() && failure_.empty(); ++i)
      if (has_left_[i] && num_entered_[i] <= number) failure_ = member(static_cast<std::int64_t>(i)) + " has left";
    if (!failure_.empty()) {
      futures = {mine};
      why = failure_;
    } else {
      Meeting& meeting = meetings_[number];
      if (meeting.num_came == 0) {
        meeting.calls.resize(has_left_.size());
        meeting.futures.resize(has_left_.size());
        meeting.begin = Clock::now();
        meeting.deadline = meeting.begin + timeout_;
        changed_.notify_all();
      }
      for (std::size_t i = 0; i < meeting.futures.size() && why.empty(); ++i)
        if (meeting.futures[i] && !mismatch(meeting.calls[i], call).empty())
          why = mismatch(meeting.calls[i], call) + ": " + member(static_cast<std::int64_t>(i)) + " calls " +
                describe(meeting.calls[i]) + ", " + member(who) + " calls " + describe(call);
      meeting.calls[index] = std::move(call);
      meeting.futures[index] = mine;
      if (!why.empty())
        futures = fail(why);
      else if (++meeting.num_came == num_members_) {
        complete_meeting = std::move(meeting);
        meetings_.erase(number);
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
      if (!meeting.futures[static_cast<std::size_t>(who)]) why = member(who) + " has left";
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
