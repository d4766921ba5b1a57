#include "dataset/table/table_encoding.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <numbers>
#include <optional>

#include "core/error.h"
#include "core/text.h"
#include "dataset/standardization.h"
#include "dataset/table/table_data.h"
#include "dataset/text/reading/column_kind.h"

namespace trainctl::dataset {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kMostValuesOfQuantiles = 1'000'000;
constexpr double kShareOfDistinctIds = 0.5;

/// Writes a place on a circle, so that the end of a period is beside its beginning.
void write_circle(double share, float* inputs) {
  inputs[0] = static_cast<float>(std::sin(2 * std::numbers::pi * share));
  inputs[1] = static_cast<float>(std::cos(2 * std::numbers::pi * share));
}

/// Writes the inputs of the date behind the first one: month, weekday, and hour if the column has times.
void write_calendar(double days, bool has_time, float* inputs) {
  const double day = std::floor(days);
  const std::chrono::sys_days date{std::chrono::days{static_cast<int>(day)}};
  const std::chrono::year_month_day calendar{date};
  write_circle((static_cast<unsigned>(calendar.month()) - 1) / 12.0, inputs);
  write_circle(std::chrono::weekday{date}.c_encoding() / 7.0, inputs + 2);
  if (has_time) write_circle(days - day, inputs + 4);
}

/// Returns the values of a column that are not missing.
std::vector<double> present_values(const TableData& data, std::size_t column, const std::vector<std::size_t>& rows) {
  std::vector<double> present;
  present.reserve(rows.size());
  for (const std::size_t row : rows) {
    const double value = data.values[row * data.num_features() + column];
    if (!std::isnan(value)) present.push_back(value);
  }
  return present;
}

void learn_scaling(const std::vector<double>& values, FeatureScaling scaling, ColumnEncoding& column) {
  const Standardization learned = standardization_of(values);
  column.fill = learned.mean;
  if (scaling == FeatureScaling::none && column.kind == ColumnKind::number) {
    double largest = 0;
    for (const double value : values) largest = std::max(largest, std::abs(value));
    if (largest > static_cast<double>(std::numeric_limits<float>::max()))
      throw core::Error("column '" + column.name + "' has numbers up to " + core::format_digits(largest, 3) +
                        ", too large to be inputs as they are")
          .hint("dataset.feature_scaling: standard scales them; dataset.features leaves the column out");
    return;
  }
  column.mean = learned.mean;
  column.scale = 1 / learned.deviation;
}

/// Removes values that are more than a bin's share of all from the sorted values, and returns each once. Quantiles of
/// the rest then tell the other values apart, however rare they are.
std::vector<double> take_frequent_values(std::vector<double>& sorted, std::int64_t num_bins) {
  const auto most = static_cast<std::ptrdiff_t>(sorted.size()) / num_bins;
  std::vector<double> frequent;
  std::vector<double> others;
  for (auto begin = sorted.begin(); begin != sorted.end();) {
    const auto end = std::upper_bound(begin, sorted.end(), *begin);
    if (end - begin > most)
      frequent.push_back(*begin);
    else
      others.insert(others.end(), begin, end);
    begin = end;
  }
  sorted = std::move(others);
  return frequent;
}

/// Returns the edges of bins with about as many values each, beside those of frequent values; empty if all values are
/// alike.
std::vector<double> bin_edges(std::vector<double> values, std::int64_t num_bins) {
  if (values.size() > kMostValuesOfQuantiles) {
    const std::size_t stride = values.size() / kMostValuesOfQuantiles + 1;
    std::size_t kept = 0;
    for (std::size_t i = 0; i < values.size(); i += stride) values[kept++] = values[i];
    values.resize(kept);
  }
  std::sort(values.begin(), values.end());
  std::vector<double> edges = take_frequent_values(values, num_bins);
  const std::int64_t others = std::max<std::int64_t>(1, num_bins - static_cast<std::int64_t>(edges.size()));
  for (std::int64_t bin = 0; bin <= others && !values.empty(); ++bin) {
    const double share = static_cast<double>(bin) / static_cast<double>(others);
    const auto place = std::lround(share * static_cast<double>(values.size() - 1));
    edges.push_back(values[static_cast<std::size_t>(place)]);
  }
  std::sort(edges.begin(), edges.end());
  edges.erase(std::unique(edges.begin(), edges.end()), edges.end());
  return edges.size() > 1 ? edges : std::vector<double>{};
}

/// Takes the most frequent categories, sorted by name. Returns whether the column only tells rows apart.
bool learn_categories(const TableData& data, std::size_t column, const std::vector<std::size_t>& rows,
                      std::int64_t most, ColumnEncoding& encoding) {
  const std::vector<std::string>& names = data.categories[column];
  std::vector<std::int64_t> counts(names.size());
  for (const std::size_t row : rows)
    ++counts[static_cast<std::size_t>(data.values[row * data.num_features() + column])];
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < names.size(); ++i)
    if (counts[i] > 0) order.push_back(i);
  if (order.size() > static_cast<std::size_t>(most) &&
      static_cast<double>(order.size()) > kShareOfDistinctIds * static_cast<double>(rows.size()))
    return true;
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return counts[a] != counts[b] ? counts[a] > counts[b] : names[a] < names[b];
  });
  encoding.has_other = order.size() > static_cast<std::size_t>(most);
  if (encoding.has_other) order.resize(static_cast<std::size_t>(most));
  for (const std::size_t i : order) encoding.categories.push_back(names[i]);
  std::sort(encoding.categories.begin(), encoding.categories.end());
  return false;
}

