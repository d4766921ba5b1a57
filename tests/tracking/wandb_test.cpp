#include <boost/crc.hpp>
#include <catch2/catch.hpp>
#include <map>
#include <protozero/pbf_reader.hpp>
#include <string>
#include <vector>

#include "tracking/trackers/delivery.h"
#include "tracking/trackers/leveldb_log.h"
#include "tracking_support.h"

using namespace trainctl;
using namespace trainctl::tracking;
using protozero::pbf_reader;
using testing::TemporaryDirectory;

namespace {

constexpr std::size_t kLogBlock = 32768;

/// Reads a log as LevelDB's format is described: each part's checksum is checked.
std::vector<std::string> read_log(const std::string& bytes) {
  std::vector<std::string> records;
  bool is_open = false;
  for (std::size_t at = 7; at < bytes.size();) {
    const std::size_t room = kLogBlock - at % kLogBlock;
    if (room < 7) {
      CHECK(bytes.substr(at, room) == std::string(room, '\0'));
      at += room;
      continue;
    }
    const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(bytes.at(at + i)); };
    const std::size_t length = byte(4) | byte(5) << 8;
    const int type = byte(6);
    REQUIRE(length + 7 <= room);
    boost::crc_32_type crc;
    crc.process_bytes(bytes.data() + at + 6, 1 + length);
    REQUIRE(crc.checksum() == (byte(0) | byte(1) << 8 | byte(2) << 16 | static_cast<std::uint32_t>(byte(3)) << 24));
    REQUIRE(is_open == (type == 3 || type == 4));
    if (type == 1 || type == 2) records.emplace_back();
    records.back() += bytes.substr(at + 7, length);
    is_open = type == 2 || type == 3;
    at += 7 + length;
  }
  REQUIRE_FALSE(is_open);
  return records;
}

/// Returns the values of an items' message by name: its key, or nested key, and value_json.
std::map<std::string, std::string> items_of(pbf_reader message) {
  std::map<std::string, std::string> items;
  while (message.next(1)) {
    pbf_reader item = message.get_message();
    std::string key, value;
    while (item.next())
      if (item.tag() == 1 || item.tag() == 2)
        key = item.get_string();
      else if (item.tag() == 16)
        value = item.get_string();
      else
        item.skip();
    items[key] = value;
  }
  return items;
}

/// The messages of a kind, by the field number that Record has for them.
std::vector<pbf_reader> messages(const std::vector<std::string>& records, protozero::pbf_tag_type field) {
  std::vector<pbf_reader> found;
  std::int64_t number = 0;
  for (const std::string& bytes : records) {
    pbf_reader record(bytes);
    while (record.next())
      if (record.tag() == 1)
        CHECK(record.get_int64() == ++number);
      else if (record.tag() == field)
        found.push_back(record.get_message());
      else
        record.skip();
  }
  return found;
}

constexpr protozero::pbf_tag_type kHistoryField = 2, kSummaryField = 3, kRunField = 17, kExitField = 18,
                                  kHeaderField = 21;

std::filesystem::path wandb_file(const TemporaryDirectory& directory) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(directory / "wandb"))
    if (entry.path().extension() == ".wandb") files.push_back(entry.path());
  REQUIRE(files.size() == 1);
  return files.front();
}

void deliver_wandb(const TemporaryDirectory& directory) {
  Delivery delivery({.run_directory = directory.path(),
                     .run_name = "demo",
                     .config = {{"optimizer.lr", "0.001"}, {"optimizer.kind", "adamw"}, {"dataset.shuffle", "true"}},
                     .target = {.kind = "wandb", .project = "flowers"}});
  while (delivery.deliver() > 0) continue;
  delivery.finish();
}

std::string wandb_line(int step, const std::string& loss) {
  return R"({"event":"step","step":)" + std::to_string(step) + R"(,"loss":)" + loss + R"(,"time":1795705608.25})" +
         "\n";
}

}  // namespace

TEST_CASE("records of any size fill LevelDB's blocks", "[tracking]") {
  std::string log = wandb_log_header();
  CHECK(log == std::string(":W&B\xe1\xbe\0", 7));
  std::vector<std::string> written;
  for (const std::size_t size : {0, 1, 32747, 3, 32761, 32762, 100000, 32740, 7, 65522})
    written.emplace_back(size, static_cast<char>('a' + written.size()));
  for (const std::string& record : written) log += leveldb_record(record, static_cast<std::int64_t>(log.size()));
  CHECK(read_log(log) == written);
}

