#include "train/run/launch_record.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/file.h"

namespace trainctl::train {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

fs::path file_of(const fs::path& run_directory) {
  return run_directory / ".job";
}

std::int64_t time_of(const fs::path& path) {
  return fs::last_write_time(path).time_since_epoch().count();
}

}  // namespace

std::optional<Job> read_job(const fs::path& run_directory) {
  if (!fs::exists(file_of(run_directory))) return std::nullopt;
  const Json read = Json::parse(core::read_file(file_of(run_directory)), nullptr, /*allow_exceptions=*/false);
  try {
    const Json batch = read.value("batch_size", Json());  // earlier versions wrote neither
    const Json recomputation = read.value("recomputation", Json());
    experiment::AutoValues values;
    if (!batch.is_null()) values.batch_size = batch.get<std::int64_t>();
    if (!recomputation.is_null()) values.blocks = experiment::recomputation_named(recomputation.get<std::string>());
    return Job{.launchers = read.at("launchers").get<std::vector<std::string>>(),
               .resumed_from = read.at("resumed_from"),
               .global_batch = read.at("global_batch"),
               .values = values,
               .began = read.at("began")};
  } catch (const Json::exception&) {  // damaged: as if it had never been
    return std::nullopt;
  }
}

void write_job(const fs::path& run_directory, Job job) {
  const fs::path file = file_of(run_directory);
  if (job.began == 0) {
    core::write_file_atomically(file, "");
    job.began = time_of(file);
  }
  const Json content{{"launchers", job.launchers},
                     {"resumed_from", job.resumed_from},
                     {"global_batch", job.global_batch},
                     {"batch_size", job.values.batch_size ? Json(*job.values.batch_size) : Json()},
                     {"recomputation", job.values.blocks ? Json(job.values.blocks->kind()) : Json()},
                     {"began", job.began}};
  core::write_file_atomically(file, content.dump(1) + "\n");
}

bool goes_on(const Job& job, const std::vector<std::string>& launchers) {
  return std::find_first_of(job.launchers.begin(), job.launchers.end(), launchers.begin(), launchers.end()) !=
         job.launchers.end();
}

bool is_of(const Job& job, const fs::path& path) {
  return time_of(path) >= job.began;
}

}  // namespace trainctl::train