void encode_bins(double value, const std::vector<double>& edges, float* inputs) {
  const std::size_t num_bins = edges.size() - 1;
  for (std::size_t bin = 0; bin < num_bins; ++bin) {
    double share = (value - edges[bin]) / (edges[bin + 1] - edges[bin]);
    if (bin > 0) share = std::max(share, 0.0);
    if (bin + 1 < num_bins) share = std::min(share, 1.0);
    inputs[bin] = static_cast<float>(share);
  }
}

/// Refuses 1.0 where the training rows have 1: pandas reads both as one value.
void refuse_other_spelling(const ColumnEncoding& column, const std::string& category) {
  std::vector<std::string> names = column.categories;
  names.push_back(category);
  const auto same = spelled_twice(names, '.');
  if (same && same->second + 1 == names.size())
    throw core::Error("column '" + column.name + "' has '" + category + "', which is the same value as '" +
                      names[same->first] + "' of the training rows")
        .hint("write both alike");
}

/// Refuses 'a' where the training rows have ' a'. Only quotes keep the blanks around a text in CSV, Parquet has them
/// all.
void refuse_other_blanks(const ColumnEncoding& column, const std::string& category) {
  const std::string_view trimmed = core::trimmed(category);
  for (const std::string& name : column.categories)
    if (!trimmed.empty() && core::trimmed(name) == trimmed)
      throw core::Error("column '" + column.name + "' has '" + category + "', which is '" + name +
                        "' of the training rows but for blanks")
          .hint("write both alike; a text table keeps blanks around a text only in quotes");
}

/// Returns whether a usual spelling of the category's value is one of the training rows', to spare the others a search.
bool may_be_other_spelling(const std::vector<std::string>& categories, const std::string& category) {
  const std::optional<std::string> value = text_of_value(category);
  return value && (std::binary_search(categories.begin(), categories.end(), *value) ||
                   std::binary_search(categories.begin(), categories.end(), *value + ".0"));
}

}  // namespace

std::int64_t ColumnEncoding::width() const {
  switch (kind) {
    case ColumnKind::number:
      return bin_edges.empty() ? 1 : static_cast<std::int64_t>(bin_edges.size()) - 1;
    case ColumnKind::category:
      return static_cast<std::int64_t>(categories.size()) + (has_other ? 1 : 0);
    case ColumnKind::date:
      return has_time ? 7 : 5;
  }
  throw std::logic_error("unknown kind of column");
}

double ColumnEncoding::code_of(const std::string& category) const {
  const auto found = std::lower_bound(categories.begin(), categories.end(), category);
  if (found != categories.end() && *found == category) return static_cast<double>(found - categories.begin());
  refuse_other_blanks(*this, category);
  if (!has_other || may_be_other_spelling(categories, category)) refuse_other_spelling(*this, category);
  return has_other ? static_cast<double>(categories.size()) : -1.0;
}

void ColumnEncoding::encode(double value, float* inputs) const {
  if (kind == ColumnKind::category) {
    std::fill_n(inputs, width(), 0.0F);
    if (value >= 0) inputs[static_cast<std::size_t>(value)] = 1;
    return;
  }
  const double present = std::isnan(value) ? fill : value;
  if (!bin_edges.empty()) return encode_bins(present, bin_edges, inputs);
  inputs[0] = static_cast<float>((present - mean) * scale);
  if (kind == ColumnKind::date) write_calendar(present, has_time, inputs + 1);
}

