#include <string>

#include "tracking/append_file.h"
#include "tracking/cut_back.h"
#include "tracking/record.h"
#include "tracking/sinks.h"

namespace trainctl::tracking {
namespace {

namespace fs = std::filesystem;

constexpr const char* kPrefix = "samples_rank_";

fs::path logs_of(const fs::path& run_directory) {
  return run_directory / "logs";
}

class Samples final : public Sink {
 public:
  explicit Samples(const fs::path& path) : path_(path), file_(path, IfExists::append) {}

  void on(const Event& event) override {
    if (const auto* back = std::get_if<RolledBack>(&event)) cut_back(path_, back->step);
    const auto* batch = std::get_if<BatchTaken>(&event);
    if (batch == nullptr) return;
    Record record;
    record.count("step", batch->step);
    record.count("epoch", batch->epoch);
    record.count("first", batch->first);
    record.count("count", batch->count);
    file_.append(record.line());
  }

 private:
  fs::path path_;
  AppendFile file_;  // opens the file that cut_back() has put in its place
};

}  // namespace

std::unique_ptr<Sink> make_samples(const TrackerOptions& options) {
  fs::create_directories(logs_of(options.run_directory));
  return std::make_unique<Samples>(logs_of(options.run_directory) /
                                   (kPrefix + std::to_string(options.rank) + ".jsonl"));
}

void cut_back_samples(const fs::path& run_directory, std::int64_t first_step) {
  for (const char* list : {"bad_samples.jsonl", "loss_spikes.jsonl"})
    if (fs::is_regular_file(run_directory / list)) cut_back(run_directory / list, first_step);
  if (!fs::is_directory(logs_of(run_directory))) return;
  for (const fs::directory_entry& entry : fs::directory_iterator(logs_of(run_directory)))
    if (entry.path().filename().string().starts_with(kPrefix) && entry.path().extension() == ".jsonl")
      cut_back(entry.path(), first_step);
}

}  // namespace trainctl::tracking
