#include "profiler/record/trace_file.h"

#include <charconv>
#include <cmath>
#include <fstream>
#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "core/error.h"
#include "core/text.h"

namespace trainctl::profiler {
namespace {

/// The keys of events; those with the lowest key are dropped first.
constexpr int kArrow = 0;
constexpr int kAllocation = 1;
constexpr int kShortest = 2;
constexpr int kKept = 1 << 20;
constexpr double kKeysPerOctave = 4;

/// Returns the value behind `"key": `, up to a comma or the end of the line, without quotes.
std::string_view value_of(std::string_view event, std::string_view key) {
  const std::size_t at = event.find(key);
  if (at == std::string_view::npos) return {};
  std::size_t begin = at + key.size();
  while (begin < event.size() && (event[begin] == ' ' || event[begin] == '"')) ++begin;
  const std::size_t end = event.find_first_of(",\"\n}", begin);
  return event.substr(begin, end == std::string_view::npos ? end : end - begin);
}

double duration_us(std::string_view event) {
  const std::string_view text = value_of(event, "\"dur\":");
  double value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

int key_of(std::string_view event) {
  const std::string_view phase = value_of(event, "\"ph\":");
  if (phase == "s" || phase == "f" || phase == "t") return kArrow;
  if (phase == "i") return event.find("[memory]") == std::string_view::npos ? kKept : kAllocation;
  if (phase != "X") return kKept;
  const std::string_view category = value_of(event, "\"cat\":");
  if (category.ends_with("user_annotation") || category == "Trace") return kKept;
  return kShortest + static_cast<int>(kKeysPerOctave * std::log2(1 + duration_us(event)));
}

double shortest_of_key(int key) {
  return std::exp2((key - kShortest) / kKeysPerOctave) - 1;
}

/// The receivers of a trace's pieces; text between events is passed on unchanged.
struct Visitor {
  std::function<void(std::string_view text)> text;
  std::function<void(std::string_view event)> event;
};

/// A scanner that cuts the file at the elements of "traceEvents".
class Scanner {
 public:
  explicit Scanner(const std::filesystem::path& path) : file_(path, std::ios::binary) {
    if (!file_) throw core::system_error("open", path.string());
  }

  void run(const Visitor& visitor) {
    std::string piece;
    std::string buffer(1 << 20, '\0');
    while (file_.read(buffer.data(), static_cast<std::streamsize>(buffer.size())) || file_.gcount() > 0)
      for (const char c : std::string_view(buffer.data(), static_cast<std::size_t>(file_.gcount())))
        take(c, piece, visitor);
    if (!piece.empty()) visitor.text(piece);
  }

 private:
  void take(char c, std::string& piece, const Visitor& visitor) {
    if (in_string_) {
      piece += c;
      if (escaped_)
        escaped_ = false;
      else if (c == '\\')
        escaped_ = true;
      else if (c == '"')
        in_string_ = false;
      return;
    }
    const bool opens = c == '{' || c == '[';
    const bool closes = c == '}' || c == ']';
    if (opens && depth_ == 1 && c == '[') is_events_ = piece.find("\"traceEvents\"") != std::string::npos;
    if (opens && is_events_ && depth_ == 2) {  // an event begins
      visitor.text(piece);
      piece.clear();
    }
    piece += c;
    if (c == '"') in_string_ = true;
    if (opens) ++depth_;
    if (closes) --depth_;
    if (closes && is_events_ && depth_ == 2) {
      visitor.event(piece);
      piece.clear();
    }
    if (closes && depth_ == 1) is_events_ = false;
  }

  std::ifstream file_;
  int depth_ = 0;
  bool in_string_ = false;
  bool escaped_ = false;
  bool is_events_ = false;
};

/// Returns the key below which events are dropped.
int threshold(const std::map<int, std::int64_t>& bytes_by_key, std::int64_t most_bytes) {
  std::int64_t kept = 0;
  int key = kKept;
  for (auto entry = bytes_by_key.rbegin(); entry != bytes_by_key.rend(); ++entry) {
    kept += entry->second;
    if (kept > most_bytes && entry->first < kKept) break;
    key = entry->first;
  }
  return key;
}

std::string describe(const TraceFile& trace, int least) {
  std::string text = core::format_count(trace.dropped_events) + " events: arrows";
  if (least > kAllocation) text += ", allocations";
  if (least > kShortest)
    text += ", operators and kernels under " + core::format_digits(shortest_of_key(least), 3) + " µs";
  return text;
}

void rewrite(const std::filesystem::path& path, int least, TraceFile& trace) {
  const std::filesystem::path beside = path.string() + ".shorter";
  std::ofstream out(beside, std::ios::binary);
  bool has_event = false;
  Scanner(path).run({.text =
                         [&](std::string_view text) {
                           // Commas stand before events that stay.
                           if (trace.events + trace.dropped_events > 0 &&
                               text.find_first_not_of(", \n\r\t") == text.npos)
                             return;
                           out << text;
                         },
                     .event =
                         [&](std::string_view event) {
                           if (key_of(event) < least) {
                             ++trace.dropped_events;
                             return;
                           }
                           ++trace.events;
                           if (has_event) out << ",\n";
                           out << event;
                           has_event = true;
                         }});
  out.close();
  if (!out) throw core::system_error("write", beside.string());
  std::filesystem::rename(beside, path);
}

}  // namespace

TraceFile bound_trace(const std::filesystem::path& path, std::int64_t most_bytes) {
  TraceFile trace;
  trace.path = path.string();
  trace.bytes = static_cast<std::int64_t>(std::filesystem::file_size(path));
  std::map<int, std::int64_t> bytes_by_key;
  std::int64_t other_bytes = 0;
  std::int64_t events = 0;
  Scanner(path).run({.text = [&](std::string_view text) { other_bytes += static_cast<std::int64_t>(text.size()); },
                     .event =
                         [&](std::string_view event) {
                           bytes_by_key[key_of(event)] += static_cast<std::int64_t>(event.size());
                           ++events;
                         }});
  if (trace.bytes <= most_bytes) {
    trace.events = events;
    return trace;
  }
  const int least = threshold(bytes_by_key, most_bytes - other_bytes);
  rewrite(path, least, trace);
  trace.bytes = static_cast<std::int64_t>(std::filesystem::file_size(path));
  trace.dropped = describe(trace, least);
  return trace;
}

}  // namespace trainctl::profiler
