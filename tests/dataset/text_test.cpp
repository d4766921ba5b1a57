// Text as batches: how files are read, what packing, masking and bucketing guarantee, and what damage is called.
#include <algorithm>
#include <map>
#include <set>

#include "dataset/dataset.h"
#include "dataset/small_files.h"
#include "dataset/text/text_reader.h"
#include "dataset/text/token_store.h"

using namespace trainctl;
using namespace trainctl::testing;
using Catch::Matchers::Contains;

namespace {

std::vector<std::vector<std::string>> rows_of(const std::string& file, const std::vector<std::string>& names,
                                              TextFileOptions options = {}) {
  std::vector<std::vector<std::string>> rows;
  read_rows(file, options, {names}, [&](const std::vector<std::string_view>& values, std::int64_t) {
    rows.emplace_back(values.begin(), values.end());
  });
  return rows;
}

/// A vocabulary for WordPiece: roles, then words and pieces.
std::string vocabulary() {
  std::string text = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n";
  for (const char* word : {"the", "cat", "dog", "sat", "run", "##ning", "##s", "on", "mat", ".", "a", "good"})
    text += std::string(word) + "\n";
  return text;
}

std::string sentences(int count) {
  const char* words[] = {"the", "cats", "dog", "sat", "running", "on", "mats", "a", "good"};
  Random random(5);
  std::string text;
  for (int i = 0; i < count; ++i) {
    const std::int64_t length = 2 + random.below(14);
    for (std::int64_t w = 0; w < length; ++w) text += std::string(w == 0 ? "" : " ") + words[random.below(9)];
    text += " .\n";
  }
  return text;
}

std::vector<std::int64_t> values_of(const at::Tensor& tensor) {
  const at::Tensor whole = tensor.contiguous();
  return {whole.const_data_ptr<std::int64_t>(), whole.const_data_ptr<std::int64_t>() + whole.numel()};
}

/// Every tensor of a batch that is defined.
std::vector<at::Tensor> tensors_of(const Batch& batch) {
  std::vector<at::Tensor> all;
  for (const at::Tensor& tensor :
       {batch.inputs, batch.targets, batch.token_types, batch.key_mask, batch.documents, batch.target_positions})
    if (tensor.defined()) all.push_back(tensor.clone());
  return all;
}

std::vector<std::vector<at::Tensor>> take(Loader& loader, int batches) {
  std::vector<std::vector<at::Tensor>> all;
  while (static_cast<int>(all.size()) < batches)
    if (std::optional<Batch> batch = loader.next()) all.push_back(tensors_of(*batch));
  return all;
}

bool equal(const std::vector<std::vector<at::Tensor>>& a, const std::vector<std::vector<at::Tensor>>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const auto& x, const auto& y) {
    return std::equal(x.begin(), x.end(), y.begin(), y.end(),
                      [](const at::Tensor& s, const at::Tensor& t) { return s.equal(t); });
  });
}

/// Workers don't matter, and a loader that is sought to the middle goes on as one that went there.
void check_repeatable(const DatasetConfig& config) {
  const auto open = [&](std::int64_t workers) {
    DatasetConfig with = config;
    with.workers = workers;
    LoaderOptions options;
    options.seed = 3;
    return std::move(build(with, options).train);
  };
  const auto reference = open(0);
  const auto expected = take(*reference, 12);
  for (const std::int64_t workers : {1, 3}) CHECK(equal(take(*open(workers), 12), expected));
  const auto first = open(0);
  take(*first, 5);
  const auto resumed = open(3);
  resumed->seek(first->position());
  CHECK(equal(take(*resumed, 7), {expected.begin() + 5, expected.end()}));
}

DatasetConfig text_lm(const TemporaryDirectory& directory, const std::string& text, Documents documents) {
  TextLmConfig lm;
  lm.train.files = {directory.file("text.txt", text)};
  lm.train.document = DocumentUnit::line;
  lm.tokenizer = "bytes";
  lm.length = 16;
  lm.documents = documents;
  lm.cache_dir = (directory.path() / "cache").string();
  DatasetConfig config;
  config.source = lm;
  config.batch_size = 4;
  return config;
}

