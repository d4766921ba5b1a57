#include <cstdlib>

#include "core/file.h"
#include "dataset/dataset.h"
#include "dataset/files/parquet_file.h"
#include "dataset/text/reading/text_reader.h"
#include "support/skip.h"
#include "support/small_files.h"

namespace trainctl::dataset::parquet_test {

using namespace trainctl;
using namespace trainctl::dataset;
using namespace trainctl::testing;
using Catch::Matchers::Contains;

namespace {

// Python's Parquet files of 1,000 rows: a = i, b = i / 2 or null where i % 10 is 3, c = i % 2 == 0, name, label.
constexpr const char* kScript = R"(
import datetime, sys
try:
  import pyarrow as pa, pyarrow.parquet as pq
except ImportError:
  sys.exit(77)
n = 1000
table = pa.table({
  'a': pa.array(range(n), pa.int32()),
  'b': pa.array([None if i % 10 == 3 else i / 2 for i in range(n)], pa.float64()),
  'name': pa.array(['n%d' % (i % 7) for i in range(n)]),
  'c': pa.array([i % 2 == 0 for i in range(n)]),
  'label': pa.array([['dog', 'cat', 'bird'][i % 3] for i in range(n)]).dictionary_encode(),
  'raw': pa.array([b'x'] * n),
  'day': pa.array([datetime.date(2024, 1, 1 + i % 28) for i in range(n)]),
  'price': pa.array([i * 1.5 for i in range(n)], pa.float32()),
})
def write(name, **columns):
  pq.write_table(pa.table(columns), sys.argv[1] + '/' + name + '.parquet')
days = [datetime.date(2024, 1, 1), datetime.date(2024, 1, 2)]
hours = [datetime.datetime(2024, 1, 1), datetime.datetime(2024, 1, 2, 5, 30)]
write('numbers', x=[1, 2], label=['a', 'b'])
write('reals', x=[1.0, None], label=['a', 'b'])
write('words', x=['1', '2'], label=['a', 'b'])
write('dates', x=days, label=['a', 'b'])
write('truths', x=[True, False], label=['a', 'b'])
write('nulls', x=pa.array([None, None], pa.null()), label=['a', 'b'])
write('bytes', x=['caf@', 'b'], label=['a', 'b'])
write('label_numbers', x=[1, 2], label=[0, 1])
write('label_reals', x=[1, 2], label=[0.0, 1.0])
write('label_words', x=[1, 2], label=['0', '1'])
write('label_truths', x=[1, 2], label=[False, True])
for unit in 'ms', 'us', 'ns':
  write('label_' + unit, x=[1, 2], label=pa.array(hours, pa.timestamp(unit)))
# The codes of 24 labels take a bit each; they become a run of one code that the dictionary of two labels hasn't.
write('codes', x=range(24), label=pa.array(['a', 'b'] * 12).dictionary_encode())
with open(sys.argv[1] + '/codes.parquet', 'r+b') as file:
  whole = file.read()
  stored = whole.find(b'\x01\x07\xaa\xaa\xaa')
  file.seek(stored)
  file.write(b'\x08\x30\xff')
assert stored > 0
# One group of rows, in pages of 4 KiB, and the same with damaged pages at its end.
write_pages = sys.argv[1] + '/pages.parquet'
pq.write_table(pa.table({'x': pa.array(range(200000), pa.int64())}), write_pages, row_group_size=200000, data_page_size=4096, use_dictionary=False)
stored = pq.ParquetFile(write_pages).metadata.row_group(0).column(0)
with open(write_pages, 'rb') as file:
  whole = bytearray(file.read())
end = stored.data_page_offset + stored.total_compressed_size
whole[end - 16384:end] = b'\xff' * 16384
with open(sys.argv[1] + '/damaged_end.parquet', 'wb') as file:
  file.write(whole)
for codec in sys.argv[2:]:
  pq.write_table(table, sys.argv[1] + '/' + codec + '.parquet', compression=codec, row_group_size=300)
# As pandas writes a frame with the index `a` and one of consecutive numbers.
index = b'{"index_columns": ["a", {"kind": "range", "name": null, "start": 0, "stop": 1000, "step": 1}], "columns": []}'
pq.write_table(table.select(['price', 'a', 'label']).replace_schema_metadata({b'pandas': index}), sys.argv[1] + '/indexed.parquet')
)";

bool write_files(const TemporaryDirectory& directory, const std::string& codecs) {
  const std::string python(TRAINCTL_PYTHON);
  if (python.empty()) return false;
  const std::string script = directory.write("write.py", kScript).string();
  const std::string command = "'" + python + "' " + script + " " + directory.path().string() + " " + codecs;
  const int status = std::system(command.c_str());
  return status == 0;
}

bool has_arrow() {
  return std::filesystem::exists(std::filesystem::path(TRAINCTL_BINARY_DIR) / "lib/libtrainctl_parquet.so");
}

DatasetConfig config_of(const std::string& file) {
  DatasetConfig config;
  config.source = TableConfig{.train = {file},
                              .features = {"c", "a", "b"},
                              .missing_values = MissingValues::drop,
                              .feature_scaling = FeatureScaling::none};
  config.batch_size = 1000;
  config.num_workers = 1;
  config.shuffle = false;
  return config;
}

}  // namespace

