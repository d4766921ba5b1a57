// Pairs of conversations, of which the first is preferred.
#include <ATen/ops/equal.h>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <set>

#include "core/error.h"
#include "dataset/chat/conversation.h"
#include "dataset/dataset.h"
#include "dataset/shown_text.h"
#include "dataset/sources.h"
#include "support/small_files.h"

namespace trainctl::dataset::preference_test {
namespace {

using Catch::Contains;
using testing::TemporaryDirectory;
using Json = nlohmann::ordered_json;

constexpr const char* kTemplate =
    "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% if m.role == 'assistant' %}</s>{% endif %}{% endfor %}{% "
    "if "
    "add_generation_prompt %}<assistant>{% endif %}";

std::string pair_of(const Json& prompt, const Json& chosen, const Json& rejected) {
  return Json{{"prompt", prompt}, {"chosen", chosen}, {"rejected", rejected}}.dump() + "\n";
}

PreferenceConfig preference_config(const TemporaryDirectory& directory, const std::string& rows) {
  PreferenceConfig config;
  config.train.files = {directory.write("pairs.jsonl", rows)};
  config.tokenizer = "bytes";
  config.chat_template = directory.write("chat.jinja", kTemplate);
  config.seq_len = 128;
  config.cache_dir = (directory.path() / "cache").string();
  return config;
}

/// The learned text of each conversation of a batch, by row and document.
std::map<std::pair<std::int64_t, std::int64_t>, std::string> answers_of(const Batch& batch) {
  std::map<std::pair<std::int64_t, std::int64_t>, std::string> answers;
  for (std::int64_t row = 0; row < batch.size(); ++row)
    for (std::int64_t t = 0; t < batch.targets.size(1); ++t)
      if (const auto target = batch.targets[row][t].item<std::int64_t>(); target >= 0)
        answers[{row, batch.documents[row][t].item<std::int64_t>()}] += static_cast<char>(target);
  return answers;
}

DatasetConfig dataset_of(const PreferenceConfig& source, std::int64_t batch_size) {
  DatasetConfig config;
  config.source = source;
  config.batch_size = batch_size;
  config.shuffle = false;
  return config;
}

TEST_CASE("pairs are read with a prompt of their own, or from two conversations that begin alike", "[dataset]") {
  const Json user{{"role", "user"}, {"content", "Hi"}};
  const Json good{{"role", "assistant"}, {"content", "Hello!"}};
  const Json bad{{"role", "assistant"}, {"content", "What?"}};
  const Json implicit{{"chosen", {user, good}}, {"rejected", {user, bad}}};
  for (const std::string& line :
       {pair_of("Hi", "Hello!", "What?"), pair_of(Json::array({user}), Json::array({good}), Json::array({bad})),
        implicit.dump()}) {
    const auto [chosen, rejected] = read_preference(line, "pairs.jsonl:1");
    CHECK(chosen.messages == Json{user, good});
    CHECK(rejected.messages == Json{user, bad});
  }
}

TEST_CASE("a prompt that both conversations begin with is read once", "[dataset]") {
  const Json user{{"role", "user"}, {"content", "Hi"}};
  const Json good{{"role", "assistant"}, {"content", "Hello!"}};
  const Json bad{{"content", "What?"}, {"role", "assistant"}};
  // TRL takes the prompt out of the conversations if `prompt` is a text, and so do the files of UltraFeedback.
  Json row{{"prompt", "Hi"},
           {"chosen", {user, good}},
           {"rejected", {user, bad}},
           {"messages", {user, good}},
           {"score_chosen", 5}};
  CHECK(read_preference(row.dump(), "pairs.jsonl:1")[0].messages == Json{user, good});
  row["system"] = "S";
  CHECK(read_preference(row.dump(), "pairs.jsonl:1")[1].messages.front().at("content") == "S");
  row["margin"] = 2;
  CHECK_THROWS_WITH(read_preference(row.dump(), "pairs.jsonl:1"), Contains("pairs.jsonl:1: the member `margin`"));
  for (const Json& prompt : {Json{user}, Json{{{"role", "system"}, {"content", "S"}}, user}})
    CHECK_THROWS_WITH(read_preference(pair_of(prompt, Json{user, good}, Json{user, bad}), "pairs.jsonl:1"),
                      Contains("pairs.jsonl:1: `chosen` begins with a turn of `prompt`"));
  CHECK_THROWS_WITH(read_preference(pair_of("Ho", Json{user, good}, Json{user, bad}), "pairs.jsonl:1"),
                    Contains("`prompt` isn't a turn of the user in it"));
}

TEST_CASE("a row that is no pair is an error with its place", "[dataset]") {
  const auto error_of = [](const std::string& line) {
    try {
      read_preference(line, "pairs.jsonl:7");
    } catch (const core::Error& error) {
      return error.text();
    }
    return std::string();
  };
  const Json user{{"role", "user"}, {"content", "Hi"}};
  const Json answer{{"role", "assistant"}, {"content", "a"}};
  const Json other{{"role", "user"}, {"content", "Ho"}};
  CHECK_THAT(error_of("{"), Contains("pairs.jsonl:7: not JSON"));
  CHECK_THAT(error_of(R"({"prompt": "a", "chosen": "b"})"),
             Contains("pairs.jsonl:7: no `rejected`; got prompt and chosen"));
  CHECK_THAT(error_of(R"({"chosen": "b", "rejected": "c"})"),
             Contains("pairs.jsonl:7: `chosen`: an answer without a prompt"));
  CHECK_THAT(error_of(pair_of("a", "b", "b")), Contains("`chosen` and `rejected` are the same"));
  CHECK_THAT(error_of(Json{{"chosen", {user, answer}}, {"rejected", {other, answer}}}.dump()),
             Contains("turn 1 of `chosen` and `rejected` differs"));
  CHECK_THAT(error_of(Json{{"chosen", {user, answer}}, {"rejected", {user, answer, user, answer}}}.dump()),
             Contains("`chosen` has 2 turns, and `rejected` 4"));
  CHECK_THAT(error_of(Json{{"chosen", {user, user}}, {"rejected", {user, answer}}}.dump()),
             Contains("the last turn is of \"user\", not of the assistant"));
}

TEST_CASE("padding of any length is in documents that are no longer than a conversation may be",
          "[dataset][regression]") {
  const TemporaryDirectory directory;
  for (const Packing packing : {Packing::best_fit, Packing::none}) {
    PreferenceConfig source =
        preference_config(directory, pair_of("a", "b", "c") + pair_of("a", std::string(40, 'b'), std::string(40, 'c')));
    source.packing = packing;
    const Datasets data = build(dataset_of(source, 2), {});
    const Batch batch = *data.train->next();
    REQUIRE(batch.size() == 2);
    for (std::int64_t row = 0; row < batch.size(); ++row) {
      std::map<std::int64_t, std::int64_t> lengths;
      for (std::int64_t t = 0; t < batch.documents.size(1); ++t)
        ++lengths[batch.documents[row][t].item<std::int64_t>()];
      for (const auto& [document, length] : lengths) CHECK(length <= source.seq_len / 2);
    }
    CHECK(answers_of(batch).size() == 4);
  }
}

TEST_CASE("rows have whole pairs, the preferred answer first, and learn the answers alone", "[dataset]") {
  const TemporaryDirectory directory;
  std::string rows;
  for (int i = 0; i < 30; ++i) {
    const std::string number = std::to_string(i);
    rows += pair_of("q" + number, "good" + number, std::string(static_cast<std::size_t>(i % 7), 'x') + "bad" + number);
  }
  for (const Packing packing : {Packing::best_fit, Packing::none}) {
    PreferenceConfig source = preference_config(directory, rows);
    source.packing = packing;
    const Datasets data = build(dataset_of(source, 4), {});
    CHECK(data.train->spec().targets == Targets::preferences);
    std::set<std::string> seen;
    for (std::int64_t i = 0; i < data.train->batches_per_epoch(); ++i) {
      const Batch batch = *data.train->next();
      for (const auto& [place, answer] : answers_of(batch)) {
        if (place.second % 2 == 1) continue;
        REQUIRE(answer.starts_with("good"));
        const std::string number = answer.substr(4);
        CHECK_THAT(answers_of(batch).at({place.first, place.second + 1}), Catch::EndsWith("bad" + number));
        seen.insert(number);
      }
    }
    CHECK(seen.size() == 30);
  }
}

TEST_CASE("pairs with a conversation that is too long are dropped or cut, and told", "[dataset]") {
  const TemporaryDirectory directory;
  const std::string rows =
      pair_of("q", std::string(100, 'a'), "b") + pair_of("q", "c", "d") + pair_of(std::string(100, 'q'), "e", "f");
  PreferenceConfig source = preference_config(directory, rows);
  std::string told;
  LoaderOptions options;
  options.tell = [&](const std::string& text) { told += text + "\n"; };
  CHECK(build(source, options).train->size() == 1);
  CHECK_THAT(told, Contains("2 of 3 pairs of dataset.train have more than 64 tokens in a conversation: dropped"));
  source.too_long = TooLong::cut;
  source.packing = Packing::none;
  told.clear();
  CHECK(build(source, options).train->size() == 2);
  CHECK_THAT(told, Contains("2 of 3 pairs of dataset.train have more than 64 tokens in a conversation: cut") &&
                       Contains("1 of 3 pairs of dataset.train have no token to learn after the cut: left out"));
}

TEST_CASE("both conversations of a pair are kept for evaluation, or neither", "[dataset]") {
  const TemporaryDirectory directory;
  std::string rows;
  for (int i = 0; i < 200; ++i) rows += pair_of(std::to_string(i), "a", "b");
  PreferenceConfig source = preference_config(directory, rows);
  source.packing = Packing::none;
  source.eval_fraction = 0.2;
  const Sources sources = build(source, LoaderOptions{});
  CHECK(sources.train->size() + sources.eval->size() == 200);
  CHECK(sources.eval->size() > 20);
}

TEST_CASE("a preview shows both conversations of a pair, with the same fate", "[dataset]") {
  const TemporaryDirectory directory;
  const PreferenceConfig source =
      preference_config(directory, pair_of("q", "a", "b") + pair_of("q", std::string(100, 'a'), "b"));
  const auto shown = shown_conversations(source, {.most_texts = 3});
  REQUIRE(shown);
  REQUIRE(shown->texts.size() == 4);
  CHECK(shown->texts[0].place == "pair 1, chosen");
  CHECK(shown->texts[3].place == "pair 2, rejected");
  for (const ShownToken& token : shown->texts[3].tokens) CHECK(token.fate == TokenFate::cut);
  CHECK(shown->num_rows == 1);
}

TEST_CASE("pairs that differ behind the cut alone are left out, and told", "[dataset]") {
  const TemporaryDirectory directory;
  const std::string same(100, 'y');
  PreferenceConfig config = preference_config(
      directory, pair_of("p", same + "A", same + "B") + pair_of("p", "A" + same, "B" + same) + pair_of("p", "A", "B"));
  config.too_long = TooLong::cut;
  config.packing = Packing::none;
  std::string told;
  LoaderOptions options;
  options.tell = [&](const std::string& text) { told += text + "\n"; };
  CHECK(build(config, options).train->size() == 2);
  CHECK_THAT(told, Contains("1 of 3 pairs of dataset.train differ behind the cut alone: left out"));
}

}  // namespace
}  // namespace trainctl::dataset::preference_test
