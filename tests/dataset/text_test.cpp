// Text as batches: what packing, masking and bucketing guarantee.
#include <ATen/ops/equal.h>

#include <map>
#include <numeric>
#include <set>

#include "dataset/collate/sample_writer.h"
#include "dataset/image/transform/transform.h"
#include "dataset/sources.h"
#include "dataset/text/class_labels.h"
#include "dataset/text/language_source.h"
#include "dataset/text_files.h"

namespace trainctl::dataset::text_test {

using namespace trainctl;
using namespace trainctl::dataset;
using namespace trainctl::testing;
using Catch::Matchers::Contains;

namespace {

DatasetConfig text_lm(const TemporaryDirectory& directory, const std::string& text, bool document_mask) {
  TextLmConfig lm;
  lm.train.files = {directory.write("text.txt", text)};
  lm.train.document = DocumentUnit::line;
  lm.tokenizer = "bytes";
  lm.seq_len = 16;
  lm.document_mask = document_mask;
  lm.cache_dir = (directory.path() / "cache").string();
  DatasetConfig config;
  config.source = lm;
  config.batch_size = 4;
  return config;
}

DatasetConfig text_mlm(const TemporaryDirectory& directory) {
  TextMlmConfig mlm;
  mlm.train.files = {directory.write("text.txt", sentences(400))};
  mlm.train.document = DocumentUnit::line;
  mlm.tokenizer = directory.write("vocab.txt", vocabulary());
  mlm.seq_len = 32;
  mlm.cache_dir = (directory.path() / "cache").string();
  DatasetConfig config;
  config.source = mlm;
  config.batch_size = 4;
  return config;
}

DatasetConfig text_classes(const TemporaryDirectory& directory, const std::string& train) {
  TextClassificationConfig classes;
  classes.train.files = {directory.write("train.tsv", train)};
  classes.tokenizer = directory.write("vocab.txt", vocabulary());
  classes.max_length = 24;
  classes.length_group_batches = 4;
  classes.cache_dir = (directory.path() / "cache").string();
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

TEST_CASE("a language model's sequences are the text, and targets its next tokens", "[dataset]") {
  const TemporaryDirectory directory;
  const std::string text = sentences(60);
  const DatasetConfig config = text_lm(directory, text, false);
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
  const DatasetConfig config = text_lm(directory, sentences(60), true);
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
  DatasetConfig config = text_lm(directory, sentences(200), false);
  TextLmConfig lm = *config.source.get_if<TextLmConfig>();
  lm.eval_fraction = 0.25;
  config.source = lm;
  const Datasets data = build(config, {});
  REQUIRE(data.eval != nullptr);
  const double share = static_cast<double>(data.eval->num_samples()) /
                       static_cast<double>(data.eval->num_samples() + data.train->num_samples());
  CHECK(share == Approx(0.25).margin(0.02));
}

TEST_CASE("a share of the text has the bytes of its own tokens", "[dataset]") {
  const TemporaryDirectory directory;
  std::string text;
  for (int i = 0; i < 300; ++i) text += "ab\n";  // three tokens, one of which ends the document
  for (int i = 0; i < 10; ++i) text.append(89, 'x').append("\n");
  DatasetConfig config = text_lm(directory, text, false);
  TextLmConfig lm = *config.source.get_if<TextLmConfig>();
  lm.eval_fraction = 0.5;
  config.source = lm;
  const Datasets data = build(config, {});
  for (const Loader* set : {data.train.get(), data.eval.get()})  // nothing is decoded for an unread number
    CHECK(set->spec().bytes_per_token.wait_for(std::chrono::seconds(0)) == std::future_status::deferred);
  CHECK(data.train->spec().bytes_per_token.get() == Approx(2.0 / 3));
  CHECK(data.eval->spec().bytes_per_token.get() == Approx(89.0 / 90));
}

TEST_CASE("a share for tests is between the training text and the evaluation text", "[dataset]") {
  const TemporaryDirectory directory;
  DatasetConfig config = text_lm(directory, sentences(200), false);
  TextLmConfig lm = *config.source.get_if<TextLmConfig>();
  lm.eval_fraction = 0.25;
  config.source = lm;
  const auto first_of = [](const Datasets& data) { return data.eval->next()->inputs.clone(); };
  const at::Tensor evaluated = first_of(build(config, {}));
  lm.test_fraction = 0.25;
  config.source = lm;
  const Datasets data = build(config, {});
  const Datasets tests = build(config, {.evaluated = EvaluatedSet::test});
  CHECK(at::equal(first_of(data), evaluated));  // the test share takes none of the evaluation text
  CHECK_FALSE(at::equal(first_of(tests), evaluated));
  CHECK(std::abs(data.train->num_samples() - 2 * tests.eval->num_samples()) <= 3);
}

TEST_CASE("too little text names the part that lacks it", "[dataset]") {
  const TemporaryDirectory directory;
  DatasetConfig config = text_lm(directory, sentences(20), false);
  TextLmConfig lm = *config.source.get_if<TextLmConfig>();
  lm.eval_fraction = 0.001;
  config.source = lm;
  CHECK(error_of([&] { build(config, {}); }) ==
        "the evaluation text, which is the share dataset.eval_fraction of the training text, has 0 tokens, too few for "
        "one sequence of 16");
  lm.eval_fraction = 0.999;
  config.source = lm;
  CHECK_THROWS_WITH(build(config, {}), Contains("what dataset.eval_fraction leaves of the training text has"));
  lm.eval_fraction = 0;
  lm.eval = lm.train;
  lm.eval->files = {directory.write("eval.txt", "short")};
  config.source = lm;
  CHECK_THROWS_WITH(build(config, {}), Contains("the evaluation text has 6 tokens, too few for one sequence of 16"));
}

TEST_CASE("evaluation asks for the same masked tokens whatever the epoch", "[dataset]") {
  const TemporaryDirectory directory;
  DatasetConfig mlm = text_mlm(directory);
  TextMlmConfig with_eval = *mlm.source.get_if<TextMlmConfig>();
  with_eval.eval_fraction = 0.3;
  mlm.source = with_eval;
  DatasetConfig synthetic;
  synthetic.source = SyntheticTokensConfig{
      .num_samples = 8, .num_eval_samples = 8, .seq_len = 16, .vocab_size = 50, .mask_probability = 0.3};
  synthetic.batch_size = 4;
  for (const DatasetConfig& config : {mlm, synthetic}) {
    const Datasets data = build(config, {});
    const auto per_epoch = static_cast<int>(data.eval->batches_per_epoch());
    const auto first = take(*data.eval, per_epoch);
    CHECK(equal(take(*data.eval, per_epoch), first));
    CHECK_FALSE(equal(take(*data.train, 2), first));
  }
}

namespace {

/// Writes a batch of the source as a loader would, and checks that its tensors lie in the loader's memory: what is
/// page-locked stays so.
void check_memory(const Source& source, Phase phase) {
  const std::unique_ptr<SampleWriter> writer = source.make_writer(phase, 1);
  REQUIRE(writer);
  constexpr std::int64_t kCount = 3;
  std::vector<std::byte> inputs(static_cast<std::size_t>(kCount * writer->input_bytes()));
  std::vector<std::int64_t> targets(static_cast<std::size_t>(kCount * writer->target_count()));
  Scratch scratch = writer->make_scratch();
  for (std::int64_t i = 0; i < kCount; ++i)
    writer->write({.epoch = 0, .index = i}, scratch, inputs.data() + i * writer->input_bytes(),
                  targets.data() + i * writer->target_count());
  int released = 0;
  int tensors = 0;
  {
    const Batch batch = writer->wrap(kCount, inputs.data(), targets.data(), [&](void*) { ++released; });
    const auto in = [](const at::Tensor& tensor, const auto& memory) {
      const auto* begin = static_cast<const std::byte*>(tensor.const_data_ptr());
      const auto* first = reinterpret_cast<const std::byte*>(memory.data());
      return begin >= first && begin + tensor.nbytes() <= first + memory.size() * sizeof memory[0];
    };
    for (const at::Tensor& tensor :
         {batch.inputs, batch.targets, batch.token_types, batch.key_mask, batch.documents, batch.target_positions}) {
      if (!tensor.defined()) continue;
      ++tensors;
      CHECK(tensor.is_contiguous());
      CHECK((in(tensor, inputs) || in(tensor, targets)));
    }
  }
  CHECK(released == tensors);
  CHECK(writer->wrap(0, inputs.data(), targets.data(), [](void*) {}).size() == 0);
}

}  // namespace

TEST_CASE("batches of text lie in the loader's memory", "[dataset]") {
  const TemporaryDirectory directory;
  const auto source_of = [](const DatasetConfig& config) {
    return config.source.visit([](const auto& kind) -> std::unique_ptr<Source> {
      if constexpr (requires { build(kind, LoaderOptions{}); })
        if constexpr (requires { kind.tokenizer; }) return std::move(build(kind, LoaderOptions{}).train);
      return nullptr;
    });
  };
  check_memory(*source_of(text_lm(directory, sentences(60), true)), Phase::training);
  check_memory(*source_of(text_mlm(directory)), Phase::training);
  DatasetConfig classes = text_classes(directory, labelled(20));
  check_memory(*source_of(classes), Phase::training);
  TextClassificationConfig values = *classes.source.get_if<TextClassificationConfig>();
  values.label_type = LabelType::value;
  values.train.files = {directory.write("values.tsv", "label\ttext\n1\tthe cat\n2\ta mat on\n3\tsat\n")};
  classes.source = values;
  check_memory(*source_of(classes), Phase::training);
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

TEST_CASE("a max_length below the number of special tokens is refused", "[dataset]") {
  const TemporaryDirectory directory;
  DatasetConfig config = text_classes(directory, "label\tfirst\ttext\npets\tthe cat\ta dog\nmats\tthe mat\ta mat\n");
  TextClassificationConfig classes = *config.source.get_if<TextClassificationConfig>();
  classes.train.text_pair = "first";
  classes.max_length = 2;
  config.source = classes;
  CHECK_THROWS_WITH(build(config, {}), Contains("dataset.max_length") && Contains("3 special tokens"));
  classes.max_length = 4;
  config.source = classes;
  CHECK(build(config, {}).train->next()->inputs.size(1) == 4);
}

TEST_CASE("a share of labelled texts is kept for evaluation, another one with another seed", "[dataset]") {
  const TemporaryDirectory directory;
  DatasetConfig config = text_classes(directory, labelled(203));
  TextClassificationConfig classes = *config.source.get_if<TextClassificationConfig>();
  classes.eval_fraction = 0.3;
  std::set<std::string> fingerprints;
  for (const std::int64_t seed : {0, 1}) {
    classes.split_seed = seed;
    config.source = classes;
    const Datasets data = build(config, {});
    REQUIRE(data.eval != nullptr);
    CHECK(data.train->num_samples() + data.eval->num_samples() == 203);
    CHECK(data.eval->num_samples() > 20);
    CHECK(data.eval->num_samples() < 100);
    CHECK(data.eval->spec().class_names == data.train->spec().class_names);
    const std::vector<std::int64_t>& counts = data.train->spec().class_counts;
    CHECK(std::accumulate(counts.begin(), counts.end(), std::int64_t{0}) == data.train->num_samples());
    fingerprints.insert(data.fingerprint);
    CHECK(build(config, {}).fingerprint == data.fingerprint);
  }
  CHECK(fingerprints.size() == 2);
}

TEST_CASE("labels that are unknown or no numbers are named with their place", "[dataset]") {
  const TemporaryDirectory directory;
  DatasetConfig config = text_classes(directory, labelled(20));
  TextClassificationConfig classes = *config.source.get_if<TextClassificationConfig>();
  classes.eval = classes.train;
  classes.eval->files = {directory.write("eval.tsv", "label\ttext\npets\tthe cat\nfish\tthe mat\n")};
  config.source = classes;
  CHECK_THROWS_WITH(build(config, {}),
                    Contains("eval.tsv:3: the label 'fish' is none of the classes: mats, pets or verbs"));
  classes.eval->files = {directory.write("typo.tsv", "label\ttext\npts\tthe cat\n")};
  config.source = classes;
  CHECK_THROWS_WITH(build(config, {}), Contains("typo.tsv:2: the label 'pts'") && Contains("did you mean 'pets'?"));
  classes.eval.reset();
  classes.label_type = LabelType::value;
  config.source = classes;
  CHECK_THROWS_WITH(build(config, {}), Contains("train.tsv:2: the label should be a number, but is 'pets'"));
  classes.train.files = {directory.write("truths.tsv", "label\ttext\ntrue\tthe cat\nfalse\tthe mat\n")};
  config.source = classes;
  CHECK_THROWS_WITH(build(config, {}), Contains("truths.tsv:2: the label should be a number, but is 'true'"));
  classes.train.files = {directory.write("values.tsv", "label\ttext\n+1.5\tthe cat\n -2 \tthe mat\n")};
  config.source = classes;
  config.shuffle = false;
  const auto data = build(config, {});
  const std::optional<Batch> batch = data.train->next();
  CHECK(batch->targets.scalar_type() == at::kFloat);
  CHECK(batch->targets[0].item<float>() == 1.5F);
  CHECK(batch->targets[1].item<float>() == -2);
}

TEST_CASE("class names that are numbers are sorted as numbers, with signs", "[dataset][regression]") {
  CHECK(sorted_as_numbers({"+1", "-1"}) == std::vector<std::string>{"-1", "+1"});
  CHECK(sorted_as_numbers({"10", "9", "1e1.5"}) == std::vector<std::string>{"10", "1e1.5", "9"});
}

}  // namespace trainctl::dataset::text_test