TEST_CASE("Parquet tables are read, whatever they are compressed by", "[dataset]") {
  const TemporaryDirectory directory;
  if (!has_arrow() || !write_files(directory, "none snappy gzip zstd")) testing::skip("no Arrow, or no pyarrow");
  for (const char* codec : {"none", "snappy", "gzip", "zstd"}) {
    INFO(codec);
    const Datasets data = build(config_of((directory.path() / (std::string(codec) + ".parquet")).string()), {});
    CHECK(data.train->num_samples() == 900);
    CHECK(data.train->spec().class_names == std::vector<std::string>{"bird", "cat", "dog"});
    const std::optional<Batch> batch = data.train->next();
    const auto* values = batch->inputs.const_data_ptr<float>();
    const auto* labels = batch->targets.const_data_ptr<std::int64_t>();
    std::int64_t i = 0;  // in the file
    for (std::int64_t row = 0; row < 900; ++row, ++i) {
      if (i % 10 == 3) ++i;
      REQUIRE(values[3 * row] == (i % 2 == 0 ? 1 : 0));
      REQUIRE(values[3 * row + 1] == static_cast<float>(i));
      REQUIRE(values[3 * row + 2] == static_cast<float>(i) / 2);
      REQUIRE(labels[row] == 2 - i % 3);
    }
  }
}

TEST_CASE("a Parquet file that is cut, damaged or of bytes is refused with its name", "[dataset]") {
  const TemporaryDirectory directory;
  if (!has_arrow() || !write_files(directory, "snappy")) testing::skip("no Arrow, or no pyarrow");
  const std::string whole = core::read_file(directory.path() / "snappy.parquet");
  for (std::size_t size = 0; size < whole.size(); size += 1024) {
    const std::string file = directory.write("cut.parquet", whole.substr(0, size));
    REQUIRE_THAT(error_of([&] { build(config_of(file), {}); }), Contains("cut.parquet"));
  }
  for (std::size_t i = 4; i < whole.size(); i += 97) {
    std::string damaged = whole;
    damaged[i] = static_cast<char>(damaged[i] ^ 0x55);
    const std::string file = directory.write("damaged.parquet", damaged);
    error_of([&] { build(config_of(file), {}); });  // must end
  }
  DatasetConfig lists = config_of((directory.path() / "snappy.parquet").string());
  lists.source = TableConfig{.train = {(directory.path() / "snappy.parquet").string()}, .features = {"raw"}};
  CHECK_THAT(error_of([&] { build(lists, {}); }), Contains("column 'raw' is of type binary, not numbers"));
}

TEST_CASE("a code that the dictionary of a Parquet column hasn't is refused at its row", "[dataset][regression]") {
  const TemporaryDirectory directory;
  if (!has_arrow() || !write_files(directory, "none")) testing::skip("no Arrow, or no pyarrow");
  DatasetConfig config;
  config.source = TableConfig{.train = {(directory / "codes.parquet").string()}, .label = "label"};
  CHECK_THAT(error_of([&] { build(config, {}); }), Contains("codes.parquet: column 'label', row 1: code 255"));
}

