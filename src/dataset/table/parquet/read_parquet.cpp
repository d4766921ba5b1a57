#include <arrow/api.h>
#include <arrow/io/file.h>
#include <parquet/arrow/reader.h>
#include <parquet/exception.h>

#include <charconv>
#include <cmath>
#include <limits>
#include <memory>

#include "dataset/table/parquet/plugin.h"

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

std::string number_text(double value) {
  char text[32];
  const auto [end, problem] = std::to_chars(text, text + sizeof text, value);
  return {text, problem == std::errc() ? end : text};
}

/// Returns a text, number or truth value as a label.
std::string label_text(const arrow::Array& array, std::int64_t row) {
  if (array.IsNull(row)) return "";
  if (array.type_id() == arrow::Type::DICTIONARY) {
    const auto& dictionary = static_cast<const arrow::DictionaryArray&>(array);
    return label_text(*dictionary.dictionary(), dictionary.GetValueIndex(row));
  }
  if (array.type_id() == arrow::Type::STRING) return static_cast<const arrow::StringArray&>(array).GetString(row);
  if (array.type_id() == arrow::Type::LARGE_STRING)
    return static_cast<const arrow::LargeStringArray&>(array).GetString(row);
  if (const ValueOf value = reader_of(array.type_id())) return number_text(value(array, row));
  throw WrongFile{"the label's column is of type " + array.type()->ToString() + ", not text or numbers"};
}

void use_rows(const arrow::RecordBatch& batch, std::int64_t first_row, const ParquetRequest& request) {
  const int width = batch.num_columns() - 1;
  std::vector<ValueOf> readers;
  for (int i = 0; i < width; ++i) {
    readers.push_back(reader_of(batch.column(i)->type_id()));
    if (readers.back() == nullptr)
      throw WrongFile{
          "column '" + batch.column_name(i) + "' is of type " + batch.column(i)->type()->ToString() +
          ", not numbers; list the columns of numbers in dataset.features, or write a column of 0 and 1 for "
          "each category"};
  }
  std::vector<float> values(static_cast<std::size_t>(width));
  for (std::int64_t row = 0; row < batch.num_rows(); ++row) {
    for (int i = 0; i < width; ++i) {
      const arrow::Array& column = *batch.column(i);
      const auto at = static_cast<std::size_t>(i);
      values[at] =
          column.IsNull(row) ? std::numeric_limits<float>::quiet_NaN() : static_cast<float>(readers[at](column, row));
    }
    request.use(values, label_text(*batch.column(width), row), first_row + row + 1);
  }
}

void read(const ParquetRequest& request) {
  const auto input = take(arrow::io::ReadableFile::Open(request.path));
  const std::unique_ptr<parquet::arrow::FileReader> reader =
      take(parquet::arrow::OpenFile(input, arrow::default_memory_pool()));
  std::shared_ptr<arrow::Schema> schema;
  check(reader->GetSchema(&schema));
  if (reader->parquet_reader()->metadata()->num_columns() != schema->num_fields())
    throw WrongFile{"it has columns with columns inside, which a table of numbers hasn't"};
  const std::vector<int> columns = request.choose(schema->field_names());
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
