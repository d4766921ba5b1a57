// Writes a run as TensorBoard's event files: curves, histograms, the config as text and hyperparameters, and at the end
// the evaluation's confusion matrix, metrics by class and samples.
#include <png.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/base64.h"
#include "core/error.h"
#include "core/file.h"
#include "core/text.h"
#include "tracking/trackers/delivered_file.h"
#include "tracking/trackers/tensorboard_events.h"
#include "tracking/trackers/tracker_kinds.h"
#include "tracking/trackers/typed_json.h"

namespace trainctl::tracking {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

std::string text_of(const ordered_json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_number_float()) return core::format_digits(value.get<double>(), 4);
  return value.is_null() ? "" : value.dump();
}

/// Returns a text that stays in its cell of a Markdown table, and is no markup.
std::string markdown_cell(const std::string& text) {
  std::string cell;
  for (const char c : text) {
    if (c == '\n' || c == '\r') {
      cell += ' ';
      continue;
    }
    if (std::string_view("\\`*_{}[]<>()#|~!").find(c) != std::string_view::npos) cell += '\\';
    cell += c;
  }
  return cell;
}

/// Returns the columns of a sample: its number, what it shows, then label, prediction, score and loss.
std::vector<std::pair<std::string, std::string>> cells_of(const ordered_json& record) {
  std::vector<std::pair<std::string, std::string>> cells;
  for (const auto& [key, value] : record.items()) {
    if (key == "row" && value.is_object()) {
      for (const auto& [name, cell] : value.items()) cells.emplace_back(name, text_of(cell));
    } else if (key == "tokens" && value.is_array()) {
      std::string text;
      for (const ordered_json& token : value)
        if (token.is_array() && !token.empty()) text += text_of(token[0]);
      cells.emplace_back("text", std::move(text));
    } else {
      cells.emplace_back(key, text_of(value));
    }
  }
  return cells;
}

std::string table_of(const ordered_json& records) {
  std::vector<std::string> columns;
  for (const ordered_json& record : records)
    for (const auto& [name, cell] : cells_of(record))
      if (std::ranges::find(columns, name) == columns.end()) columns.push_back(name);
  std::string header = "|", rule = "|", rows;
  for (const std::string& column : columns) header += " " + markdown_cell(column) + " |", rule += "---|";
  for (const ordered_json& record : records) {
    const auto cells = cells_of(record);
    rows += "|";
    for (const std::string& column : columns) {
      const auto cell = std::ranges::find(cells, column, &std::pair<std::string, std::string>::first);
      rows += " " + (cell == cells.end() ? "" : markdown_cell(cell->second)) + " |";
    }
    rows += "\n";
  }
  return header + "\n" + rule + "\n" + rows;
}

/// Returns the bytes of the record's picture, which is a data URI; nothing if there is none.
std::optional<std::string> picture_of(const ordered_json& record) {
  const auto picture = record.find("picture");
  if (picture == record.end() || !picture->is_string()) return std::nullopt;
  const std::string uri = picture->get<std::string>();
  const std::size_t comma = uri.find(',');
  return comma == std::string::npos ? std::nullopt : core::from_base64(std::string_view(uri).substr(comma + 1));
}

std::string caption_of(const ordered_json& record) {
  const auto part = [&](const char* key) { return text_of(record.value(key, ordered_json())); };
  std::string caption = "sample " + part("sample");
  if (record.contains("label")) caption += ": " + part("label") + ", predicted " + part("prediction");
  return caption + ", loss " + part("loss");
}

/// Adds the samples as "eval/first" and "eval/worst": a picture each, or one table in Markdown. Does nothing if there
/// are none.
void add_sample_predictions(const ordered_json& predictions, SummaryValues& values) {
  if (!predictions.is_object()) return;
  for (const char* list : {"first", "worst"}) {
    ordered_json records = ordered_json::array();
    int number = 0;
    for (const ordered_json& record : predictions.value(list, ordered_json::array())) {
      if (!record.is_object()) continue;
      const std::optional<std::string> picture = picture_of(record);
      if (!picture) {
        records.push_back(record);
        continue;
      }
      ++number;
      const std::string tag = std::string("eval/") + list + (number < 10 ? "/0" : "/") + std::to_string(number);
      values.add_image(tag, {.bytes = *picture}, caption_of(record));
    }
    if (!records.empty()) values.add_text(std::string("eval/") + list, table_of(records));
  }
}

