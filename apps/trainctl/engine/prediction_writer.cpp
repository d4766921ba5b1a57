#include "prediction_writer.h"

#include "core/error.h"
#include "core/file.h"
#include "core/text.h"

namespace trainctl::engine {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kColumns[] = {"input", "line", "label", "score", "value", "error"};

std::string line_of(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

/// Returns a cell as RFC 4180 writes it.
std::string cell_of(const Json& answer, const char* column) {
  const auto found = answer.find(column);
  if (found == answer.end()) return "";
  return core::csv_cell(found->is_string() ? found->get<std::string>() : line_of(*found));
}

/// Returns the labels of a sample that has several, with a bar between them.
std::string joined_labels(const Json& labels) {
  std::string text;
  for (const Json& label : labels) text += (text.empty() ? "" : "|") + label.get<std::string>();
  return text;
}

std::string row_of(Json answer) {
  if (const auto labels = answer.find("labels"); labels != answer.end()) answer["label"] = joined_labels(*labels);
  if (!answer.contains("label") && !answer.contains("value") && !answer.contains("error"))
    throw core::Error("--format csv has columns for labels and values, and this task answers with lists")
        .hint("--format jsonl");
  std::string row;
  for (const char* column : kColumns) row += (row.empty() ? "" : ",") + cell_of(answer, column);
  return row;
}

}  // namespace

PredictionWriter::PredictionWriter(PredictionFormat format, const std::string& output)
    : format_(format), name_(output.empty() ? "standard output" : output), stream_(stdout) {
  std::error_code ignored;
  if (!output.empty() && !std::filesystem::is_other(output, ignored)) {
    target_ = std::filesystem::weakly_canonical(output, ignored);
    if (std::filesystem::is_directory(target_, ignored)) throw core::Error("--output " + output + " is a directory");
    beside_ = target_.string() + ".tmp";
    std::filesystem::remove(beside_, ignored);
  }
  if (!output.empty()) {
    file_.reset(target_.empty() ? std::fopen(output.c_str(), "w") : std::fopen(beside_.c_str(), "wx"));
    if (file_ == nullptr) throw core::system_error("write", output);
    stream_ = file_.get();
  }
  if (format_ == PredictionFormat::jsonl) return;
  std::string header;
  for (const char* column : kColumns) header += (header.empty() ? "" : ",") + std::string(column);
  std::fprintf(stream_, "%s\n", header.c_str());
}

PredictionWriter::~PredictionWriter() {
  std::error_code ignored;
  if (file_ != nullptr && !target_.empty()) std::filesystem::remove(beside_, ignored);
}

void PredictionWriter::write(const Json& answer) {
  const std::string line = format_ == PredictionFormat::jsonl ? line_of(answer) : row_of(answer);
  std::fprintf(stream_, "%s\n", line.c_str());
}

void PredictionWriter::flush() {
  if (file_ == nullptr) return core::flush_standard_output();
  if (std::fflush(stream_) != 0 || std::ferror(stream_) != 0) throw core::system_error("write", name_);
}

void PredictionWriter::close() {
  flush();
  if (file_ == nullptr) return;
  if (!target_.empty() && std::rename(beside_.c_str(), target_.c_str()) != 0)
    throw core::system_error("rename into place", name_);
  if (std::fclose(file_.release()) != 0) throw core::system_error("write", name_);
}

}  // namespace trainctl::engine