DatasetConfig text_mlm(const TemporaryDirectory& directory) {
  TextMlmConfig mlm;
  mlm.train.files = {directory.file("text.txt", sentences(400))};
  mlm.train.document = DocumentUnit::line;
  mlm.tokenizer = directory.file("vocab.txt", vocabulary());
  mlm.length = 32;
  mlm.cache_dir = (directory.path() / "cache").string();
  DatasetConfig config;
  config.source = mlm;
  config.batch_size = 4;
  return config;
}

DatasetConfig text_classes(const TemporaryDirectory& directory, const std::string& train) {
  TextClassificationConfig classes;
  classes.train.files = {directory.file("train.tsv", train)};
  classes.tokenizer = directory.file("vocab.txt", vocabulary());
  classes.max_length = 24;
  classes.bucket_batches = 4;
  DatasetConfig config;
  config.source = classes;
  config.batch_size = 5;
  return config;
}

std::string labelled(int count) {
  std::string rows = "label\ttext\n";
  std::string text = sentences(count);
  for (int i = 0; i < count; ++i) {
    const std::size_t end = text.find('\n');
    rows += std::string(i % 3 == 0 ? "pets" : i % 3 == 1 ? "mats" : "verbs") + "\t" + text.substr(0, end + 1);
    text.erase(0, end + 1);
  }
  return rows;
}

}  // namespace

TEST_CASE("csv has quoted cells with commas, quotes and line ends", "[dataset]") {
  const TemporaryDirectory directory;
  const std::string file = directory.file("a.csv", "id,text\r\n1,\"a, \"\"b\"\"\nc\"\r\n\n2,plain\n");
  CHECK(rows_of(file, {"text", "id"}) == std::vector<std::vector<std::string>>{{"a, \"b\"\nc", "1"}, {"plain", "2"}});
  CHECK(rows_of(file, {"2"}, {.header_lines = 1}).size() == 2);
  CHECK_THROWS_WITH(rows_of(directory.file("b.csv", "text\nfine\n\"open\n"), {"text"}),
                    Contains("b.csv:3: a quoted cell"));
}

TEST_CASE("tsv has raw tabs and quotes, and as many header lines as one says", "[dataset]") {
  const TemporaryDirectory directory;
  const std::string file = directory.file("a.tab", "Category\tText\nd\tstring\nclass\t\n\nearn\tsays \"no\"\n");
  CHECK(rows_of(file, {"Category", "Text"}, {.header_lines = 3}) ==
        std::vector<std::vector<std::string>>{{"earn", "says \"no\""}});
  CHECK_THROWS_WITH(rows_of(file, {"Topic"}),
                    Contains("there is no column 'Topic'; the columns are Category and Text"));
  CHECK_THROWS_WITH(rows_of(directory.file("b.tsv", "a\tb\n1\t2\n3\n"), {"b"}),
                    Contains("b.tsv:3: this row has 1 column"));
}

TEST_CASE("json lines say where they are wrong", "[dataset]") {
  const TemporaryDirectory directory;
  CHECK(rows_of(directory.file("a.jsonl", "{\"text\": \"\\u00e4\", \"n\": 3}\n\n{\"text\": \"b\", \"n\": 4}"),
                {"text", "n"}) == std::vector<std::vector<std::string>>{{"ä", "3"}, {"b", "4"}});
  CHECK_THROWS_WITH(rows_of(directory.file("b.jsonl", "{\"text\": \"x\"}\n{\"text\": \n"), {"text"}),
                    Contains("b.jsonl:2: not JSON"));
  CHECK_THROWS_WITH(rows_of(directory.file("c.jsonl", "{\"body\": \"x\"}\n"), {"text"}),
                    Contains("c.jsonl:1: this object has no member 'text'; it has body"));
  CHECK_THROWS_WITH(rows_of(directory.file("d.jsonl", "[1]\n"), {"text"}),
                    Contains("d.jsonl:1: expected an object, got array"));
}

