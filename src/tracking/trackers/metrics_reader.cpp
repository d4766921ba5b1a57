#include "tracking/trackers/metrics_reader.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <functional>
#include <iterator>
#include <limits>
#include <optional>
#include <span>
#include <unordered_set>
#include <utility>

#include "core/error.h"
#include "core/json.h"

namespace trainctl::tracking {
namespace {

using nlohmann::ordered_json;

constexpr std::size_t kReadBytes = 256 << 10;
constexpr std::size_t kLongestLine = 64 << 20;

/// Whether the value is a figure; the other keys only place the record.
bool is_figure(const std::string& key, const ordered_json& value) {
  return key != "step" && key != "time" && (value.is_number() || value.is_null());
}

/// Returns the histograms that have all of their parts.
std::vector<std::pair<std::string, Histogram>> histograms_of(const ordered_json& record, const std::string& kind) {
  std::vector<std::pair<std::string, Histogram>> found;
  const ordered_json histograms = record.value("histograms", ordered_json::object());
  if (!histograms.is_object()) return found;
  for (const auto& [name, json] : histograms.items()) {
    const auto of = [&json = json](const char* key) {
      return json.is_object() ? json.value(key, ordered_json()) : ordered_json();
    };
    const ordered_json low = of("low"), high = of("high"), counts = of("counts");
    if (!low.is_number() || !high.is_number() || !counts.is_array()) continue;
    Histogram histogram{.low = low, .high = high, .counts = {}};
    for (const ordered_json& count : counts)
      histogram.counts.push_back(count.is_number_integer() ? count.get<std::int64_t>() : 0);
    if (!histogram.counts.empty()) found.emplace_back(kind + "/" + name, std::move(histogram));
  }
  return found;
}

/// Returns the line as a record; nothing if the line has no event and step.
std::optional<MetricRecord> parse_record(std::string_view line) {
  const ordered_json json = core::parse_json_or_discard<ordered_json>(line);
  if (!json.is_object()) return std::nullopt;
  const auto step = json.find("step");
  const auto event = json.find("event");
  if (step == json.end() || !step->is_number_unsigned() || event == json.end() || !event->is_string())
    return std::nullopt;
  if (step->get<std::uint64_t>() > std::numeric_limits<std::int64_t>::max()) return std::nullopt;
  const auto name = event->get<std::string>();
  MetricRecord record{.kind = name == "step" ? "train" : name, .step = step->get<std::int64_t>()};
  if (const auto time = json.find("time"); time != json.end() && time->is_number()) record.time = time->get<double>();
  for (const auto& [key, value] : json.items())
    if (is_figure(key, value))
      record.values.emplace_back(record.kind + "/" + key, value.is_null() ? NAN : value.get<double>());
  record.histograms = histograms_of(json, record.kind);
  record.key = core::checksum(line);
  return record;
}

/// A record by which others are found to be taken back.
struct MetricPlace {
  std::int64_t step = 0;
  std::size_t kind = 0;  // hash
};

std::size_t hash_of(const std::string& kind) {
  return std::hash<std::string>()(kind);
}

/// Drops what the record takes back: records of later steps, and those of its step and kind. Returns whether there are
/// any.
bool take_back(std::vector<MetricPlace>& kept, const MetricRecord& record) {
  const std::size_t size = kept.size();
  while (!kept.empty() && kept.back().step > record.step) kept.pop_back();
  auto of_step = kept.end();
  while (of_step != kept.begin() && std::prev(of_step)->step == record.step) --of_step;
  const std::size_t kind = hash_of(record.kind);
  kept.erase(std::remove_if(of_step, kept.end(), [&](const MetricPlace& place) { return place.kind == kind; }),
             kept.end());
  return kept.size() < size;
}

}  // namespace

MetricsReader::MetricsReader(std::filesystem::path path, TakenBack taken_back)
    : path_(std::move(path)), taken_back_(taken_back), checksum_(std::make_unique<core::Checksum>()) {}

MetricsReader::~MetricsReader() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

/// Opens the file anew, at its beginning. A run that has no record yet has no file.
void MetricsReader::open() {
  if (descriptor_ >= 0) ::close(descriptor_);
  descriptor_ = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // a pipe would be waited for
  if (descriptor_ < 0 && errno != ENOENT) throw core::system_error("open", path_.string());
  if (struct stat status{}; descriptor_ >= 0 && (::fstat(descriptor_, &status) != 0 || !S_ISREG(status.st_mode)))
    ::close(std::exchange(descriptor_, -1));  // a device may have no end
  buffer_.clear();
  begin_ = 0;
  offset_ = 0;
  checksum_ = std::make_unique<core::Checksum>();
  is_outdated_ = false;
  last_ = {};
}

bool MetricsReader::fill() {
  if (descriptor_ < 0) return false;
  buffer_.erase(0, std::exchange(begin_, 0));
  const std::size_t size = buffer_.size();
  buffer_.resize(size + kReadBytes);
  ssize_t got = 0;
  do {
    got = ::pread(descriptor_, buffer_.data() + size, kReadBytes, static_cast<off_t>(offset_ + std::int64_t(size)));
  } while (got < 0 && errno == EINTR);
  buffer_.resize(size + static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
  if (got < 0) throw core::system_error("read", path_.string());
  return got > 0;
}

std::string_view MetricsReader::next_line() {
  std::size_t searched = 0;
  while (true) {
    const std::size_t end = buffer_.find('\n', begin_ + searched);
    if (end != std::string::npos) return std::string_view(buffer_).substr(begin_, end + 1 - begin_);
    searched = buffer_.size() - begin_;
    if (searched > kLongestLine || !fill()) return {};
  }
}

void MetricsReader::consume(std::string_view line) {
  checksum_->update(std::as_bytes(std::span(line)));
  offset_ += static_cast<std::int64_t>(line.size());
  begin_ += line.size();
}

bool MetricsReader::goes_back(const MetricRecord& record, const Last& last) const {
  return record.step < last.step ||
         (record.step == last.step && std::ranges::find(last.kinds, record.kind) != last.kinds.end());
}

void MetricsReader::note(const MetricRecord& record, Last& last) const {
  if (record.step != last.step) last = {.step = record.step, .kinds = {}};
  last.kinds.push_back(record.kind);
}

/// Reads up to the end once, for the names of values and the records that take back others.
void MetricsReader::scan(std::int64_t until) {
  std::vector<MetricPlace> kept;  // their steps rise
  std::unordered_set<std::string> known;
  names_.clear();
  rollbacks_.clear();
  first_key_.clear();
  first_time_ = 0;
  for (std::string_view line = next_line(); !line.empty() && offset_ < until; line = next_line()) {
    const std::optional<MetricRecord> record = parse_record(line);
    if (record) {
      if (first_key_.empty()) first_key_ = record->key, first_time_ = record->time;
      for (const auto& [name, value] : record->values)
        if (known.insert(name).second) names_.push_back(name);
      if (take_back(kept, *record)) rollbacks_.push_back({offset_, record->step, record->kind});
      kept.push_back({record->step, hash_of(record->kind)});
    }
    consume(line);
  }
}

bool MetricsReader::seek(const ReadPosition& position) {
  open();
  struct stat status {};
  if (descriptor_ >= 0 && ::fstat(descriptor_, &status) == 0) scan(status.st_size);
  open();
  for (std::string_view line; offset_ < position.offset;) {
    line = next_line();
    if (line.empty()) break;
    if (const std::optional<MetricRecord> record = parse_record(line); record && !is_taken_back(*record)) {
      note(*record, last_);
      last_time_ = record->time;
    }
    consume(line);
  }
  if (offset_ == position.offset && (offset_ == 0 || checksum_->digest() == position.checksum)) return true;
  open();
  return false;
}

bool MetricsReader::is_taken_back(const MetricRecord& record) const {
  if (taken_back_ == TakenBack::keep) return false;
  return std::ranges::any_of(rollbacks_, [&](const Rollback& rollback) {
    return rollback.offset > offset_ &&
           (record.step > rollback.step || (record.step == rollback.step && record.kind == rollback.kind));
  });
}

bool MetricsReader::was_replaced() const {
  struct stat status {};
  return !core::names_open_file(path_, descriptor_) || (::fstat(descriptor_, &status) == 0 && status.st_size < offset_);
}

std::vector<MetricRecord> MetricsReader::read(std::size_t max_records) {
  std::vector<MetricRecord> records;
  if (descriptor_ < 0) {
    is_outdated_ = std::filesystem::is_regular_file(path_);
    return records;
  }
  if (was_replaced()) {
    is_outdated_ = true;
    return records;
  }
  while (records.size() < max_records) {
    const std::string_view line = next_line();
    if (line.empty()) break;
    std::optional<MetricRecord> record = parse_record(line);
    if (record && !is_taken_back(*record)) {
      if (taken_back_ == TakenBack::skip && goes_back(*record, last_)) {
        is_outdated_ = true;
        break;
      }
      note(*record, last_);
      last_time_ = record->time;
      records.push_back(std::move(*record));
    }
    consume(line);
  }
  return records;
}

ReadPosition MetricsReader::position() const {
  return {.offset = offset_, .checksum = checksum_->digest()};
}

std::int64_t count_records(const std::filesystem::path& path, const ReadPosition& position) {
  MetricsReader reader(path, TakenBack::keep);
  reader.seek(position);
  std::int64_t count = 0;
  while (true) {
    const auto num_read = static_cast<std::int64_t>(reader.read(1000).size());
    if (num_read == 0) return count;
    count += num_read;
  }
}

}  // namespace trainctl::tracking
