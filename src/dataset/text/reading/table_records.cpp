#include "dataset/text/reading/table_records.h"

#include <algorithm>

#include "core/error.h"
#include "dataset/text/reading/text_reader.h"

namespace trainctl::dataset {

bool TableRecords::next() {
  while (!rest_.empty()) {
    line_ += lines_taken_;
    lines_taken_ = 0;
    if (format_.quotes == Quoting::none)
      split_line();
    else
      split_quoted();
    if (cells_.size() != 1 || !cells_[0].empty()) return true;
  }
  return false;
}

void TableRecords::split_line() {
  std::string_view line = take_line(rest_);
  check_line_bytes(line, format_.max_line_bytes, place_of(file_, line_));
  ++lines_taken_;
  cells_.clear();
  while (true) {
    const std::size_t end = line.find(format_.separator);
    cells_.emplace_back(line.substr(0, end));
    if (end == std::string_view::npos) return;
    line.remove_prefix(end + 1);
  }
}

/// Splits a record with quotes. By RFC 4180 a quoted cell may hold separators, line ends, and quotes written twice.
void TableRecords::split_quoted() {
  const std::string_view record = rest_;
  const char ends[] = {format_.separator, '\n'};
  cells_.assign(1, "");
  while (true) {
    if (rest_.starts_with('"')) take_quoted_cell();
    const std::size_t end = std::min(rest_.find_first_of(std::string_view(ends, 2)), rest_.size());
    cells_.back() += rest_.substr(0, end);
    const bool more = end < rest_.size() && rest_[end] == format_.separator;
    if (!more && cells_.back().ends_with('\r')) cells_.back().pop_back();
    rest_.remove_prefix(std::min(end + 1, rest_.size()));
    if (!more) break;
    cells_.emplace_back();
  }
  check_line_bytes(record.substr(0, record.size() - rest_.size()), format_.max_line_bytes, place_of(file_, line_));
  ++lines_taken_;
}

void TableRecords::take_quoted_cell() {
  const std::int64_t begin = line_ + lines_taken_;
  rest_.remove_prefix(1);
  while (true) {
    const std::size_t quote = rest_.find('"');
    if (quote == std::string_view::npos)
      throw core::Error(place_of(file_, begin) + ": a quoted cell that begins here never ends")
          .hint("a quote inside a quoted cell is written twice; where quotes mean nothing, set quoting: none");
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
