#include "dataset/text/reading/table_records.h"

#include <algorithm>

#include "core/error.h"
#include "dataset/text/reading/text_reader.h"

namespace trainctl::dataset {
namespace {

constexpr std::string_view kBlanks = " \t";

/// Takes a line end off the front: LF, CR LF, or the CR of old Macs.
void take_line_end(std::string_view& rest) {
  if (rest.starts_with('\r')) rest.remove_prefix(1);
  if (rest.starts_with('\n')) rest.remove_prefix(1);
}

}  // namespace

bool TableRecords::next() {
  while (!rest_.empty()) {
    line_ += lines_taken_;
    lines_taken_ = 0;
    cells_.clear();
    quoted_.clear();
    if (format_.quotes == Quoting::none)
      split_line();
    else
      split_quoted();
    if (cells_.size() != 1 || cells_[0].find_first_not_of(kBlanks) != std::string::npos) return true;
  }
  return false;
}

void TableRecords::begin_cell() {
  cells_.emplace_back();
  quoted_.push_back(false);
  if (format_.separator == kWhitespace) rest_.remove_prefix(std::min(rest_.find_first_not_of(kBlanks), rest_.size()));
}

bool TableRecords::take_separator() {
  if (format_.separator == kWhitespace) {
    rest_.remove_prefix(std::min(rest_.find_first_not_of(kBlanks), rest_.size()));
    if (!rest_.empty() && rest_.front() != '\r' && rest_.front() != '\n') return true;
  } else if (rest_.starts_with(format_.separator)) {
    rest_.remove_prefix(1);
    return true;
  }
  take_line_end(rest_);
  return false;
}

void TableRecords::split_line() {
  const std::size_t end = std::min(rest_.find_first_of("\r\n"), rest_.size());
  check_line_bytes(rest_.substr(0, end), format_.max_line_bytes, place_of(file_, line_));
  ++lines_taken_;
  const char ends[] = {format_.separator, '\r', '\n', '\t'};
  const std::string_view cell_ends(ends, format_.separator == kWhitespace ? 4 : 3);
  do {
    begin_cell();
    const std::size_t length = std::min(rest_.find_first_of(cell_ends), rest_.size());
    cells_.back() = rest_.substr(0, length);
    rest_.remove_prefix(length);
  } while (take_separator());
}

/// Splits a record with quotes. By RFC 4180 a quoted cell may hold separators, line ends, and quotes written twice.
void TableRecords::split_quoted() {
  const std::string_view record = rest_;
  const char ends[] = {format_.separator, '\r', '\n', '\t'};
  const std::string_view cell_ends(ends, format_.separator == kWhitespace ? 4 : 3);
  do {
    begin_cell();
    if (rest_.starts_with('"')) take_quoted_cell();
    const std::size_t length = std::min(rest_.find_first_of(cell_ends), rest_.size());
    cells_.back() += rest_.substr(0, length);
    rest_.remove_prefix(length);
  } while (take_separator());
  check_line_bytes(record.substr(0, record.size() - rest_.size()), format_.max_line_bytes, place_of(file_, line_));
  ++lines_taken_;
}

void TableRecords::take_quoted_cell() {
  const std::int64_t begin = line_ + lines_taken_;
  quoted_.back() = true;
  rest_.remove_prefix(1);
  while (true) {
    const std::size_t quote = rest_.find('"');
    if (quote == std::string_view::npos)
      throw core::Error(place_of(file_, begin) + ": a quoted cell that begins here never ends")
          .hint(
              "a quote inside a quoted cell is written twice; kinds that read texts have quoting: none, for "
              "files where quotes mean nothing");
    const std::string_view part = rest_.substr(0, quote);
    lines_taken_ += std::count(part.begin(), part.end(), '\n');
    cells_.back() += part;
    rest_.remove_prefix(quote + 1);
    if (!rest_.starts_with('"')) return;
    cells_.back() += '"';
    rest_.remove_prefix(1);
  }
}

}  // namespace trainctl::dataset
