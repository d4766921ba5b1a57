#include <arrow/api.h>
#include <arrow/io/file.h>
#include <parquet/arrow/reader.h>
#include <parquet/exception.h>

#include <charconv>
#include <cmath>
#include <limits>
#include <memory>
#include <optional>

#include "dataset/files/parquet/plugin.h"

namespace trainctl::dataset {
namespace {

constexpr std::int64_t kRowsAtOnce = 1 << 16;

/// An error of the file, with a message for the user.
struct WrongFile {
  std::string what;
};

void check(const arrow::Status& status) {
  if (!status.ok()) throw WrongFile{status.message()};
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

using ValueOf = double (*)(const arrow::Array& array, std::int64_t row);

ValueOf reader_of(arrow::Type::type type) {
  switch (static_cast<int>(type)) {
    case arrow::Type::BOOL:
      return value_of<arrow::BooleanArray>;
    case arrow::Type::INT8:
      return value_of<arrow::Int8Array>;
    case arrow::Type::INT16:
      return value_of<arrow::Int16Array>;
    case arrow::Type::INT32:
      return value_of<arrow::Int32Array>;
    case arrow::Type::INT64:
      return value_of<arrow::Int64Array>;
    case arrow::Type::UINT8:
      return value_of<arrow::UInt8Array>;
    case arrow::Type::UINT16:
      return value_of<arrow::UInt16Array>;
    case arrow::Type::UINT32:
      return value_of<arrow::UInt32Array>;
    case arrow::Type::UINT64:
      return value_of<arrow::UInt64Array>;
    case arrow::Type::FLOAT:
      return value_of<arrow::FloatArray>;
    case arrow::Type::DOUBLE:
      return value_of<arrow::DoubleArray>;
    default:
      return nullptr;
  }
}

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

ParquetType type_of(const arrow::DataType& type) {
  switch (static_cast<int>(type.id())) {
    case arrow::Type::DATE32:
    case arrow::Type::DATE64:
    case arrow::Type::TIMESTAMP:
      return ParquetType::date;
    case arrow::Type::STRING:
    case arrow::Type::LARGE_STRING:
    case arrow::Type::DICTIONARY:
      return ParquetType::text;
    default:
      return ParquetType::number;
  }
}

std::string number_text(double value) {
  char text[32];
  const auto [end, problem] = std::to_chars(text, text + sizeof text, value);
  return {text, problem == std::errc() ? end : text};
}

/// Returns the view of a text; none if the column holds none.
std::optional<std::string_view> text_view(const arrow::Array& array, std::int64_t row) {
  if (array.IsNull(row)) return "";
  if (array.type_id() == arrow::Type::DICTIONARY) {
    const auto& dictionary = static_cast<const arrow::DictionaryArray&>(array);
    return text_view(*dictionary.dictionary(), dictionary.GetValueIndex(row));
  }
  if (array.type_id() == arrow::Type::STRING) return static_cast<const arrow::StringArray&>(array).GetView(row);
  if (array.type_id() == arrow::Type::LARGE_STRING)
    return static_cast<const arrow::LargeStringArray&>(array).GetView(row);
  return std::nullopt;
}

/// Returns a text, number or truth value as a label.
std::string label_text(const arrow::Array& array, std::int64_t row) {
  if (const std::optional<std::string_view> text = text_view(array, row)) return std::string(*text);
  if (array.type_id() == arrow::Type::DICTIONARY) {
    const auto& dictionary = static_cast<const arrow::DictionaryArray&>(array);
    return label_text(*dictionary.dictionary(), dictionary.GetValueIndex(row));
  }
  if (const ValueOf value = reader_of(array.type_id())) return number_text(value(array, row));
  throw WrongFile{"the label's column is of type " + array.type()->ToString() + ", not text or numbers"};
}

/// Reads the cells of a column, one by one.
struct ColumnReader {
  ParquetType type;
  ValueOf value = nullptr;  // of numbers and dates
};

ColumnReader column_reader(const arrow::RecordBatch& batch, int column) {
  const arrow::DataType& type = *batch.column(column)->type();
  ColumnReader reader{.type = type_of(type)};
  if (reader.type == ParquetType::date) reader.value = days_of;
  if (reader.type == ParquetType::number) reader.value = reader_of(type.id());
  if (reader.type != ParquetType::text && reader.value == nullptr)
    throw WrongFile{"column '" + batch.column_name(column) + "' is of type " + type.ToString() +
                    ", not numbers, texts or dates; list other columns in dataset.features"};
  return reader;
}

void use_rows(const arrow::RecordBatch& batch, std::int64_t first_row, const ParquetRequest& request) {
  const int width = batch.num_columns() - 1;
  std::vector<ColumnReader> readers;
  for (int i = 0; i < width; ++i) readers.push_back(column_reader(batch, i));
  std::vector<float> values(static_cast<std::size_t>(width));
  std::vector<std::string_view> texts(static_cast<std::size_t>(width));
  for (std::int64_t row = 0; row < batch.num_rows(); ++row) {
    for (int i = 0; i < width; ++i) {
      const arrow::Array& column = *batch.column(i);
      const auto at = static_cast<std::size_t>(i);
      if (readers[at].type != ParquetType::text) {
        values[at] = column.IsNull(row) ? std::numeric_limits<float>::quiet_NaN()
                                        : static_cast<float>(readers[at].value(column, row));
        continue;
      }
      const std::optional<std::string_view> text = text_view(column, row);
      if (!text)
        throw WrongFile{"column '" + batch.column_name(i) + "' has categories that are no texts; write them as texts"};
      texts[at] = *text;
    }
    const std::string label = label_text(*batch.column(width), row);
    request.use({.values = values, .texts = texts, .label = label, .number = first_row + row + 1});
  }
}

void read(const ParquetRequest& request) {
  const auto input = take(arrow::io::ReadableFile::Open(request.path));
  const std::unique_ptr<parquet::arrow::FileReader> reader =
      take(parquet::arrow::OpenFile(input, arrow::default_memory_pool()));
  std::shared_ptr<arrow::Schema> schema;
  check(reader->GetSchema(&schema));
  if (reader->parquet_reader()->metadata()->num_columns() != schema->num_fields())
    throw WrongFile{"it has columns with columns inside, which a table of rows hasn't"};
  std::vector<ParquetColumn> stored_columns;
  for (const auto& field : schema->fields()) stored_columns.push_back({field->name(), type_of(*field->type())});
  const std::vector<int> columns = request.choose(stored_columns);
  std::int64_t first_row = 0;
  for (int group = 0; group < reader->num_row_groups(); ++group) {
    std::shared_ptr<arrow::Table> stored;
    check(reader->ReadRowGroup(group, columns, &stored));
    // Arrow gives columns in the file's order; these are in the order asked for.
    std::vector<std::string> names;
    std::vector<std::shared_ptr<arrow::ChunkedArray>> chosen;
    std::vector<std::shared_ptr<arrow::Field>> fields;
    for (const int column : columns) {
      const int place = stored->schema()->GetFieldIndex(schema->field(column)->name());
      if (place < 0) throw WrongFile{"two columns have the name '" + schema->field(column)->name() + "'"};
      chosen.push_back(stored->column(place));
      fields.push_back(stored->schema()->field(place));
    }
    const auto table = arrow::Table::Make(arrow::schema(fields), chosen, stored->num_rows());
    arrow::TableBatchReader batches(*table);
    batches.set_chunksize(kRowsAtOnce);
    for (std::shared_ptr<arrow::RecordBatch> batch = take(batches.Next()); batch; batch = take(batches.Next())) {
      check(batch->Validate());
      use_rows(*batch, first_row, request);
      first_row += batch->num_rows();
    }
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
    wrong = exception.what();
  }
}
