#include "train/run/launch_record.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/file.h"
#include "core/json.h"

namespace trainctl::train {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

fs::path file_of(const fs::path& run_directory) {
  return run_directory / ".launch_record";
}

std::int64_t time_of(const fs::path& path) {
  return fs::last_write_time(path).time_since_epoch().count();
}

}  // namespace

std::optional<LaunchRecord> read_launch_record(const fs::path& run_directory) {
  if (!fs::exists(file_of(run_directory))) return std::nullopt;
  const Json read = core::parse_json_or_discard(core::read_file(file_of(run_directory)));
  try {
    const Json batch = read.value("batch_size", Json());  // earlier versions wrote neither
    const Json recomputation = read.value("recomputation", Json());
    experiment::AutoValues values;
    if (!batch.is_null()) values.batch_size = batch.get<std::int64_t>();
    if (!recomputation.is_null()) values.blocks = experiment::recomputation_named(recomputation.get<std::string>());
    return LaunchRecord{.launchers = read.at("launchers").get<std::vector<std::string>>(),
                        .resumed_from = read.at("resumed_from"),
                        .global_batch = read.at("global_batch"),
                        .values = values,
                        .began = read.at("began")};
  } catch (const Json::exception&) {  // damaged: as if it had never been
    return std::nullopt;
  }
}

void write_launch_record(const fs::path& run_directory, LaunchRecord record) {
  const fs::path file = file_of(run_directory);
  if (record.began == 0) {
    core::write_file_atomically(file, "");
    record.began = time_of(file);
  }
  const Json content{{"launchers", record.launchers},
                     {"resumed_from", record.resumed_from},
                     {"global_batch", record.global_batch},
                     {"batch_size", record.values.batch_size ? Json(*record.values.batch_size) : Json()},
                     {"recomputation", record.values.blocks ? Json(record.values.blocks->kind()) : Json()},
                     {"began", record.began}};
  core::write_file_atomically(file, content.dump(1) + "\n");
}

bool goes_on(const LaunchRecord& record, const std::vector<std::string>& launchers) {
  return std::find_first_of(record.launchers.begin(), record.launchers.end(), launchers.begin(), launchers.end()) !=
         record.launchers.end();
}

bool is_of(const LaunchRecord& record, const fs::path& path) {
  return time_of(path) >= record.began;
}

}  // namespace trainctl::train