constexpr std::size_t kSide = 480;  // of the picture, about, in pixels
constexpr std::array<double, 3> kDarkest{8, 48, 107};

EncodedImage encode_png(std::size_t side, const std::vector<png_byte>& pixels) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.width = static_cast<png_uint_32>(side);
  image.height = static_cast<png_uint_32>(side);
  image.format = PNG_FORMAT_RGB;
  png_alloc_size_t size = PNG_IMAGE_PNG_SIZE_MAX(image);
  std::string bytes(size, '\0');
  if (png_image_write_to_memory(&image, bytes.data(), &size, 0, pixels.data(), 0, nullptr) == 0)
    throw core::Error(std::string("cannot draw the confusion matrix: ") + image.message);
  bytes.resize(size);
  return {static_cast<std::int64_t>(side), static_cast<std::int64_t>(side), std::move(bytes)};
}

/// Returns a picture of the matrix: a square for each pair of classes, with a row for each true class. A square is the
/// darker, the larger its share of the row. Returns nothing if `rows` is no square matrix of counts.
std::optional<EncodedImage> confusion_image(const nlohmann::ordered_json& rows) {
  const std::size_t num_classes = rows.size();
  if (!rows.is_array() || num_classes == 0) return std::nullopt;
  for (const nlohmann::ordered_json& row : rows)
    if (!row.is_array() || row.size() != num_classes) return std::nullopt;
  const std::size_t cell = std::max<std::size_t>(kSide / num_classes, 1);
  const std::size_t side = cell * num_classes;
  std::vector<png_byte> pixels(side * side * 3);
  for (std::size_t row = 0; row < num_classes; ++row) {
    const auto counts = rows[row].get<std::vector<double>>();
    double sum = 0;
    for (const double count : counts) sum += count;
    png_byte* const first = pixels.data() + row * cell * side * 3;
    for (std::size_t x = 0; x < side; ++x)
      for (std::size_t channel = 0; channel < 3; ++channel) {
        const double share = sum > 0 ? counts[x / cell] / sum : 0;
        first[x * 3 + channel] = static_cast<png_byte>(255 - share * (255 - kDarkest[channel]));
      }
    for (std::size_t y = 1; y < cell; ++y) std::memcpy(first + y * side * 3, first, side * 3);
  }
  return encode_png(side, pixels);
}

std::string host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 && name[0] != '\0' ? name.data() : "localhost";
}

constexpr const char* kEventFile = "events.out.tfevents.";

/// Returns the second in the name of an event file: events.out.tfevents.1795705608.host; 0 for other names.
std::int64_t second_in_name(const std::string& name) {
  return name.starts_with(kEventFile) ? std::atoll(name.c_str() + std::strlen(kEventFile)) : 0;
}

/// Returns a name that sorts after those of the files there, the order in which TensorBoard reads files.
std::string new_event_file(const fs::path& directory) {
  auto second = std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch());
  std::int64_t newest = second.count() - 1;
  if (fs::is_directory(directory))
    for (const fs::directory_entry& entry : fs::directory_iterator(directory))
      newest = std::max(newest, second_in_name(entry.path().filename().string()));
  return std::string(kEventFile) + std::to_string(newest + 1) + "." + host_name();
}