TEST_CASE("text that is not UTF-8 is refused with its place, or replaced", "[dataset]") {
  const TemporaryDirectory directory;
  TextFiles files;
  files.files = {directory.file("a.txt", "fine\nso \xff so\n")};
  CHECK_THROWS_WITH(read_documents(files, [](std::string_view) {}),
                    Contains("a.txt:2: byte 4 of the line, 0xff, is not UTF-8"));
  files.invalid_utf8 = InvalidUtf8::replace;
  std::string seen;
  read_documents(files, [&](std::string_view text) { seen = text; });
  CHECK(seen == "fine\nso \xEF\xBF\xBD so\n");
  // One for each part that could have begun a character: b"\xe2\x82 \xf0\x9f\x98 \xed\xa0\x80
  // \xc0\xaf".decode(errors="replace")
  files.files = {directory.file("b.txt", "\xe2\x82 \xf0\x9f\x98 \xed\xa0\x80 \xc0\xaf")};
  read_documents(files, [&](std::string_view text) { seen = text; });
  const std::string one = "\xEF\xBF\xBD";
  CHECK(seen == one + " " + one + " " + one + one + one + " " + one + one);
  files.files = {directory.file("empty.txt", "")};
  CHECK_THROWS_WITH(read_documents(files, [](std::string_view) {}), Contains("empty.txt is empty"));
}

TEST_CASE("a plain file is one document, or its paragraphs, or its lines", "[dataset]") {
  const TemporaryDirectory directory;
  TextFiles files;
  files.files = {directory.file("a.txt", "one\ntwo\n\n \nthree\n")};
  const auto documents = [&](DocumentUnit unit) {
    files.document = unit;
    std::vector<std::string> all;
    read_documents(files, [&](std::string_view text) { all.emplace_back(text); });
    return all;
  };
  CHECK(documents(DocumentUnit::file) == std::vector<std::string>{"one\ntwo\n\n \nthree\n"});
  CHECK(documents(DocumentUnit::line) == std::vector<std::string>{"one", "two", "three"});
  CHECK(documents(DocumentUnit::paragraph) == std::vector<std::string>{"one\ntwo", "three"});
}

TEST_CASE("tokenised text is kept, found again, and refused when damaged", "[dataset]") {
  const TemporaryDirectory directory;
  TextFiles files;
  files.files = {directory.file("a.txt", "first\nsecond one\n")};
  files.document = DocumentUnit::line;
  const auto tokenizer = byte_tokenizer();
  int made = 0;
  const StoreRequest request{.files = files,
                             .tokenizer = *tokenizer,
                             .cache_dir = directory.path() / "cache",
                             .tell = [&](const std::string&) { ++made; }};
  const auto path = prepare_tokens(request);
  CHECK(prepare_tokens(request) == path);
  CHECK(made == 1);
  const TokenStore store(path);
  CHECK(store.num_documents() == 2);
  CHECK(store.num_tokens() == 5 + 1 + 10 + 1);  // each with its end
  CHECK(store.document_of(5) == 0);
  CHECK(store.document_of(6) == 1);
  std::vector<std::int64_t> ids(3);
  store.copy(6, ids);
  CHECK(ids == std::vector<std::int64_t>{'s', 'e', 'c'});

  directory.file("a.txt", "first\nsecond two\n");
  CHECK(prepare_tokens(request) != path);

  std::filesystem::resize_file(path / "shard_00000.tokens", 7);
  CHECK_THROWS_WITH(TokenStore(path), Contains("shard_00000.tokens has 7 bytes instead of 34"));
  write_file_atomically(path / "index.json", "{\"num_tokens\": 3");
  CHECK_THROWS_WITH(TokenStore(path), Contains("index.json is damaged"));
}