TEST_CASE("a group of rows of a Parquet file is read by batches, never whole", "[dataset][regression]") {
  const TemporaryDirectory directory;
  if (!has_arrow() || !write_files(directory, "none")) testing::skip("no Arrow, or no pyarrow");
  struct Enough {};
  std::int64_t num_rows = 0;
  std::int64_t num_wrong = 0;
  const auto read = [&](const char* name, std::int64_t most) {
    const auto first_column = [](const std::vector<ParquetColumn>&) { return std::vector{0}; };
    num_rows = 0;
    read_parquet_file(directory / name, first_column, [&](const ParquetRow& row) {
      num_wrong += row.number == num_rows + 1 && row.values[0] == static_cast<double>(num_rows) ? 0 : 1;
      if (++num_rows == most) throw Enough{};
    });
  };
  read("pages.parquet", 0);
  CHECK(num_rows == 200'000);
  CHECK_THROWS_AS(read("damaged_end.parquet", 0), core::Error);
  CHECK_THROWS_AS(read("damaged_end.parquet", 1000), Enough);  // which needs no later page
  CHECK(num_wrong == 0);
}

TEST_CASE("texts and dates of a Parquet file become categories and days", "[dataset]") {
  const TemporaryDirectory directory;
  if (!has_arrow() || !write_files(directory, "snappy")) testing::skip("no Arrow, or no pyarrow");
  DatasetConfig config = config_of((directory.path() / "snappy.parquet").string());
  config.source = TableConfig{.train = {(directory.path() / "snappy.parquet").string()},
                              .features = {"name", "c", "day"},
                              .categorical_columns = {"c"}};
  const Datasets data = build(config, {});
  const at::Tensor inputs = data.train->next()->inputs;
  REQUIRE(inputs.size(1) == 7 + 2 + 5);
  const auto* values = inputs.const_data_ptr<float>();
  for (std::int64_t row = 0; row < 1000; ++row) {
    for (std::int64_t name = 0; name < 7; ++name) REQUIRE(values[14 * row + name] == (row % 7 == name ? 1 : 0));
    REQUIRE(values[14 * row + 7] == (row % 2 == 0 ? 0 : 1));  // "0", "1"
    REQUIRE(values[14 * row + 8] == (row % 2 == 0 ? 1 : 0));
  }
}

TEST_CASE("the index of a pandas.DataFrame is no column of its Parquet file, unless the config names it",
          "[dataset][regression]") {
  const TemporaryDirectory directory;
  if (!has_arrow() || !write_files(directory, "snappy")) testing::skip("no Arrow, or no pyarrow");
  DatasetConfig config = config_of("");
  std::vector<std::string> told;
  const auto open = [&](std::vector<std::string> features) {
    config.source = TableConfig{.train = {(directory.path() / "indexed.parquet").string()},
                                .features = std::move(features),
                                .feature_scaling = FeatureScaling::none};
    told.clear();
    return build(config, {.tell = [&](const std::string& text) { told.push_back(text); }});
  };
  const at::Tensor inputs = open({}).train->next()->inputs;
  REQUIRE(inputs.sizes() == at::IntArrayRef{1000, 1});
  CHECK(inputs.const_data_ptr<float>()[2] == 3);  // the price
  REQUIRE(told.size() == 1);
  CHECK_THAT(told[0], Contains("column 'a' is left out: it is the index of a pandas.DataFrame"));
  const at::Tensor named = open({"a"}).train->next()->inputs;
  REQUIRE(named.sizes() == at::IntArrayRef{1000, 1});
  CHECK(named.const_data_ptr<float>()[2] == 2);
  CHECK(told.empty());
  CHECK(open({"1"}).train->next()->inputs.const_data_ptr<float>()[2] == 3);
}

TEST_CASE("files that store a column otherwise are refused, or give equal values", "[dataset][regression]") {
  const TemporaryDirectory directory;
  if (!has_arrow() || !write_files(directory, "none")) testing::skip("no Arrow, or no pyarrow");
  const auto config_of_files = [&](const std::vector<std::string>& names) {
    TableConfig table{.missing_values = MissingValues::mean, .feature_scaling = FeatureScaling::none};
    for (const std::string& name : names) table.train.push_back((directory / (name + ".parquet")).string());
    return table;
  };
  const auto class_names = [&](const TableConfig& table) {
    DatasetConfig config;
    config.source = table;
    config.batch_size = 2;
    return build(config, {}).train->spec().class_names;
  };
  const auto refusal = [&](const TableConfig& table) { return error_of([&] { class_names(table); }); };

  CHECK_THAT(refusal(config_of_files({"numbers", "dates"})),
             Contains("dates.parquet:1: column 'x' should be a number, but is stored as a date"));
  CHECK_THAT(refusal(config_of_files({"dates", "numbers"})),
             Contains("numbers.parquet:1: column 'x' should be a date, but is stored as a number"));
  CHECK_THAT(refusal(config_of_files({"truths", "numbers"})), Contains("has truth values and numbers"));
  CHECK_THAT(refusal(config_of_files({"numbers", "truths"})), Contains("has truth values and numbers"));
  for (const char* same : {"reals", "words", "nulls"})
    CHECK(class_names(config_of_files({"numbers", same})) == std::vector<std::string>{"a", "b"});

  TableConfig stated = config_of_files({"numbers"});
  stated.date_columns = {"x"};
  CHECK_THAT(refusal(stated), Contains("column 'x' should be a date, but is stored as a number"));
  TableConfig categories = config_of_files({"numbers", "reals"});
  categories.categorical_columns = {"x"};
  CHECK_THAT(refusal(categories), Contains("reals.parquet:1: column 'x': '1.0' is the same value as '1'"));
  for (const auto& [first, last] : {std::pair("words", "numbers"), std::pair("numbers", "words")}) {
    TableConfig mixed = config_of_files({first, last});
    mixed.categorical_columns = {"x"};
    CHECK_THAT(refusal(mixed), Contains(std::string(last) + ".parquet:1: column 'x' has texts and numbers"));
  }
  TableConfig of_training = config_of_files({"numbers"});
  of_training.categorical_columns = {"x"};
  of_training.eval = {(directory / "reals.parquet").string()};
  CHECK_THAT(refusal(of_training), Contains("'1.0', which is the same value as '1' of the training rows"));

  CHECK_THAT(refusal(config_of_files({"label_numbers", "label_reals", "label_words"})),
             Contains("label_reals.parquet:1: the label '0.0' is the same value as '0'"));
  CHECK_THAT(refusal(config_of_files({"label_numbers", "label_truths"})), Contains("has truth values and numbers"));
  CHECK(class_names(config_of_files({"label_ms", "label_us", "label_ns"})) ==
        std::vector<std::string>{"2024-01-01", "2024-01-02 05:30:00"});
}

TEST_CASE("texts of a Parquet file that aren't UTF-8 are refused at their row, or repaired", "[dataset][regression]") {
  const TemporaryDirectory directory;
  if (!has_arrow() || !write_files(directory, "none")) testing::skip("no Arrow, or no pyarrow");
  std::string bytes = core::read_file(directory / "bytes.parquet");
  for (std::size_t at = bytes.find("caf@"); at != std::string::npos; at = bytes.find("caf@")) bytes[at + 3] = '\xe9';
  const std::string file = directory.write("latin1.parquet", bytes);
  DatasetConfig config;
  config.source = TableConfig{.train = {file}};
  CHECK_THAT(error_of([&] { build(config, {}); }), Contains("latin1.parquet:1: column 'x': byte 4 of the text"));
  config.source = TableConfig{.train = {file}, .features = {"label"}, .label = "x"};
  CHECK_THAT(error_of([&] { build(config, {}); }), Contains("latin1.parquet:1: column 'x': byte 4 of the text"));

  std::vector<std::string> texts;
  const auto use = [&](const std::vector<std::string_view>& values, std::int64_t) { texts.emplace_back(values[0]); };
  CHECK_THAT(error_of([&] { read_rows(file, {}, {{"x"}}, use); }), Contains("latin1.parquet:1: column 'x'"));
  read_rows(file, {.encoding_errors = EncodingErrors::replace}, {{"x"}}, use);
  CHECK(texts == std::vector<std::string>{"caf\xEF\xBF\xBD", "b"});
}

}  // namespace trainctl::dataset::parquet_test
