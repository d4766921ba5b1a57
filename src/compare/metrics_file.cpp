#include "compare/metrics_file.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string_view>
#include <unordered_map>

#include "core/file.h"
#include "core/json.h"
#include "core/text.h"

namespace trainctl::compare {
namespace {

using nlohmann::ordered_json;

struct Line {
  std::int64_t step = 0;
  bool is_evaluation = false;
  ordered_json record;
};

/// Whether the value is a figure. Step, epoch and time only place the record.
bool is_figure(const std::string& key, const ordered_json& value) {
  return key != "step" && key != "epoch" && key != "seconds" && key != "time" && (value.is_number() || value.is_null());
}

double number_or(const ordered_json& record, const char* key, double otherwise) {
  const auto found = record.find(key);
  return found != record.end() && found->is_number() ? found->get<double>() : otherwise;
}

class Reader {
 public:
  void read(std::string_view bytes) {
    std::size_t number = 0;
    for (std::size_t begin = 0; begin < bytes.size();) {
      const std::size_t end = bytes.find('\n', begin);
      ++number;
      if (end == std::string_view::npos) {
        torn_ = true;
        return;
      }
      read_line(bytes.substr(begin, end - begin), number);
      begin = end + 1;
    }
  }

  Metrics metrics() && {
    Metrics metrics;
    std::int64_t last_logged = 0, not_finite = 0;
    for (const Line& line : lines_) {
      if (line.is_evaluation) {
        metrics.seconds += number_or(line.record, "seconds", 0);
      } else {
        metrics.seconds += number_or(line.record, "step_ms", 0) / 1e3 * static_cast<double>(line.step - last_logged);
        last_logged = line.step;
      }
      metrics.last_step = std::max(metrics.last_step, line.step);
      not_finite += add(line, metrics);
    }
    remark(metrics.remarks, not_finite);
    return metrics;
  }

 private:
  void read_line(std::string_view text, std::size_t number) {
    Line line{.record = core::parse_json_or_discard<ordered_json>(text)};
    const auto step = line.record.is_object() ? line.record.find("step") : line.record.end();
    if (!line.record.is_object() || step == line.record.end() || !step->is_number_integer() ||
        step->get<std::int64_t>() < 0) {
      if (num_damaged_++ == 0) first_damaged_ = number;
      return;
    }
    line.step = step->get<std::int64_t>();
    const ordered_json event = line.record.value("event", ordered_json());
    if (event == "parameters") return;  // of each weight, for trackers
    line.is_evaluation = event == "eval";
    drop_what_comes_again(line);
    lines_.push_back(std::move(line));
  }

  /// Drops the records of later steps: a run that resumes at an earlier step writes them again.
  void drop_what_comes_again(const Line& line) {
    std::size_t kept = lines_.size();
    for (std::size_t i = lines_.size(); i > 0 && lines_[i - 1].step >= line.step; --i)
      if (lines_[i - 1].step > line.step || lines_[i - 1].is_evaluation == line.is_evaluation) kept = i - 1;
    num_replaced_ += static_cast<std::int64_t>(lines_.size() - kept);
    lines_.resize(kept);
  }

  /// Adds the line's values to the curves. Returns the number of non-finite values.
  std::int64_t add(const Line& line, Metrics& metrics) {
    std::int64_t not_finite = 0;
    for (const auto& [key, value] : line.record.items()) {
      if (!is_figure(key, value)) continue;
      const std::string name = line.is_evaluation ? "eval " + key : key;
      const auto [place, is_new] = places_.emplace(name, metrics.curves.size());
      if (is_new) metrics.curves.push_back({.name = name, .points = {}});
      not_finite += value.is_null() ? 1 : 0;
      metrics.curves[place->second].points.push_back(
          {.step = line.step, .seconds = metrics.seconds, .value = value.is_null() ? NAN : value.get<double>()});
    }
    return not_finite;
  }

  void remark(std::vector<std::string>& remarks, std::int64_t not_finite) const {
    const auto lines = [](std::int64_t count) { return core::format_count(count) + (count == 1 ? " line" : " lines"); };
    if (num_damaged_ > 0)
      remarks.push_back("metrics.jsonl: " + lines(num_damaged_) + " can't be read (the first is line " +
                        std::to_string(first_damaged_) + ") and left out");
    if (torn_)
      remarks.emplace_back("metrics.jsonl ends within a line, which is left out: the run was killed, or is writing");
    if (num_replaced_ > 0)
      remarks.push_back("metrics.jsonl goes back in steps; " + lines(num_replaced_) +
                        " that came again count as they came last");
    if (not_finite > 0)
      remarks.push_back(not_finite == 1 ? "one recorded value is not finite"
                                        : core::format_count(not_finite) + " recorded values are not finite");
    if (lines_.empty()) remarks.emplace_back("metrics.jsonl has no record");
  }

  std::vector<Line> lines_;
  bool torn_ = false;
  std::size_t first_damaged_ = 0;
  std::int64_t num_damaged_ = 0;
  std::unordered_map<std::string, std::size_t> places_;  // of the curves
  std::int64_t num_replaced_ = 0;
};

}  // namespace

Metrics read_metrics(const std::filesystem::path& path) {
  Reader reader;
  reader.read(core::read_file(path));
  return std::move(reader).metrics();
}

}  // namespace trainctl::compare
