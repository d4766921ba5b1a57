// Text files as rows: plain text, JSON lines, CSV, TSV. Wrong content is an Error with file and line.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dataset/config.h"

namespace trainctl {

/// What is read from each row.
struct RowColumns {
  std::vector<std::string> names;  // members, or columns by name or by number from 1
};

struct TextFileOptions {
  TextFormat format = TextFormat::auto_;
  config::AutoOr<std::int64_t> header_lines;
  InvalidUtf8 invalid_utf8 = InvalidUtf8::refuse;
};

/// The values of the columns asked for, in that order, and where the row begins. The views live until the call returns.
using RowUse = std::function<void(const std::vector<std::string_view>& values, std::int64_t line)>;
/// Calls `use` for each row of a jsonl, csv or tsv file.
void read_rows(const std::filesystem::path& file, const TextFileOptions& options, const RowColumns& columns,
               const RowUse& use);

using DocumentUse = std::function<void(std::string_view text)>;
/// Calls `use` for each document of the files, in order. Documents without a visible character are left out.
void read_documents(const TextFiles& files, const DocumentUse& use);

/// "train.tsv:17"
std::string place_of(const std::filesystem::path& file, std::int64_t line);

/// The text as it is, or with U+FFFD for bytes that aren't UTF-8 (then in `storage`), or an Error at `file`:`line`.
std::string_view checked_utf8(std::string_view text, InvalidUtf8 invalid, const std::filesystem::path& file,
                              std::int64_t first_line, std::string& storage);

}  // namespace trainctl