TEST_CASE("a language model's sequences are the text, and targets its next tokens", "[dataset]") {
  const TemporaryDirectory directory;
  const std::string text = sentences(60);
  const DatasetConfig config = text_lm(directory, text, Documents::joined);
  Datasets data = build(config, {});
  std::string lines = text;
  const std::int64_t sequences = (static_cast<std::int64_t>(text.size()) - 1) / 16;
  CHECK(data.train->num_samples() == sequences);
  CHECK(data.train->spec().vocab_size == 257);
  std::multiset<std::string> seen;
  while (std::optional<Batch> batch = data.train->next()) {
    CHECK_FALSE(batch->documents.defined());
    for (std::int64_t row = 0; row < batch->size(); ++row) {
      const auto ids = values_of(batch->inputs[row]);
      const auto targets = values_of(batch->targets[row]);
      CHECK(std::equal(ids.begin() + 1, ids.end(), targets.begin()));
      std::string piece;
      for (const std::int64_t id : ids) piece += id == 256 ? '\n' : static_cast<char>(id);
      seen.insert(piece);
    }
  }
  std::multiset<std::string> expected;
  for (std::int64_t i = 0; i < sequences; ++i) expected.insert(text.substr(static_cast<std::size_t>(i) * 16, 16));
  CHECK(seen == expected);
  check_repeatable(config);
}

TEST_CASE("separate documents are numbered, and nothing asks for the next one's first token", "[dataset]") {
  const TemporaryDirectory directory;
  const DatasetConfig config = text_lm(directory, sentences(60), Documents::separate);
  Datasets data = build(config, {});
  while (std::optional<Batch> batch = data.train->next())
    for (std::int64_t row = 0; row < batch->size(); ++row) {
      const auto ids = values_of(batch->inputs[row]);
      const auto documents = values_of(batch->documents[row]);
      const auto targets = values_of(batch->targets[row]);
      CHECK(documents[0] == 0);
      for (std::size_t t = 0; t < ids.size(); ++t) {
        const bool ends = ids[t] == 256;
        CHECK((targets[t] == -100) == ends);
        if (t + 1 == ids.size()) break;
        CHECK(documents[t + 1] - documents[t] == (ends ? 1 : 0));
        if (!ends) CHECK(targets[t] == ids[t + 1]);
      }
    }
  check_repeatable(config);
}

TEST_CASE("a share of the text is kept for evaluation", "[dataset]") {
  const TemporaryDirectory directory;
  DatasetConfig config = text_lm(directory, sentences(200), Documents::joined);
  TextLmConfig lm = *config.source.get_if<TextLmConfig>();
  lm.eval_fraction = 0.25;
  config.source = lm;
  const Datasets data = build(config, {});
  REQUIRE(data.eval != nullptr);
  const double share = static_cast<double>(data.eval->num_samples()) /
                       static_cast<double>(data.eval->num_samples() + data.train->num_samples());
  CHECK(share == Approx(0.25).margin(0.02));
}

