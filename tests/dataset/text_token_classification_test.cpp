// Sentences with tags: how they are read, which tokens carry which tag, and that batches are what the task wants.
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "core/file.h"
#include "dataset/text/reading/tagged_reader.h"
#include "dataset/text_files.h"
#include "support/skip.h"

namespace trainctl::dataset::text_token_classification_test {

using namespace trainctl;
using namespace trainctl::dataset;
using namespace trainctl::testing;
using Catch::Matchers::Contains;

namespace {

const std::string kConll =
    "-DOCSTART- -X- -X- O\n\nEU NNP B-NP B-ORG\nrejects VBZ B-VP O\nGerman JJ B-NP B-MISC\ncall NN I-NP O\n\n"
    "Peter NNP B-NP B-PER\nBlackburn NNP I-NP I-PER\n";

std::vector<TaggedSentence> sentences_of(const TaggedText& files) {
  std::vector<TaggedSentence> all;
  read_tagged(files, [&](TaggedSentence sentence) { all.push_back(std::move(sentence)); });
  return all;
}

TaggedText tagged(const std::string& file) {
  TaggedText files;
  files.files = {file};
  return files;
}

DatasetConfig dataset_of(const TemporaryDirectory& directory, const std::string& file) {
  TextTokenClassificationConfig config;
  config.train = tagged(file);
  config.tokenizer = directory.write("vocab.txt", vocabulary());
  config.max_length = 16;
  config.length_group_batches = 0;
  config.cache_dir = (directory.path() / "cache").string();
  DatasetConfig dataset;
  dataset.source = config;
  dataset.batch_size = 2;
  dataset.shuffle = false;
  return dataset;
}

}  // namespace

TEST_CASE("conll has a word a line, empty lines between sentences, and documents' starts", "[dataset]") {
  const TemporaryDirectory directory;
  TaggedText files = tagged(directory.write("train.txt", kConll));
  std::vector<TaggedSentence> all = sentences_of(files);
  REQUIRE(all.size() == 2);
  CHECK(all[0].words == std::vector<std::string>{"EU", "rejects", "German", "call"});
  CHECK(all[0].tags == std::vector<std::string>{"B-ORG", "O", "B-MISC", "O"});
  CHECK(all[1].words == std::vector<std::string>{"Peter", "Blackburn"});
  CHECK(all[1].place(1).ends_with("train.txt:9"));
  files.tag = "2";
  CHECK(sentences_of(files)[1].tags == std::vector<std::string>{"NNP", "NNP"});
}

TEST_CASE("conll columns have names in a header or a global.columns line, and comments where so said", "[dataset]") {
  const TemporaryDirectory directory;
  TaggedText files = tagged(directory.write("a.tsv", "tag\tform\n\nO\tNew York\nB-LOC\t#\n"));
  files.header_lines = 1;
  files.separator = ColumnSeparator::tab;
  files.word = "form";
  files.tag = "tag";
  CHECK(sentences_of(files)[0].words == std::vector<std::string>{"New York", "#"});
  files.tag = "tags";
  CHECK_THROWS_WITH(sentences_of(files), Contains("a.tsv:3: there is no column 'tags'; the columns are tag and form"));

  TaggedText universal =
      tagged(directory.write("b.conllup", "# global.columns = ID FORM UPOS\n# text\n1 the DET\n2 cat NOUN\n"));
  universal.comment = "#";
  universal.word = "FORM";
  universal.tag = "UPOS";
  CHECK(sentences_of(universal)[0].tags == std::vector<std::string>{"DET", "NOUN"});
}

TEST_CASE("wrong lines of tagged text are named", "[dataset]") {
  const TemporaryDirectory directory;
  const auto error_in = [&](const std::string& name, const std::string& text) {
    return error_of([&] { sentences_of(tagged(directory.write(name, text))); });
  };
  TaggedText fourth = tagged(directory.write("a.txt", "EU NNP B-NP B-ORG\ncat NN\n"));
  fourth.tag = "4";
  CHECK_THROWS_WITH(sentences_of(fourth), Contains("a.txt:2: this line has 2 columns, and '4' is number 4"));
  CHECK_THAT(error_in("b.txt", "cat\n"), Contains("b.txt:1: this line has one column"));
  CHECK_THAT(error_in("c.txt", "\n\n-DOCSTART- O\n"), Contains("no sentences in") && Contains("c.txt"));
  CHECK_THAT(error_in("d.txt", std::string("ca\0t O\n", 7)), Contains("d.txt:1: byte 3 of the line is NUL"));
  CHECK_THAT(error_in("e.txt", "ok O\n\xff O\n"), Contains("e.txt:2: byte 1 of the line, 0xff, is not UTF-8"));
  CHECK_THAT(error_in("f.jsonl", "{\"tokens\": [\"a\"], \"tags\": [\"O\", \"O\"]}\n"),
             Contains("f.jsonl:1: 'tokens' has 1 items, 'tags' has 2"));
  CHECK_THAT(error_in("g.jsonl", "{\"tokens\": [\"a\"], \"ner\": [\"O\"]}\n"),
             Contains("g.jsonl:1: this object has no member 'tags'; it has ner and tokens"));
  CHECK_THAT(error_in("h.jsonl", "{\"tokens\": [\"a\", 2], \"tags\": [\"O\", \"O\"]}\n"),
             Contains("item 2 of 'tokens'"));
  CHECK_THAT(error_in("i.jsonl", "{\"tokens\": \"a\", \"tags\": [\"O\"]}\n"),
             Contains("should be a list, but is string"));
  CHECK_THAT(error_in("j.jsonl", "{\"tokens\": [\"a\"], \"tags\": [1.5]}\n"),
             Contains("should be a list of names, or of numbers"));
  TaggedText narrow = tagged(directory.write("k.txt", "a O\n" + std::string(90, 'x') + " O\n"));
  narrow.max_line_bytes = 64;
  CHECK_THROWS_WITH(sentences_of(narrow), Contains("k.txt:2: this line has 92 bytes; at most 64"));
}

TEST_CASE("the first piece of a word has its tag, or all have", "[dataset]") {
  const TemporaryDirectory directory;
  const std::string file = directory.write("train.txt", "the O\ncats B-PET\nrunning I-PET\n\nmats O\n");
  DatasetConfig config = dataset_of(directory, file);
  {
    const Datasets data = build(config, {});
    CHECK(data.train->spec().targets == Targets::token_labels);
    CHECK(data.train->spec().class_names == std::vector<std::string>{"B-PET", "I-PET", "O"});
    const std::optional<Batch> batch = data.train->next();
    // [CLS] the cat ##s run ##ning [SEP], and [CLS] mat ##s [SEP].
    CHECK(values_of(batch->inputs) == std::vector<std::int64_t>{2, 5, 6, 11, 9, 10, 3, 2, 13, 11, 3, 0, 0, 0});
    CHECK(values_of(batch->targets) ==
          std::vector<std::int64_t>{-100, 2, 0, -100, 1, -100, -100, -100, 2, -100, -100, -100, -100, -100});
    CHECK(values_of(batch->target_positions) == std::vector<std::int64_t>{1, 2, 4, 8});
    CHECK(values_of(batch->key_mask.to(at::kLong)) ==
          std::vector<std::int64_t>{1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0});
  }
  TextTokenClassificationConfig all = *config.source.get_if<TextTokenClassificationConfig>();
  all.label_all_tokens = true;
  all.max_length = 5;
  config.source = all;
  const Datasets data = build(config, {});
  const std::optional<Batch> batch = data.train->next();
  CHECK(values_of(batch->targets) == std::vector<std::int64_t>{-100, 2, 0, 1, -100, -100, 2, 2, -100, -100});
}

TEST_CASE("tags that are unknown or uncounted are named with their place", "[dataset]") {
  const TemporaryDirectory directory;
  DatasetConfig config = dataset_of(directory, directory.write("train.txt", "the O\ncat B-PET\n"));
  TextTokenClassificationConfig kind = *config.source.get_if<TextTokenClassificationConfig>();
  kind.eval = tagged(directory.write("eval.txt", "the O\n\na O\ndog B-PETS\n"));
  config.source = kind;
  CHECK_THROWS_WITH(build(config, {}), Contains("eval.txt:4: the label 'B-PETS' is none of the classes: B-PET or O") &&
                                           Contains("did you mean 'B-PET'?"));
  kind.eval.reset();
  kind.train = tagged(directory.write("numbers.jsonl", "{\"tokens\": [\"the\", \"cat\"], \"tags\": [0, 2]}\n"));
  config.source = kind;
  CHECK_THROWS_WITH(build(config, {}), Contains("numbers.jsonl:1: the tags are numbers"));
  kind.class_names = {"O", "B-PET"};
  config.source = kind;
  CHECK_THROWS_WITH(build(config, {}), Contains("numbers.jsonl:1: tag 2 of word 2, but there are 2 labels"));
  kind.class_names = {"O", "B-DOG", "B-PET"};
  config.source = kind;
  const Datasets data = build(config, {});
  CHECK(values_of(data.train->next()->targets) == std::vector<std::int64_t>{-100, 0, 2, -100});
}

TEST_CASE("a max_length of sentences below the number of special tokens is refused", "[dataset]") {
  const TemporaryDirectory directory;
  DatasetConfig config = dataset_of(directory, directory.write("train.txt", "the O\ncat B-PET\n"));
  TextTokenClassificationConfig kind = *config.source.get_if<TextTokenClassificationConfig>();
  kind.max_length = 1;
  config.source = kind;
  CHECK_THROWS_WITH(build(config, {}), Contains("dataset.max_length") && Contains("2 special tokens"));
}

TEST_CASE("batches of tagged text are repeatable", "[dataset]") {
  const TemporaryDirectory directory;
  std::string rows;
  for (const char c : sentences(120)) rows += c == ' ' ? " O\n" : c == '\n' ? " O\n\n" : std::string(1, c);
  DatasetConfig config = dataset_of(directory, directory.write("train.txt", rows));
  TextTokenClassificationConfig kind = *config.source.get_if<TextTokenClassificationConfig>();
  kind.length_group_batches = 4;
  config.source = kind;
  config.shuffle = true;
  check_repeatable(config);
}

TEST_CASE("labels lie where tokenizers' word_ids put them", "[dataset]") {
  const TemporaryDirectory directory;
  const std::string file = directory.write(
      "train.txt",
      "EU ORG\nrejects O\nGermán's B-MISC\nco-operation O\n🙂 O\n\nﬁnancially O\nJapan LOC\n東京 LOC\n... O\n");
  DatasetConfig config = dataset_of(directory, file);
  const std::string vocab =
      directory.write("vocab.txt", vocabulary() + "eu\nrej\n##ects\ngerman\n'\ns\nco\n-\njapan\n東\n京\n");
  const std::string output = (directory.path() / "word_ids.json").string();
  const std::string script = TRAINCTL_SOURCE_DIR "/tests/reference/word_ids.py";
  const int status =
      std::system(("'" TRAINCTL_PYTHON "' '" + script + "' '" + vocab + "' '" + file + "' '" + output + "'").c_str());
  if (status == 77 << 8) testing::skip("no tokenizers to compare with");
  REQUIRE(status == 0);
  TextTokenClassificationConfig kind = *config.source.get_if<TextTokenClassificationConfig>();
  kind.tokenizer = vocab;
  kind.max_length = 64;
  kind.class_names = {"O", "ORG", "B-MISC", "LOC"};
  config.source = kind;
  config.batch_size = 1;
  const Datasets data = build(config, {});
  for (const auto& expected : nlohmann::json::parse(core::read_file(output))) {
    const std::optional<Batch> batch = data.train->next();
    CHECK(values_of(batch->inputs) == expected.at("ids").get<std::vector<std::int64_t>>());
    CHECK(values_of(batch->targets) == expected.at("labels").get<std::vector<std::int64_t>>());
  }
}

}  // namespace trainctl::dataset::text_token_classification_test
