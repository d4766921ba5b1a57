// Pairs of texts: how they are read and cut, that batches are what an encoder-decoder wants, and that errors name rows.
#include <algorithm>

#include "core/file.h"
#include "dataset/batch_spec.h"
#include "dataset/description.h"
#include "dataset/first_rows.h"
#include "dataset/seq2seq_prompt.h"
#include "dataset/shown_text.h"
#include "dataset/text_files.h"
#include "support/skip.h"

namespace trainctl::dataset::text_seq2seq_test {

using namespace trainctl;
using namespace trainctl::dataset;
using namespace trainctl::testing;
using Catch::Matchers::Contains;

namespace {

constexpr std::int64_t kEnd = 256;  // of the byte tokenizer

TextSeq2SeqConfig pairs_of(const TemporaryDirectory& directory, const std::string& file) {
  TextSeq2SeqConfig config;
  config.train.files = {file};
  config.tokenizer = "bytes";
  config.length_group_batches = 0;
  config.cache_dir = (directory.path() / "cache").string();
  return config;
}

DatasetConfig dataset_of(const TextSeq2SeqConfig& pairs) {
  DatasetConfig dataset;
  dataset.source = pairs;
  dataset.batch_size = 2;
  dataset.shuffle = false;
  return dataset;
}

std::string json_pair(const std::string& source, const std::string& target) {
  return R"({"source": ")" + source + R"(", "target": ")" + target + "\"}\n";
}

std::vector<std::int64_t> bytes_of(const std::string& text, std::size_t width, std::int64_t padding) {
  std::vector<std::int64_t> ids(text.begin(), text.end());
  ids.push_back(kEnd);
  ids.resize(width, padding);
  return ids;
}

std::vector<std::int64_t> joined(std::vector<std::int64_t> first, const std::vector<std::int64_t>& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

/// The batch outlives its loader.
Batch first_batch(const TextSeq2SeqConfig& pairs) {
  const Datasets data = build(dataset_of(pairs), {});
  Batch batch = data.train->next().value();
  for (at::Tensor* tensor :
       {&batch.inputs, &batch.targets, &batch.key_mask, &batch.target_positions, &batch.decoder_inputs})
    if (tensor->defined()) *tensor = tensor->clone();
  return batch;
}

}  // namespace

TEST_CASE("a batch has sources, the decoder's inputs and their successors, each as wide as its longest", "[dataset]") {
  const TemporaryDirectory directory;
  TextSeq2SeqConfig pairs =
      pairs_of(directory, directory.write("pairs.jsonl", json_pair("abc", "xy") + json_pair("d", "uvw")));
  pairs.prefix = "> ";
  const Batch batch = first_batch(pairs);
  CHECK(values_of(batch.inputs) == joined(bytes_of("> abc", 6, 0), bytes_of("> d", 6, 0)));
  CHECK(values_of(batch.targets) == joined(bytes_of("xy", 4, -100), bytes_of("uvw", 4, -100)));
  CHECK(values_of(batch.decoder_inputs) == std::vector<std::int64_t>{0, 'x', 'y', 0, 0, 'u', 'v', 'w'});
  CHECK(values_of(batch.target_positions) == std::vector<std::int64_t>{0, 1, 2, 4, 5, 6, 7});
  CHECK(values_of(batch.key_mask.to(at::kLong)) == std::vector<std::int64_t>{1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0});
  CHECK(!batch.token_types.defined());
}

TEST_CASE("the decoder begins with the token of the config, or the tokenizer's padding", "[dataset]") {
  const TemporaryDirectory directory;
  TextSeq2SeqConfig pairs = pairs_of(directory, directory.write("pairs.jsonl", json_pair("ab", "xy")));
  pairs.decoder_start_token_id = 7;
  CHECK(values_of(first_batch(pairs).decoder_inputs) == std::vector<std::int64_t>{7, 'x', 'y'});
  CHECK(!first_batch(pairs).key_mask.defined());
  pairs.decoder_start_token_id = 257;
  CHECK_THROWS_WITH(first_batch(pairs),
                    Contains("dataset.decoder_start_token_id is 257, but the tokenizer has 257 tokens"));
  // A WordPiece vocabulary has padding, and [SEP] at the end of a text.
  TextSeq2SeqConfig words = pairs_of(directory, directory.write("words.tsv", "source\ttarget\nthe cat\ta dog\n"));
  words.tokenizer = directory.write("vocab.txt", vocabulary());
  const Batch batch = first_batch(words);
  CHECK(values_of(batch.inputs) == std::vector<std::int64_t>{5, 6, 3});
  CHECK(values_of(batch.decoder_inputs) == std::vector<std::int64_t>{0, 15, 7});
  CHECK(values_of(batch.targets) == std::vector<std::int64_t>{15, 7, 3});
}

TEST_CASE("longer texts are cut before the token that ends them, and that is told each time", "[dataset]") {
  const TemporaryDirectory directory;
  TextSeq2SeqConfig pairs =
      pairs_of(directory, directory.write("pairs.csv", "en,de\nabcdef,uvw\nabc,uvwxyz\nabcd,u\n"));
  pairs.train.source = "en";
  pairs.train.target = "de";
  pairs.max_source_length = 5;
  pairs.max_target_length = 4;
  for (int i = 0; i < 2; ++i) {  // made, then found in the cache
    std::vector<std::string> told;
    LoaderOptions options;
    options.tell = [&](const std::string& text) { told.push_back(text); };
    const Datasets data = build(dataset_of(pairs), options);
    const Batch batch = data.train->next().value();
    CHECK(values_of(batch.inputs) == joined(bytes_of("abcd", 5, 0), bytes_of("abc", 5, 0)));
    CHECK(values_of(batch.targets) == joined(bytes_of("uvw", 4, -100), bytes_of("uvw", 4, -100)));
    const auto heard = [&](const std::string& text) { return std::find(told.begin(), told.end(), text) != told.end(); };
    CHECK(heard("dataset.train: 1 of 3 sources are cut to 5 tokens (dataset.max_source_length)"));
    CHECK(heard("dataset.train: 1 of 3 targets are cut to 4 tokens (dataset.max_target_length)"));
  }
}

TEST_CASE("a tokenizer that truncates on the left cuts the first tokens, in batches and prompts", "[dataset]") {
  const TemporaryDirectory directory;
  TextSeq2SeqConfig pairs =
      pairs_of(directory, directory.write("pairs.tsv", "source\ttarget\nthe cat the\tthe the a dog\nthe\ta\n"));
  pairs.tokenizer = directory.write("vocab.txt", vocabulary());
  directory.write("tokenizer_config.json", R"({"truncation_side": "left"})");
  pairs.max_source_length = 3;
  pairs.max_target_length = 3;
  // transformers: tokenizer(text, max_length=3, truncation=True) without [CLS], whatever the batch's side of padding.
  const Batch batch = first_batch(pairs);
  CHECK(values_of(batch.inputs) == std::vector<std::int64_t>{6, 5, 3, 5, 3, 0});
  CHECK(values_of(batch.decoder_inputs) == std::vector<std::int64_t>{0, 15, 7, 0, 15, 0});
  CHECK(values_of(batch.targets) == std::vector<std::int64_t>{15, 7, 3, 15, 3, -100});
  const auto tokenizer = tokenizer::load_tokenizer(pairs.tokenizer);
  CHECK(seq2seq_prompt(pairs, *tokenizer, "the cat the")->source == std::vector<std::int32_t>{6, 5, 3});
  CHECK(seq2seq_prompt(pairs, *tokenizer, "the")->source == std::vector<std::int32_t>{5, 3});
  const std::optional<ShownConversations> shown = shown_pairs(pairs, {.most_texts = 1});
  REQUIRE(shown);
  std::vector<TokenFate> fates;
  for (const ShownToken& token : shown->texts.at(0).tokens) fates.push_back(token.fate);
  using enum TokenFate;
  CHECK(fates == std::vector{cut, seen, seen, seen, cut, cut, learned, learned, learned});
}

TEST_CASE("a translation object of Hugging Face is read by names with dots", "[dataset]") {
  const TemporaryDirectory directory;
  TextSeq2SeqConfig pairs =
      pairs_of(directory, directory.write("wmt.jsonl", R"({"translation": {"en": "ab", "de": "xy"}})"
                                                       "\n"
                                                       R"({"translation": {"en": "c"}})"
                                                       "\n"));
  pairs.train.source = "translation.en";
  pairs.train.target = "translation.de";
  CHECK_THROWS_WITH(first_batch(pairs),
                    Contains("wmt.jsonl:2: this object has no member 'translation.de'; it has translation"));
  pairs.train.files = {directory.write("one.jsonl", R"({"translation": {"en": "ab", "de": "xy"}})")};
  CHECK(values_of(first_batch(pairs).targets) == std::vector<std::int64_t>{'x', 'y', kEnd});
}

TEST_CASE("rows of pairs that are wrong are named with their place", "[dataset]") {
  const TemporaryDirectory directory;
  const auto error_in = [&](const std::string& name, const std::string& text) {
    return error_of([&] { first_batch(pairs_of(directory, directory.write(name, text))); });
  };
  CHECK_THAT(error_in("a.jsonl", json_pair("a", "b") + json_pair("a", " ")),
             Contains("a.jsonl:2: the target ('target') is empty; expected a text"));
  CHECK_THAT(error_in("b.tsv", "source\ttarget\n\tb\n"),
             Contains("b.tsv:2: the source ('source') is empty; expected a text"));
  CHECK_THAT(error_in("c.csv", "source,targets\na,b\n"), Contains("c.csv") && Contains("'target'"));
  CHECK_THAT(error_in("d.jsonl", R"({"source": "a", "target": ["b"]})"), Contains("d.jsonl:1") && Contains("'target'"));
  CHECK_THAT(error_in("e.jsonl", ""), Contains("e.jsonl"));
  CHECK_THAT(error_in("f.txt", "a b\n"), Contains("f.txt has no columns: it is taken as plain text"));
  TextSeq2SeqConfig wrong = pairs_of(directory, directory.write("g.jsonl", json_pair("", "b")));
  const std::vector<InputProblem> problems = wrong_first_rows(dataset_of(wrong));
  REQUIRE(problems.size() == 1);
  CHECK(problems[0].key == "dataset.train");
  CHECK_THAT(problems[0].message, Contains("g.jsonl:1: the source ('source') is empty"));
}

TEST_CASE("pairs are divided by a hash, sorted by length, and come again as they were", "[dataset]") {
  const TemporaryDirectory directory;
  std::string text;
  for (int i = 0; i < 64; ++i)
    text += json_pair(std::string(static_cast<std::size_t>(1 + i * 7 % 13), 'a') + std::to_string(i),
                      std::string(static_cast<std::size_t>(1 + i * 5 % 11), 'b'));
  TextSeq2SeqConfig pairs = pairs_of(directory, directory.write("pairs.jsonl", text));
  pairs.eval_fraction = 0.25;
  pairs.length_group_batches = 4;
  DatasetConfig config = dataset_of(pairs);
  config.shuffle = true;
  const Datasets data = build(config, {});
  CHECK(data.eval != nullptr);
  CHECK(data.train->num_samples() + data.eval->num_samples() == 64);
  CHECK(data.train->spec().targets == Targets::target_tokens);
  CHECK(data.train->spec().tokens_per_sample() == 512 + 128);
  check_repeatable(config);
}

TEST_CASE("a description keeps the length of targets", "[dataset]") {
  const SampleSpec spec{.input_shape = {20},
                        .input_dtype = at::kLong,
                        .target_length = 12,
                        .vocab_size = 300,
                        .targets = Targets::target_tokens};
  const Datasets data = described_datasets(description_of(spec), "");
  CHECK(data.train->spec().target_length == 12);
  CHECK(data.train->spec().targets == Targets::target_tokens);
}

TEST_CASE("the outline of pairs is what the loader makes", "[dataset]") {
  const TemporaryDirectory directory;
  TextSeq2SeqConfig pairs =
      pairs_of(directory, directory.write("pairs.jsonl", json_pair(std::string(40, 'a'), std::string(30, 'b'))));
  pairs.max_source_length = 21;
  pairs.max_target_length = 9;
  const BatchSpec spec = outline(dataset_of(pairs), {}, {});
  const Batch batch = first_batch(pairs);
  CHECK(batch.inputs.size(1) == spec.spec.input_shape.front());
  CHECK(batch.decoder_inputs.size(1) == spec.spec.target_length);
  CHECK(batch.targets.size(1) == spec.target_count);
  CHECK(spec.input_bytes == (2 + 21 + 2 * 9 + 3) * 8);
}

TEST_CASE("a prompt is a source as in training", "[dataset]") {
  const TemporaryDirectory directory;
  TextSeq2SeqConfig pairs = pairs_of(directory, "pairs.jsonl");
  pairs.prefix = "> ";
  pairs.max_source_length = 5;
  pairs.decoder_start_token_id = 3;
  const auto tokenizer = tokenizer::byte_tokenizer();
  const std::optional<Seq2SeqPrompt> prompt = seq2seq_prompt(pairs, *tokenizer, "abcdef");
  REQUIRE(prompt);
  CHECK(prompt->source == std::vector<std::int32_t>{'>', ' ', 'a', 'b', static_cast<std::int32_t>(kEnd)});
  CHECK(prompt->start == 3);
  CHECK(!seq2seq_prompt(TextLmConfig{}, *tokenizer, "abc"));
}

}  // namespace trainctl::dataset::text_seq2seq_test