TEST_CASE("masks choose whole words: 15 % of the tokens, of them 80 % masked, 10 % replaced, new ones each epoch",
          "[dataset]") {
  const TemporaryDirectory directory;
  const DatasetConfig config = text_mlm(directory);
  Datasets data = build(config, {});
  std::int64_t tokens = 0, chosen = 0, masked = 0, kept = 0;
  std::set<std::vector<std::int64_t>> first_epoch;
  int repeated = 0;
  for (int epoch = 0; epoch < 8; ++epoch)
    while (std::optional<Batch> batch = data.train->next()) {
      const auto positions = values_of(batch->target_positions);
      chosen += static_cast<std::int64_t>(positions.size());
      const auto ids = values_of(batch->inputs);
      const auto targets = values_of(batch->targets);
      for (const std::int64_t at : positions) {
        masked += ids[static_cast<std::size_t>(at)] == 4 ? 1 : 0;
        kept += ids[static_cast<std::size_t>(at)] == targets[static_cast<std::size_t>(at)] ? 1 : 0;
      }
      for (std::size_t row = 0; row < static_cast<std::size_t>(batch->size()); ++row) {
        tokens += 30;
        const std::vector<std::int64_t> of_row(targets.begin() + static_cast<std::ptrdiff_t>(row) * 32,
                                               targets.begin() + static_cast<std::ptrdiff_t>(row + 1) * 32);
        CHECK(ids[row * 32] == 2);
        CHECK(ids[row * 32 + 31] == 3);
        // "##ning" (10) and "##s" (11) go with the word before them.
        for (std::size_t t = 2; t < 31; ++t)
          if (of_row[t] == 10 || of_row[t] == 11) CHECK(of_row[t - 1] >= 0);
        if (epoch == 0) first_epoch.insert(of_row);
        if (epoch == 1 && first_epoch.contains(of_row)) ++repeated;
      }
    }
  CHECK(static_cast<double>(chosen) / static_cast<double>(tokens) == Approx(0.15).margin(0.01));
  CHECK(static_cast<double>(masked) / static_cast<double>(chosen) == Approx(0.8).margin(0.03));
  CHECK(static_cast<double>(kept) / static_cast<double>(chosen) == Approx(0.1).margin(0.03));
  CHECK(repeated <= 1);
  check_repeatable(config);
}

TEST_CASE("texts are padded to their batch's longest, and batches hold similar lengths", "[dataset]") {
  const TemporaryDirectory directory;
  const DatasetConfig config = text_classes(directory, labelled(203));
  Datasets data = build(config, {});
  CHECK(data.train->spec().class_names == std::vector<std::string>{"mats", "pets", "verbs"});
  for (int epoch = 0; epoch < 2; ++epoch) {
    std::int64_t samples = 0, padding = 0, tokens = 0;
    std::map<std::int64_t, int> labels;
    while (std::optional<Batch> batch = data.train->next()) {
      samples += batch->size();
      tokens += batch->inputs.numel();
      for (const std::int64_t label : values_of(batch->targets)) ++labels[label];
      const at::Tensor pads = batch->inputs.eq(0);
      padding += pads.sum().item<std::int64_t>();
      CHECK(batch->key_mask.defined() == pads.any().item<bool>());
      if (batch->key_mask.defined()) CHECK(batch->key_mask.equal(pads.logical_not()));
      CHECK(pads.all(0).any().item<bool>() == false);  // no column is all padding
    }
    CHECK(samples == 203);
    CHECK(labels == std::map<std::int64_t, int>{{0, 68}, {1, 68}, {2, 67}});
    CHECK(static_cast<double>(padding) < 0.2 * static_cast<double>(tokens));  // a third in any order
  }
  check_repeatable(config);
}

TEST_CASE("labels that are unknown or no numbers are named with their place", "[dataset]") {
  const TemporaryDirectory directory;
  DatasetConfig config = text_classes(directory, labelled(20));
  TextClassificationConfig classes = *config.source.get_if<TextClassificationConfig>();
  classes.eval = classes.train;
  classes.eval->files = {directory.file("eval.tsv", "label\ttext\npets\tthe cat\nfish\tthe mat\n")};
  config.source = classes;
  CHECK_THROWS_WITH(build(config, {}),
                    Contains("eval.tsv:3: the label 'fish' is none of the classes: mats, pets or verbs"));
  classes.eval.reset();
  classes.label_type = LabelType::value;
  config.source = classes;
  CHECK_THROWS_WITH(build(config, {}), Contains("train.tsv:2: the label should be a number, but is 'pets'"));
  classes.train.files = {directory.file("values.tsv", "label\ttext\n1.5\tthe cat\n-2\tthe mat\n")};
  config.source = classes;
  config.shuffle = false;
  const auto data = build(config, {});
  const std::optional<Batch> batch = data.train->next();
  CHECK(batch->targets.scalar_type() == at::kFloat);
  CHECK(batch->targets[0].item<float>() == 1.5F);
}