TEST_CASE("a run of W&B has config, one history row for each step, summary and exit", "[tracking]") {
  const TemporaryDirectory directory;
  testing::write(directory / "metrics.jsonl", wandb_line(10, "0.1") + wandb_line(20, "null") +
                                                  R"({"event":"eval","step":20,"accuracy":0.9162,"time":1795705610})" +
                                                  "\n");
  testing::write(directory / "summary.json", R"({"outcome":"finished","steps":20,"best_metrics":{"accuracy":0.9162}})");
  deliver_wandb(directory);
  const std::filesystem::path file = wandb_file(directory);
  CHECK(file.parent_path().filename().string().starts_with("offline-run-20261126_150648-"));
  const std::vector<std::string> records = read_log(testing::content(file));
  CHECK(messages(records, kHeaderField).size() == 1);
  CHECK(messages(records, kExitField).size() == 1);
  std::vector<pbf_reader> runs = messages(records, kRunField);
  REQUIRE(runs.size() == 1);
  while (runs[0].next())
    if (runs[0].tag() == 1)
      CHECK("run-" + runs[0].get_string() + ".wandb" == file.filename().string());
    else if (runs[0].tag() == 3)
      CHECK(runs[0].get_string() == "flowers");
    else if (runs[0].tag() == 4)
      CHECK(items_of(runs[0].get_message()) == std::map<std::string, std::string>{{"optimizer.lr", "0.001"},
                                                                                  {"optimizer.kind", "\"adamw\""},
                                                                                  {"dataset.shuffle", "true"}});
    else
      runs[0].skip();
  const std::vector<pbf_reader> history = messages(records, kHistoryField);
  REQUIRE(history.size() == 2);
  const auto first = items_of(history[0]), second = items_of(history[1]);
  CHECK(first.at("train/loss") == "0.1");
  CHECK(first.at("_step") == "10");
  CHECK(first.at("_timestamp") == "1795705608.25");
  CHECK(second.at("train/loss") == "NaN");
  CHECK(second.at("eval/accuracy") == "0.9162");
  CHECK(second.at("_runtime") == "1.75");
  CHECK(items_of(messages(records, kSummaryField).back()).at("summary/best_metrics/accuracy") == "0.9162");
}

TEST_CASE("a histogram has W&B's form, in the row of its step", "[tracking]") {
  const TemporaryDirectory directory;
  const std::string parameters =
      R"({"event":"parameters","step":10,"norm/weight/fc.bias":1.5,)"
      R"("histograms":{"weight/fc.bias":{"low":-1.0,"high":1.0,"counts":[3,1]}},"time":1795705608})";
  testing::write(directory / "metrics.jsonl", parameters + "\n" + wandb_line(10, "0.1") + wandb_line(20, "0.1"));
  deliver_wandb(directory);
  const std::vector<std::string> records = read_log(testing::content(wandb_file(directory)));
  const auto row = items_of(messages(records, kHistoryField).at(0));
  CHECK(row.at("parameters/weight/fc.bias") == R"({"_type":"histogram","values":[3,1],"bins":[-1.0,0.0,1.0]})");
  CHECK(row.at("parameters/norm/weight/fc.bias") == "1.5");
  CHECK(row.at("train/loss") == "0.1");
}

TEST_CASE("a run of W&B is the same, delivered at once or record by record", "[tracking]") {
  const TemporaryDirectory at_once, bit_by_bit;
  std::string lines;
  for (int step = 1; step <= 400; ++step) {
    lines += wandb_line(step, std::to_string(step) + ".25");
    if (step % 10 == 0)
      lines += R"({"event":"eval","step":)" + std::to_string(step) + R"(,"loss":0.5,"time":1795705609})" + "\n";
    testing::write(bit_by_bit / "metrics.jsonl", lines);
    if (step % 7 == 0) deliver_wandb(bit_by_bit);
  }
  testing::write(at_once / "metrics.jsonl", lines);
  for (const TemporaryDirectory* directory : {&at_once, &bit_by_bit}) {
    testing::write(*directory / "summary.json", R"({"outcome":"stopped","steps":400})");
    deliver_wandb(*directory);
  }
  const auto rows = [](const TemporaryDirectory& directory) {
    std::vector<std::map<std::string, std::string>> all;
    const std::vector<std::string> records = read_log(testing::content(wandb_file(directory)));
    for (const pbf_reader& row : messages(records, kHistoryField)) all.push_back(items_of(row));
    return all;
  };
  CHECK(rows(at_once).size() == 400);
  CHECK(rows(at_once) == rows(bit_by_bit));
}

TEST_CASE("a run is known by its first record, which a delivery waits for", "[tracking]") {
  const TemporaryDirectory directory;
  testing::write(directory / "metrics.jsonl", "");
  Delivery delivery({.run_directory = directory.path(), .run_name = "demo", .target = {.kind = "wandb"}});
  CHECK(delivery.deliver() == 0);
  CHECK_FALSE(std::filesystem::exists(directory / "wandb"));
  testing::write(directory / "metrics.jsonl", wandb_line(10, "0.1"));
  CHECK(delivery.deliver() == 1);
  CHECK(wandb_file(directory).filename() != "run-00000000.wandb");
}

TEST_CASE("a run that goes on after its end is a run of W&B with one exit", "[tracking]") {
  const TemporaryDirectory directory;
  testing::write(directory / "metrics.jsonl", wandb_line(10, "0.1"));
  testing::write(directory / "summary.json", R"({"outcome":"stopped","steps":10})");
  deliver_wandb(directory);
  const std::filesystem::path file = wandb_file(directory);
  testing::write(directory / "metrics.jsonl", wandb_line(10, "0.1") + wandb_line(20, "0.2"));
  testing::write(directory / "summary.json", R"({"outcome":"finished","steps":20})");
  deliver_wandb(directory);
  CHECK(wandb_file(directory) == file);  // with the same id
  const std::vector<std::string> records = read_log(testing::content(file));
  CHECK(messages(records, kHistoryField).size() == 2);
  CHECK(messages(records, kExitField).size() == 1);
}
