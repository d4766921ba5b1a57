#include <arrow/api.h>
#include <arrow/io/file.h>
#include <arrow/util/config.h>
#include <parquet/arrow/reader.h>
#include <parquet/exception.h>
#include <parquet/properties.h>

#include <charconv>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <memory>
#include <numeric>
#include <optional>
#include <set>

#include "dataset/files/parquet/plugin.h"

namespace trainctl::dataset {
namespace {

constexpr std::int64_t kRowsAtOnce = 1 << 16;

/// An error of the file, with a message for the user.
struct WrongFile {
  std::string what;
};

void check(const arrow::Status& status) {
  if (!status.ok()) throw WrongFile{status.message() + "; is it a Parquet file, and whole?"};
}

template <class T>
T take(arrow::Result<T> result) {
  check(result.status());
  return std::move(result).ValueUnsafe();
}

template <class Array>
double value_of(const arrow::Array& array, std::int64_t row) {
  return static_cast<double>(static_cast<const Array&>(array).Value(row));
}

/// Returns a number of sixteen bits: IEEE 754, binary16.
double half_value(const arrow::Array& array, std::int64_t row) {
  const std::uint16_t bits = static_cast<const arrow::HalfFloatArray&>(array).Value(row);
  const int exponent = bits >> 10 & 0x1F;
  const int fraction = bits & 0x3FF;
  const double sign = bits >> 15 == 0 ? 1 : -1;
  if (exponent == 0x1F) return fraction == 0 ? sign * HUGE_VAL : std::numeric_limits<double>::quiet_NaN();
  return sign * (exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(fraction + 0x400, exponent - 25));
}

/// Returns a decimal number as it is written: "12.50".
std::string decimal_text(const arrow::Array& array, std::int64_t row) {
  if (array.type_id() == arrow::Type::DECIMAL128)
    return static_cast<const arrow::Decimal128Array&>(array).FormatValue(row);
  return static_cast<const arrow::Decimal256Array&>(array).FormatValue(row);
}

double decimal_value(const arrow::Array& array, std::int64_t row) {
  return std::strtod(decimal_text(array, row).c_str(), nullptr);
}

template <class Array>
std::string integer_text(const arrow::Array& array, std::int64_t row) {
  return std::to_string(static_cast<const Array&>(array).Value(row));
}

std::string truth_text(const arrow::Array& array, std::int64_t row) {
  return static_cast<const arrow::BooleanArray&>(array).Value(row) ? "True" : "False";
}

/// Returns the shortest text that reads back as the same number, in Python's form: 1.0, 1e+16.
template <class Number>
std::string number_text(Number value) {
  if (std::isnan(value)) return "";
  const double size = std::abs(static_cast<double>(value));
  const bool is_plain = size == 0 || (size >= 1e-4 && size < 1e16);
  char text[400];
  const auto [end, problem] = std::to_chars(text, text + sizeof text, value,
                                            is_plain ? std::chars_format::fixed : std::chars_format::scientific);
  std::string written(text, problem == std::errc() ? end : text);
  if (is_plain && written.find('.') == std::string::npos) written += ".0";
  return written;
}

template <class Array>
std::string float_text(const arrow::Array& array, std::int64_t row) {
  return number_text(static_cast<const Array&>(array).Value(row));
}

std::string half_text(const arrow::Array& array, std::int64_t row) {
  return number_text(half_value(array, row));
}

/// How the cells of a column are read.
struct CellReader {
  ParquetType type = ParquetType::number;
  double (*value)(const arrow::Array& array, std::int64_t row) = nullptr;      // of numbers and dates
  std::string (*text)(const arrow::Array& array, std::int64_t row) = nullptr;  // of numbers and dates
};

/// Returns the days since 1970-01-01 of a date or timestamp.
double days_of(const arrow::Array& array, std::int64_t row) {
  if (array.type_id() == arrow::Type::DATE32) return value_of<arrow::Date32Array>(array, row);
  constexpr double kMillisecondsOfDay = 86'400e3;
  if (array.type_id() == arrow::Type::DATE64) return value_of<arrow::Date64Array>(array, row) / kMillisecondsOfDay;
  const auto unit = static_cast<const arrow::TimestampType&>(*array.type()).unit();
  const double second = unit == arrow::TimeUnit::SECOND  ? 1
                        : unit == arrow::TimeUnit::MILLI ? 1e3
                        : unit == arrow::TimeUnit::MICRO ? 1e6
                                                         : 1e9;
  return value_of<arrow::TimestampArray>(array, row) / (second * 86'400);
}

/// Returns a date as text: "2024-05-31", "2024-05-31 12:30:00". Equal times of other units have equal texts.
std::string date_text(const arrow::Array& array, std::int64_t row) {
  std::string text = take(array.GetScalar(row))->ToString();
  const bool is_utc = text.ends_with('Z');
  if (is_utc) text.pop_back();
  if (text.find('.') != std::string::npos) text.erase(text.find_last_not_of('0') + 1);
  if (text.ends_with('.')) text.pop_back();
  if (text.ends_with(" 00:00:00")) text.erase(text.size() - 9);
  return is_utc ? text + "Z" : text;
}

double no_value(const arrow::Array&, std::int64_t) {
  return std::numeric_limits<double>::quiet_NaN();
}

std::string no_text(const arrow::Array&, std::int64_t) {
  return "";
}

/// Returns how cells of a type are read; none if they are not.
std::optional<CellReader> reader_of(const arrow::DataType& type) {
  using enum ParquetType;
  switch (static_cast<int>(type.id())) {
    case arrow::Type::NA:
      return CellReader{number, no_value, no_text};
    case arrow::Type::BOOL:
      return CellReader{number, value_of<arrow::BooleanArray>, truth_text};
    case arrow::Type::INT8:
      return CellReader{number, value_of<arrow::Int8Array>, integer_text<arrow::Int8Array>};
    case arrow::Type::INT16:
      return CellReader{number, value_of<arrow::Int16Array>, integer_text<arrow::Int16Array>};
    case arrow::Type::INT32:
      return CellReader{number, value_of<arrow::Int32Array>, integer_text<arrow::Int32Array>};
    case arrow::Type::INT64:
      return CellReader{number, value_of<arrow::Int64Array>, integer_text<arrow::Int64Array>};
    case arrow::Type::UINT8:
      return CellReader{number, value_of<arrow::UInt8Array>, integer_text<arrow::UInt8Array>};
    case arrow::Type::UINT16:
      return CellReader{number, value_of<arrow::UInt16Array>, integer_text<arrow::UInt16Array>};
    case arrow::Type::UINT32:
      return CellReader{number, value_of<arrow::UInt32Array>, integer_text<arrow::UInt32Array>};
    case arrow::Type::UINT64:
      return CellReader{number, value_of<arrow::UInt64Array>, integer_text<arrow::UInt64Array>};
    case arrow::Type::HALF_FLOAT:
      return CellReader{number, half_value, half_text};
    case arrow::Type::FLOAT:
      return CellReader{number, value_of<arrow::FloatArray>, float_text<arrow::FloatArray>};
    case arrow::Type::DOUBLE:
      return CellReader{number, value_of<arrow::DoubleArray>, float_text<arrow::DoubleArray>};
    case arrow::Type::DECIMAL128:
    case arrow::Type::DECIMAL256:
      return CellReader{number, decimal_value, decimal_text};
    case arrow::Type::DATE32:
    case arrow::Type::DATE64:
    case arrow::Type::TIMESTAMP:
      return CellReader{date, days_of, date_text};
    case arrow::Type::STRING:
    case arrow::Type::LARGE_STRING:
#if ARROW_VERSION_MAJOR >= 15
    case arrow::Type::STRING_VIEW:
#endif
      return CellReader{.type = text};
    case arrow::Type::DICTIONARY:
      return reader_of(*static_cast<const arrow::DictionaryType&>(type).value_type());
    default:
      return std::nullopt;
  }
}

std::string_view text_view(const arrow::Array& array, std::int64_t row) {
  switch (static_cast<int>(array.type_id())) {
    case arrow::Type::STRING:
      return static_cast<const arrow::StringArray&>(array).GetView(row);
#if ARROW_VERSION_MAJOR >= 15
    case arrow::Type::STRING_VIEW:
      return static_cast<const arrow::StringViewArray&>(array).GetView(row);
#endif
    default:
      return static_cast<const arrow::LargeStringArray&>(array).GetView(row);
  }
}

/// A cell: a place in an array, or in the dictionary of one.
struct Cell {
  const arrow::Array* array;
  std::int64_t row;
  bool is_null() const { return array->IsNull(row); }
};

Cell cell_of(const arrow::Array& array, std::int64_t row) {
  if (array.type_id() != arrow::Type::DICTIONARY || array.IsNull(row)) return {&array, row};
  const auto& coded = static_cast<const arrow::DictionaryArray&>(array);
  return cell_of(*coded.dictionary(), coded.GetValueIndex(row));
}

CellReader known_reader(const arrow::RecordBatch& batch, int column) {
  const arrow::DataType& type = *batch.column(column)->type();
  if (const std::optional<CellReader> reader = reader_of(type)) return *reader;
  throw WrongFile{"column '" + batch.column_name(column) + "' is of type " + type.ToString() +
                  ", not numbers, texts or dates; list other columns in dataset.features"};
}

/// Throws unless each code of a column is one of its dictionary, which Arrow checks only together with UTF-8.
void check_codes(const arrow::RecordBatch& batch, int column, std::int64_t first_row) {
  const arrow::Array& array = *batch.column(column);
  if (array.type_id() != arrow::Type::DICTIONARY) return;
  const auto& coded = static_cast<const arrow::DictionaryArray&>(array);
  const std::int64_t num_values = coded.dictionary()->length();
  for (std::int64_t row = 0; row < coded.length(); ++row) {
    if (coded.IsNull(row)) continue;
    const std::int64_t code = coded.GetValueIndex(row);
    if (code >= 0 && code < num_values) continue;
    throw WrongFile{"column '" + batch.column_name(column) + "', row " + std::to_string(first_row + row + 1) +
                    ": code " + std::to_string(code) + " of a dictionary of " + std::to_string(num_values) +
                    " values; the file is damaged: get it again, or write it anew"};
  }
}

void use_rows(const arrow::RecordBatch& batch, std::int64_t first_row, const ParquetRequest& request) {
  const auto width = static_cast<std::size_t>(batch.num_columns());
  std::vector<CellReader> readers;
  for (int i = 0; i < batch.num_columns(); ++i) {
    readers.push_back(known_reader(batch, i));
    check_codes(batch, i, first_row);
  }
  std::vector<Cell> cells(width);
  std::vector<double> values(width);
  std::vector<std::string_view> texts(width);
  const std::function<std::string(std::size_t)> text_of = [&](std::size_t column) {
    const auto [array, row] = cells[column];
    if (cells[column].is_null()) return std::string();
    return readers[column].type == ParquetType::text ? std::string(text_view(*array, row))
                                                     : readers[column].text(*array, row);
  };
  for (std::int64_t row = 0; row < batch.num_rows(); ++row) {
    for (std::size_t i = 0; i < width; ++i) {
      cells[i] = cell_of(*batch.column(static_cast<int>(i)), row);
      const bool is_null = cells[i].is_null();
      if (readers[i].type == ParquetType::text)
        texts[i] = is_null ? std::string_view() : text_view(*cells[i].array, cells[i].row);
      else
        values[i] = is_null ? no_value(*cells[i].array, 0) : readers[i].value(*cells[i].array, cells[i].row);
    }
    request.use({.values = values, .texts = texts, .text_of = text_of, .number = first_row + row + 1});
  }
}

/// Returns the type of a column for those who choose. A column that can't be read is one of numbers until it is chosen.
ParquetType type_of(const arrow::DataType& type) {
  const std::optional<CellReader> reader = reader_of(type);
  return reader ? reader->type : ParquetType::number;
}

/// Returns what pandas has written of its table: its columns, its index.
std::string pandas_metadata(const parquet::FileMetaData& file) {
  const std::shared_ptr<const arrow::KeyValueMetadata>& pairs = file.key_value_metadata();
  const int place = pairs == nullptr ? -1 : pairs->FindKey("pandas");
  return place < 0 ? "" : pairs->value(place);
}

/// Opens a file so that reading holds pages and batches of it, never a whole group of rows.
std::unique_ptr<parquet::arrow::FileReader> open(const std::string& path) {
  const auto input = take(arrow::io::ReadableFile::Open(path));
  parquet::ReaderProperties pages = parquet::default_reader_properties();
  pages.enable_buffered_stream();
  parquet::ArrowReaderProperties batches;
  batches.set_batch_size(kRowsAtOnce);
  batches.set_pre_buffer(false);
  parquet::arrow::FileReaderBuilder builder;
  check(builder.Open(input, pages));
  return take(builder.properties(batches)->Build());
}

void read(const ParquetRequest& request) {
  const std::unique_ptr<parquet::arrow::FileReader> reader = open(request.path);
  std::shared_ptr<arrow::Schema> schema;
  check(reader->GetSchema(&schema));
  if (reader->parquet_reader()->metadata()->num_columns() != schema->num_fields())
    throw WrongFile{"it has columns with columns inside, which a table of rows hasn't"};
  std::vector<ParquetColumn> stored_columns;
  for (const auto& field : schema->fields()) stored_columns.push_back({field->name(), type_of(*field->type())});
  const std::vector<int> columns =
      request.choose(stored_columns, pandas_metadata(*reader->parquet_reader()->metadata()));
  // The batches have the columns in the file's order, each once; the ones chosen are in the order asked for.
  const std::set<int> distinct(columns.begin(), columns.end());
  std::vector<int> places;
  for (const int column : columns)
    places.push_back(static_cast<int>(std::distance(distinct.begin(), distinct.find(column))));
  std::vector<int> groups(static_cast<std::size_t>(reader->num_row_groups()));
  std::iota(groups.begin(), groups.end(), 0);
  const std::unique_ptr<arrow::RecordBatchReader> batches =
      take(reader->GetRecordBatchReader(groups, {distinct.begin(), distinct.end()}));
  std::int64_t first_row = 0;
  while (const std::shared_ptr<arrow::RecordBatch> stored = take(batches->Next())) {
    const std::shared_ptr<arrow::RecordBatch> batch = take(stored->SelectColumns(places));
    check(batch->Validate());
    use_rows(*batch, first_row, request);
    first_row += batch->num_rows();
  }
}

}  // namespace
}  // namespace trainctl::dataset

extern "C" __attribute__((visibility("default"))) trainctl::dataset::ReadParquetFunction trainctl_read_parquet;

void trainctl_read_parquet(const trainctl::dataset::ParquetRequest& request, std::string& wrong) {
  try {
    trainctl::dataset::read(request);
  } catch (const trainctl::dataset::WrongFile& file) {
    wrong = file.what;
  } catch (const parquet::ParquetException& exception) {
    wrong = std::string(exception.what()) + "; is it a Parquet file, and whole?";
  }
}
