// Text files as rows and documents: plain text, JSON lines, CSV, TSV. Wrong content is an Error with file and line.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "dataset/text/reading/table_layout.h"
#include "dataset/text/reading/text_file.h"
#include "dataset/text_config.h"

namespace trainctl::dataset {

/// Stands for `header_lines: auto` in a token store's record of its sources. Stores with -1 took the first row of an
/// Orange table's types for a sample.
inline constexpr std::int64_t kHeaderByContent = -2;

/// What is read from each row.
struct RowColumns {
  std::vector<std::string> names;  // members, or columns by name or by number from 1
};

/// Hears of what a user would want to know.
using Tell = std::function<void(const std::string&)>;

struct TextFileOptions {
  TextFormat format = TextFormat::auto_;
  config::AutoOr<std::int64_t> header_lines{};
  Quoting quoting = Quoting::auto_;
  std::int64_t max_line_bytes = 64 << 20;
  EncodingErrors encoding_errors = EncodingErrors::strict;
  Tell tell{};  // hears of what the rows of a csv or tsv file showed
};

/// Returns what the options say of a csv or tsv file.
KnownLayout known_text_layout(TextFormat format, const TextFileOptions& options);

/// The values of the columns asked for, in that order, and where the row begins. The views live until the call returns.
using RowUse = std::function<void(const std::vector<std::string_view>& values, std::int64_t line)>;
/// Calls `use` for each row of a jsonl, csv or tsv file.
void read_rows(const std::filesystem::path& file, const TextFileOptions& options, const RowColumns& columns,
               const RowUse& use);

/// Calls `use` for each line that isn't blank, with its number.
using LineUse = std::function<void(std::string_view text, std::int64_t line)>;
void read_text_lines(const std::filesystem::path& file, const TextFileOptions& options, const LineUse& use);

/// Returns the member of this name, or of an object inside: dots lead to it. Null: there is none.
const nlohmann::json* find_member(const nlohmann::json& object, const std::string& name);

/// An object of a jsonl file, and its line.
using JsonUse = std::function<void(const nlohmann::json& object, std::int64_t line)>;
void read_json_lines(const std::filesystem::path& file, const TextFileOptions& options, const JsonUse& use);

struct Document {
  std::string_view text;
  std::shared_ptr<const TextFile> file;  // keeps `text`; null: it lives until the call returns
};
using DocumentUse = std::function<void(const Document& document)>;
/// Calls `use` for each document of the files, in order. Documents without a visible character are left out. `tell` is
/// that of TextFileOptions.
void read_documents(const TextFiles& files, const DocumentUse& use, const Tell& tell = {});

/// An Error where a line is longer.
void check_line_bytes(std::string_view line, std::int64_t max_line_bytes, const std::string& place);

}  // namespace trainctl::dataset