/// Returns a table by class in Markdown; "" if the details have none.
std::string class_table(const ordered_json& details) {
  const ordered_json accuracy = details.value("per_class_accuracy", ordered_json::array());
  const ordered_json f1 = details.value("per_class_f1", ordered_json::array());
  const ordered_json names = details.value("class_names", ordered_json::array());
  if (!accuracy.is_array() || !f1.is_array() || !names.is_array() || accuracy.empty() || accuracy.size() != f1.size())
    return "";
  const auto cell = [](const ordered_json& value) {
    return value.is_number() ? core::format_digits(value.get<double>(), 4) : std::string("none");
  };
  std::string table = "| class | accuracy | F1 |\n|---|---|---|\n";
  for (std::size_t i = 0; i < accuracy.size(); ++i) {
    const std::string name = i < names.size() && names[i].is_string() ? names[i].get<std::string>() : std::to_string(i);
    table += "| " + name + " | " + cell(accuracy[i]) + " | " + cell(f1[i]) + " |\n";
  }
  return table;
}

class TensorBoardEvents final : public RunTracker {
 public:
  explicit TensorBoardEvents(const RunInfo& run) : run_(run), directory_(run.directory / "tensorboard") {}

  bool open(Start start, const ordered_json& state) override {
    const std::string former = state.is_null() ? "" : own_name(state, "file", kEventFile);
    if (start == Start::goes_on) {
      file_.emplace(directory_ / former);
      last_step_ = state.at("last_step");
      return file_->go_on(state.at("bytes"));
    }
    file_.emplace(directory_ / new_event_file(directory_));
    if (!former.empty()) replaced_ = directory_ / former;
    file_->begin();
    file_->append(version_record(run_.start_time));
    if (!former.empty()) file_->append(discard_record({.time = run_.start_time, .step = 0}));
    write_config();
    return true;
  }

  bool add(const MetricRecord& record) override {
    SummaryValues values;
    for (const auto& [name, value] : record.values) values.add_scalar(name, value);
    for (const auto& [name, histogram] : record.histograms) values.add_histogram(name, histogram);
    if (!values.is_empty()) file_->append(summary_record(values, {.time = record.time, .step = record.step}));
    last_step_ = record.step;
    return true;
  }

  ordered_json commit() override {
    file_->commit();
    if (!replaced_.empty()) fs::remove(replaced_);
    replaced_.clear();
    return {{"file", file_->path().filename().string()}, {"bytes", file_->size()}, {"last_step", last_step_}};
  }

  ordered_json finish(const RunResult& result) override {
    SummaryValues values;
    values.add_session_end(
        result.outcome == "failed" ? SummaryValues::SessionStatus::failure : SummaryValues::SessionStatus::success,
        result.time);
    add_evaluation(result.evaluation, values);
    add_sample_predictions(result.predictions, values);
    file_->append(summary_record(values, {.time = result.time, .step = last_step_}));
    return commit();
  }

  std::string place() const override { return directory_.string(); }

 private:
  void write_config() {
    SummaryValues values;
    const fs::path config = run_.directory / "config.yaml";
    if (fs::exists(config)) values.add_text("config", "```yaml\n" + core::read_file(config) + "```\n");
    values.add_session_start(typed_config(run_.config), run_.start_time);
    file_->append(summary_record(values, {.time = run_.start_time, .step = 0}));
  }

  static void add_evaluation(const ordered_json& evaluation, SummaryValues& values) {
    if (!evaluation.is_object()) return;
    const ordered_json details = evaluation.value("details", ordered_json());
    if (!details.is_object()) return;
    if (const std::string table = class_table(details); !table.empty()) values.add_text("eval/per_class", table);
    if (const auto confusion = details.find("confusion"); confusion != details.end())
      if (const std::optional<EncodedImage> image = confusion_image(*confusion))
        values.add_image("eval/confusion", *image);
  }

  RunInfo run_;
  fs::path directory_;
  std::optional<DeliveredFile> file_;
  fs::path replaced_;
  std::int64_t last_step_ = 0;
};

}  // namespace

std::unique_ptr<RunTracker> make_tensorboard(const TrackerTarget& /*target*/, const RunInfo& run) {
  return std::make_unique<TensorBoardEvents>(run);
}

}  // namespace trainctl::tracking
