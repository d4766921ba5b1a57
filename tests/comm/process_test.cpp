#include "comm/launch/process.h"

#include <catch2/catch.hpp>
#include <csignal>

#include "comm/child_process.h"

namespace trainctl::comm {
namespace {

TEST_CASE("a process is stopped until it is continued", "[comm]") {
  const Child child;
  CHECK_FALSE(is_stopped(own_process()));
  CHECK_FALSE(is_stopped({}));
  child.stop();
  CHECK(is_stopped(child.id()));
  child.resume();
  CHECK_FALSE(is_stopped(child.id()));
}

TEST_CASE("a process has ended when it was killed, collected by its parent or not", "[comm]") {
  const Child child;
  CHECK_FALSE(has_ended(own_process()));
  CHECK_FALSE(has_ended(parent_process()));
  CHECK_FALSE(has_ended(child.id()));
  ::kill(static_cast<pid_t>(child.id().number), SIGKILL);
  child.wait_until_it_ended();
  CHECK(has_ended(child.id()));
  child.collect();
  CHECK(has_ended(child.id()));
}

TEST_CASE("a later process with the same number is another; of other machines nothing is known", "[comm]") {
  const Child child;
  ProcessId earlier = child.id();
  earlier.start_time -= 1;
  CHECK(has_ended(earlier));
  CHECK_FALSE(end_by_force(earlier));
  ProcessId elsewhere = earlier;
  elsewhere.machine = "another";
  CHECK_FALSE(has_ended(elsewhere));
  CHECK_FALSE(end_by_force(elsewhere));
  CHECK_FALSE(has_ended(ProcessId{}));
  CHECK(text_of(earlier) != text_of(elsewhere));
}

TEST_CASE("a stopped process is ended by force, this one never", "[comm]") {
  const Child child;
  ::kill(static_cast<pid_t>(child.id().number), SIGSTOP);
  CHECK(end_by_force(child.id()));
  child.wait_until_it_ended();
  CHECK(has_ended(child.id()));
  CHECK_FALSE(end_by_force(child.id()));
  CHECK_FALSE(end_by_force(own_process()));
}

}  // namespace
}  // namespace trainctl::comm
