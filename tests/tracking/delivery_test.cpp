#include "tracking/trackers/delivery.h"

#include <sys/stat.h>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "core/error.h"
#include "tracking/sinks.h"
#include "tracking_support.h"

using namespace trainctl;
using namespace trainctl::tracking;
using testing::content;
using testing::TemporaryDirectory;

namespace {

/// A line of metrics.jsonl; the number tells lines of one step apart.
std::string step_line(int step, int number = 0, const std::string& event = "step") {
  return R"({"event":")" + event + R"(","step":)" + std::to_string(step) + R"(,"loss":)" + std::to_string(number) +
         R"(.5,"time":1000})" + "\n";
}

/// A row of metrics.csv for a training step's record.
std::string csv_row(int step, int number = 0) {
  return std::to_string(step) + ",1000," + std::to_string(number) + ".5\n";
}

constexpr const char* kCsvHeader = "step,time,train/loss\n";

std::int64_t deliver_csv(const TemporaryDirectory& directory, Start start = Start::goes_on) {
  Delivery delivery({.run_directory = directory.path(), .run_name = "demo", .target = {.kind = "csv"}, .start = start});
  std::int64_t count = 0;
  while (const std::int64_t delivered = delivery.deliver()) count += delivered;
  delivery.finish();
  return count;
}

}  // namespace

TEST_CASE("a delivery goes on where the last one ended", "[tracking]") {
  const TemporaryDirectory directory;
  CHECK(deliver_csv(directory) == 0);  // a run without records
  testing::write(directory / "metrics.jsonl", step_line(1) + step_line(2));
  CHECK(num_undelivered(directory.path(), "csv") == 2);
  CHECK(deliver_csv(directory) == 2);
  CHECK(num_undelivered(directory.path(), "csv") == 0);
  CHECK(deliver_csv(directory) == 0);
  testing::write(directory / "metrics.jsonl", step_line(1) + step_line(2) + step_line(3));
  CHECK(num_undelivered(directory.path(), "csv") == 1);
  CHECK(deliver_csv(directory) == 1);
  CHECK(content(directory / "metrics.csv") == kCsvHeader + csv_row(1) + csv_row(2) + csv_row(3));
  CHECK(deliver_csv(directory, Start::over) == 3);
  CHECK(content(directory / "metrics.csv") == kCsvHeader + csv_row(1) + csv_row(2) + csv_row(3));
}

TEST_CASE("a torn last line waits for its rest", "[tracking]") {
  const TemporaryDirectory directory;
  const std::string torn = step_line(2);
  testing::write(directory / "metrics.jsonl", step_line(1) + torn.substr(0, 20));
  Delivery delivery({.run_directory = directory.path(), .run_name = "demo", .target = {.kind = "csv"}});
  CHECK(delivery.deliver() == 1);
  CHECK(delivery.deliver() == 0);
  std::ofstream(directory / "metrics.jsonl", std::ios::app) << torn.substr(20);
  CHECK(delivery.deliver() == 1);
  CHECK(content(directory / "metrics.csv") == kCsvHeader + csv_row(1) + csv_row(2));
}

TEST_CASE("a named pipe in place of the records is not waited for", "[tracking][regression]") {
  const TemporaryDirectory directory;
  REQUIRE(::mkfifo((directory / "metrics.jsonl").c_str(), 0600) == 0);
  CHECK(deliver_csv(directory) == 0);
}

TEST_CASE("lines that are no records are left out", "[tracking]") {
  const TemporaryDirectory directory;
  testing::write(directory / "metrics.jsonl",
                 step_line(1) + "{\"step\":\n[1]\n{\"event\":\"step\"}\n\n" + step_line(2));
  CHECK(deliver_csv(directory) == 2);
}

TEST_CASE("a run that was resumed at an earlier step is delivered anew", "[tracking]") {
  const TemporaryDirectory directory;
  const std::string kept = step_line(1) + step_line(2);
  testing::write(directory / "metrics.jsonl", kept + step_line(3) + step_line(4));
  Delivery delivery({.run_directory = directory.path(), .run_name = "demo", .target = {.kind = "csv"}});
  CHECK(delivery.deliver() == 4);
  std::filesystem::remove(directory / "metrics.jsonl");
  testing::write(directory / "metrics.jsonl", kept + step_line(3, 7) + step_line(4, 7) + step_line(5, 7));
  CHECK(delivery.deliver() == 5);
  CHECK(delivery.deliver() == 0);
  CHECK(content(directory / "metrics.csv") ==
        kCsvHeader + csv_row(1) + csv_row(2) + csv_row(3, 7) + csv_row(4, 7) + csv_row(5, 7));
}

TEST_CASE("a cut that a later delivery meets is noticed by the bytes before its position", "[tracking]") {
  const TemporaryDirectory directory;
  testing::write(directory / "metrics.jsonl", step_line(1) + step_line(2) + step_line(3));
  CHECK(deliver_csv(directory) == 3);
  testing::write(directory / "metrics.jsonl", step_line(1) + step_line(2, 7) + step_line(3, 7));  // of equal size
  CHECK(num_undelivered(directory.path(), "csv") == 3);
  CHECK(deliver_csv(directory) == 3);
  CHECK(content(directory / "metrics.csv") == kCsvHeader + csv_row(1) + csv_row(2, 7) + csv_row(3, 7));
}

