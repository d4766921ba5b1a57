// Writes a run's records as a table: a row for each record, a column for each value.
#include <algorithm>
#include <cmath>

#include "core/text.h"
#include "tracking/trackers/delivered_file.h"
#include "tracking/trackers/tracker_kinds.h"

namespace trainctl::tracking {
namespace {

using nlohmann::ordered_json;

class CsvTable final : public RunTracker {
 public:
  explicit CsvTable(const RunInfo& run) : file_(run.directory / "metrics.csv"), columns_(run.names) {}

  bool open(Start start, const ordered_json& state) override {
    if (start == Start::goes_on) {
      columns_ = state.at("columns").get<std::vector<std::string>>();
      return file_.go_on(state.at("bytes").get<std::int64_t>());
    }
    file_.begin();
    std::string header = "step,time";
    for (const std::string& column : columns_) header += "," + core::csv_cell(column);
    file_.append(header + "\n");
    return true;
  }

  bool add(const MetricRecord& record) override {
    std::vector<std::string> cells(columns_.size());
    for (const auto& [name, value] : record.values) {
      const auto column = std::ranges::find(columns_, name);
      if (column == columns_.end()) return false;
      cells[static_cast<std::size_t>(column - columns_.begin())] =
          std::isnan(value) ? "nan" : core::format_number(value);
    }
    std::string row = std::to_string(record.step) + "," + core::format_number(record.time);
    for (const std::string& cell : cells) row += "," + cell;
    file_.append(row + "\n");
    return true;
  }

  ordered_json commit() override {
    file_.commit();
    return {{"bytes", file_.size()}, {"columns", columns_}};
  }

  ordered_json finish(const RunResult& /*result*/) override { return commit(); }
  std::string place() const override { return file_.path().string(); }

 private:
  DeliveredFile file_;
  std::vector<std::string> columns_;
};

}  // namespace

std::unique_ptr<RunTracker> make_csv(const TrackerTarget& /*target*/, const RunInfo& run) {
  return std::make_unique<CsvTable>(run);
}

}  // namespace trainctl::tracking