std::int64_t TableEncoding::width() const {
  std::int64_t sum = 0;
  for (const ColumnEncoding& column : columns) sum += column.width();
  return sum;
}

bool TableEncoding::has_header(const std::string& label) const {
  return !core::is_number(label) || !std::ranges::all_of(columns, &ColumnEncoding::is_numbered);
}

void TableEncoding::encode(std::span<const double> values, float* inputs) const {
  for (std::size_t i = 0; i < columns.size(); ++i) {
    columns[i].encode(values[i], inputs);
    inputs += columns[i].width();
  }
}

TableEncoding learn_encoding(const TableData& data, const std::vector<std::size_t>& rows, const TableConfig& config,
                             const std::function<void(const std::string&)>& tell) {
  TableEncoding encoding;
  for (std::size_t i = 0; i < data.num_features(); ++i) {
    ColumnEncoding column{.name = data.features[i], .is_numbered = !data.has_header, .kind = data.kinds[i]};
    const std::vector<double> values = present_values(data, i, rows);
    if (values.empty())
      throw core::Error("column '" + column.name + "' of " + data.paths.front() + " has no value in any row")
          .hint("leave it out of dataset.features");
    if (column.kind == ColumnKind::category) {
      if (learn_categories(data, i, rows, config.max_categories, column)) {
        if (tell)
          tell("column '" + column.name + "' is left out: " + core::format_count(data.categories[i].size()) +
               " different values in " + core::format_count(data.num_rows()) +
               " rows tell rows apart, and nothing of new ones");
        continue;
      }
    } else {
      learn_scaling(values, config.feature_scaling, column);
      column.has_decimal_comma = column.kind == ColumnKind::number && data.has_decimal_comma;
    }
    if (column.kind == ColumnKind::date)
      column.has_time = std::any_of(values.begin(), values.end(), [](double v) { return v != std::floor(v); });
    if (column.kind == ColumnKind::number && config.feature_scaling == FeatureScaling::piecewise_linear)
      column.bin_edges = bin_edges(values, config.num_bins);
    encoding.columns.push_back(std::move(column));
  }
  if (encoding.columns.empty())
    throw core::Error(data.paths.front() + " has no column that a network can learn from")
        .hint("list columns of categories that repeat in dataset.features, or set dataset.max_categories higher");
  return encoding;
}

std::string text_of_encoding(const TableEncoding& encoding) {
  Json columns = Json::array();
  for (const ColumnEncoding& column : encoding.columns) {
    Json json = {{"name", column.name}, {"kind", name_of(column.kind)}};
    if (core::is_number(column.name)) json["is_numbered"] = column.is_numbered;
    if (column.kind == ColumnKind::category) {
      json["categories"] = column.categories;
      json["has_other"] = column.has_other;
    } else {
      json["fill"] = column.fill;
      json["mean"] = column.mean;
      json["scale"] = column.scale;
      if (column.has_decimal_comma) json["has_decimal_comma"] = true;
    }
    if (!column.bin_edges.empty()) json["bin_edges"] = column.bin_edges;
    if (column.kind == ColumnKind::date) json["has_time"] = column.has_time;
    columns.push_back(std::move(json));
  }
  return columns.dump(-1, ' ', false, Json::error_handler_t::replace);
}

TableEncoding encoding_of_text(const std::string& text) {
  TableEncoding encoding;
  for (const Json& json : Json::parse(text)) {
    ColumnEncoding column{.name = json.at("name").get<std::string>(),
                          .kind = column_kind_of_name(json.at("kind").get<std::string>())};
    column.is_numbered = json.value("is_numbered", core::is_number(column.name));  // which older checkpoints lack
    column.fill = json.value("fill", 0.0);
    column.mean = json.value("mean", 0.0);
    column.scale = json.value("scale", 1.0);
    column.has_decimal_comma = json.value("has_decimal_comma", false);
    column.bin_edges = json.value("bin_edges", std::vector<double>{});
    column.has_time = json.value("has_time", false);
    column.categories = json.value("categories", std::vector<std::string>{});
    column.has_other = json.value("has_other", false);
    const bool is_sorted = std::is_sorted(column.categories.begin(), column.categories.end()) &&
                           std::is_sorted(column.bin_edges.begin(), column.bin_edges.end(), std::less_equal<>{});
    if (!is_sorted || column.bin_edges.size() == 1)
      throw core::Error("column '" + column.name + "': the categories or bins are not in order");
    encoding.columns.push_back(std::move(column));
  }
  return encoding;
}

}  // namespace trainctl::dataset