TEST_CASE("records that a rollback took back are left out", "[tracking]") {
  const TemporaryDirectory directory;
  const std::string lines = step_line(1) + step_line(2) + step_line(3);
  testing::write(directory / "metrics.jsonl", lines);
  Delivery delivery({.run_directory = directory.path(), .run_name = "demo", .target = {.kind = "csv"}});
  CHECK(delivery.deliver() == 3);
  std::ofstream(directory / "metrics.jsonl", std::ios::app) << step_line(2, 7) << step_line(3, 7);
  while (delivery.deliver() > 0) continue;
  CHECK(content(directory / "metrics.csv") == kCsvHeader + csv_row(1) + csv_row(2, 7) + csv_row(3, 7));
}

TEST_CASE("records that go back in an order that no run writes are delivered all the same", "[tracking]") {
  for (const auto& [lines, count] : std::vector<std::pair<std::string, std::int64_t>>{
           {step_line(10) + step_line(12) + step_line(10, 1, "eval") + step_line(10, 2), 2},
           {step_line(-5) + step_line(1), 1},
           {R"({"event":"step","step":18446744073709551615,"loss":1})"
            "\n" +
                step_line(1),
            1}}) {
    CAPTURE(lines);
    const TemporaryDirectory directory;
    testing::write(directory / "metrics.jsonl", lines);
    CHECK(deliver_csv(directory) == count);
    CHECK(deliver_csv(directory) == 0);
  }
}

TEST_CASE("a cursor of a stranger's run leads to no file outside of it, and a damaged one begins anew", "[tracking]") {
  const TemporaryDirectory directory;
  const std::filesystem::path run = directory / "run";
  std::filesystem::create_directories(run / ".tracking");
  std::filesystem::create_directories(run / "tensorboard");
  testing::write(directory / "victim.txt", "mine");
  testing::write(run / "metrics.jsonl", step_line(1));
  const auto deliver = [&](const std::string& kind) {
    Delivery delivery({.run_directory = run, .run_name = "demo", .target = {.kind = kind}});
    return delivery.deliver();
  };
  for (const std::string kind : {"tensorboard", "wandb", "csv"}) {
    CAPTURE(kind);
    CHECK(deliver(kind) == 1);
    nlohmann::ordered_json cursor = nlohmann::ordered_json::parse(content(run / ".tracking" / (kind + ".json")));
    for (const auto& [key, value] : {std::pair("file", "../../victim.txt"), std::pair("folder", "../..")})
      if (cursor["state"].contains(key)) cursor["state"][key] = value;
    if (kind == "csv") cursor["state"] = nlohmann::ordered_json::object();
    if (cursor["state"].contains("bytes")) cursor["state"]["bytes"] = 0;
    testing::write(run / ".tracking" / (kind + ".json"), cursor.dump());
    testing::write(run / "metrics.jsonl", step_line(1) + step_line(2));
    CHECK(deliver(kind) == 2);
    CHECK(content(directory / "victim.txt") == "mine");
    testing::write(run / "metrics.jsonl", step_line(1));
  }
}

TEST_CASE("a column that comes late is there from the first row", "[tracking]") {
  const TemporaryDirectory directory;
  testing::write(directory / "metrics.jsonl", step_line(1));
  Delivery delivery({.run_directory = directory.path(), .run_name = "demo", .target = {.kind = "csv"}});
  CHECK(delivery.deliver() == 1);
  std::ofstream(directory / "metrics.jsonl", std::ios::app)
      << R"({"event":"eval","step":1,"loss":null,"accuracy":0.5,"time":1001})"
      << "\n";
  while (delivery.deliver() > 0) continue;
  CHECK(content(directory / "metrics.csv") ==
        "step,time,train/loss,eval/loss,eval/accuracy\n1,1000,0.5,,\n1,1001,,nan,0.5\n");
}

TEST_CASE("what a kill left behind the cursor comes once", "[tracking]") {
  const TemporaryDirectory directory;
  testing::write(directory / "metrics.jsonl", step_line(1));
  CHECK(deliver_csv(directory) == 1);
  std::ofstream(directory / "metrics.csv", std::ios::app) << csv_row(2).substr(0, 3);  // before its cursor was written
  testing::write(directory / "metrics.jsonl", step_line(1) + step_line(2));
  CHECK(deliver_csv(directory) == 1);
  CHECK(content(directory / "metrics.csv") == kCsvHeader + csv_row(1) + csv_row(2));
  std::filesystem::remove(directory / "metrics.csv");
  CHECK(deliver_csv(directory) == 2);  // the table is gone
  CHECK(deliver_csv(directory) == 0);
}

TEST_CASE("one process delivers at a time", "[tracking]") {
  const TemporaryDirectory directory;
  const Delivery first({.run_directory = directory.path(), .run_name = "demo", .target = {.kind = "csv"}});
  CHECK_THROWS_WITH(Delivery({.run_directory = directory.path(), .run_name = "demo", .target = {.kind = "csv"}}),
                    Catch::Contains("another process delivers"));
}

TEST_CASE("the end of a run is delivered once its records are, and not an earlier end", "[tracking]") {
  const TemporaryDirectory directory;
  testing::write(directory / "metrics.jsonl", step_line(1) + step_line(2));
  CHECK(deliver_csv(directory) == 2);
  CHECK_FALSE(is_end_delivered(directory.path(), "csv"));
  testing::write(directory / "summary.json", R"({"outcome":1,"steps":"two"})");
  deliver_csv(directory, Start::over);
  CHECK_FALSE(is_end_delivered(directory.path(), "csv"));
  testing::write(directory / "summary.json", R"({"outcome":"stopped","steps":1})");  // of the start before
  deliver_csv(directory, Start::over);
  CHECK_FALSE(is_end_delivered(directory.path(), "csv"));
  testing::write(directory / "summary.json", R"({"outcome":"finished","steps":2})");
  deliver_csv(directory, Start::over);
  CHECK(is_end_delivered(directory.path(), "csv"));
}
