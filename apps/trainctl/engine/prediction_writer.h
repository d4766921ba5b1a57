// Writes the answers to inputs: a JSON line or a CSV row for each, in their order.
#pragma once

#include <cstdio>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

namespace trainctl::engine {

enum class PredictionFormat { jsonl, csv };

class PredictionWriter {
 public:
  /// Writes to standard output if `output` is empty. Throws core::Error if the file can't be created.
  PredictionWriter(PredictionFormat format, const std::string& output);
  PredictionWriter(const PredictionWriter&) = delete;
  PredictionWriter& operator=(const PredictionWriter&) = delete;
  /// Removes a file that was not closed.
  ~PredictionWriter();

  /// Writes {"input", "line", and what the task answers or "error"}. CSV has the columns input, line, label, score,
  /// value and error; the labels of a sample that has several are joined by bars. Throws core::Error for the answers of
  /// other tasks than classification and regression.
  void write(const nlohmann::ordered_json& answer);
  /// Makes what was written visible to the reader. Throws core::Error if it can't be written.
  void flush();
  /// Ends the output. Until then a file that `output` names has its former content, which a failure doesn't change.
  void close();

 private:
  struct CloseFile {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };

  PredictionFormat format_;
  std::string name_;
  std::filesystem::path target_;                // without symbolic links; "" if the output is no regular file
  std::filesystem::path beside_;                // what becomes the target
  std::unique_ptr<std::FILE, CloseFile> file_;  // null: standard output
  std::FILE* stream_;
};

}  // namespace trainctl::engine
