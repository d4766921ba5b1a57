// Conversations as tokens, masks and rows.
#include <ATen/ops/equal.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <numeric>
#include <random>

#include "dataset/chat/chat_tokens.h"
#include "dataset/chat/packing.h"
#include "dataset/dataset.h"
#include "dataset/sources.h"
#include "dataset/text/language_source.h"
#include "support/small_files.h"

namespace trainctl::dataset::chat_test {

using namespace trainctl;
using namespace trainctl::dataset;
using namespace trainctl::testing;
using Catch::Matchers::Contains;

namespace {

constexpr const char* kOwnChatMl =
    "{% for m in messages %}{{ '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>' + '\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}";
constexpr const char* kBlocks =
    "{% for m in messages %}<{{ m.role }}>{% if m.role == 'assistant' %}{% generation %}{{ m.content }}</s>{% "
    "endgeneration %}{% else %}{{ m.content }}{% endif %}{% endfor %}{% if add_generation_prompt %}<assistant>{% endif "
    "%}";

ChatConfig chat_config(const TemporaryDirectory& directory, const std::string& chat, const std::string& rows) {
  ChatConfig config;
  config.train.files = {directory.write("chat.jsonl", rows)};
  config.tokenizer = "bytes";
  config.chat_template = directory.write("chat.jinja", chat);
  config.seq_len = 256;
  config.cache_dir = (directory.path() / "cache").string();
  return config;
}

std::string row_of(const std::vector<std::pair<std::string, std::string>>& turns) {
  nlohmann::ordered_json messages = nlohmann::ordered_json::array();
  for (const auto& [role, content] : turns) messages.push_back({{"role", role}, {"content", content}});
  return nlohmann::ordered_json{{"messages", messages}}.dump() + "\n";
}

/// The parts of a conversation's text that are learned.
std::vector<std::string> learned(const ChatConfig& config, const std::string& row) {
  const MarkedText marked = mark_conversation(ChatFormat(config), read_conversation(row, config.train, "chat.jsonl:1"));
  std::vector<std::string> parts;
  for (const auto& span : marked.trained) parts.push_back(marked.text.substr(span.begin, span.end - span.begin));
  return parts;
}

std::string error_of(const ChatConfig& config, const std::string& row) {
  try {
    tokenize_conversation(ChatFormat(config), *open_tokenizer("bytes"),
                          read_conversation(row, config.train, "chat.jsonl:7"));
  } catch (const core::Error& error) {
    return error.text();
  }
  return "";
}

using Strings = std::vector<std::string>;

}  // namespace

TEST_CASE("the assistant's turns are learned with the token that ends them", "[dataset]") {
  const TemporaryDirectory directory;
  const std::string row = row_of(
      {{"system", "Be kind."}, {"user", "Hi"}, {"assistant", "Hello!"}, {"user", "Bye"}, {"assistant", "Ciao ä"}});
  ChatConfig config = chat_config(directory, kOwnChatMl, row);
  CHECK(learned(config, row) == Strings{"Hello!<|im_end|>", "Ciao ä<|im_end|>"});
  const ChatFormat own(config);
  config.chat_template = "chatml";
  CHECK(learned(config, row) == Strings{"Hello!<|im_end|>", "Ciao ä<|im_end|>"});
  const Conversation conversation = read_conversation(row, config.train, "row");
  CHECK(ChatFormat(config).render(conversation, 2, true).text == own.render(conversation, 2, true).text);
  config.loss_on = LossOn::last;
  CHECK(learned(config, row) == Strings{"Ciao ä<|im_end|>"});
  config.loss_on = LossOn::all;
  CHECK(learned(config, row).front().starts_with("<|im_start|>system"));
  CHECK(learned(chat_config(directory, kBlocks, row), row) == Strings{"Hello!</s>", "Ciao ä</s>"});
}

TEST_CASE("what a template puts before an answer is learned with the answer", "[dataset]") {
  const TemporaryDirectory directory;
  const std::string thinks =
      "{% for m in messages %}<{{ m.role }}>{{ '<think></think>' if m.role == 'assistant' }}{{ m.content }}<end>\n{% "
      "endfor %}"
      "{% if add_generation_prompt %}<assistant>{% endif %}";
  const std::string row = row_of({{"user", "a"}, {"assistant", " b "}});
  CHECK(learned(chat_config(directory, thinks, row), row) == Strings{"<think></think> b <end>"});
}

TEST_CASE("conversations are read from three forms", "[dataset]") {
  const TemporaryDirectory directory;
  const ChatConfig config = chat_config(directory, kOwnChatMl, "");
  const Strings expected = {"b<|im_end|>"};
  CHECK(learned(config, row_of({{"user", "a"}, {"assistant", "b"}})) == expected);
  CHECK(learned(config, R"({"conversations": [{"from": "human", "value": "a"}, {"from": "gpt", "value": "b"}]})") ==
        expected);
  CHECK(learned(config, R"({"prompt": "a", "completion": "b"})") == expected);
  CHECK(
      learned(
          config,
          R"({"prompt": [{"role": "user", "content": "a"}], "completion": [{"role": "assistant", "content": "b"}]})") ==
      expected);
}

TEST_CASE("a row that is no conversation is an error with its place", "[dataset]") {
  const TemporaryDirectory directory;
  const ChatConfig config = chat_config(directory, kOwnChatMl, "");
  CHECK_THAT(error_of(config, "{\"text\": \"a\"}"),
             Contains("chat.jsonl:7: no conversation; expected `messages`") && Contains("got text"));
  CHECK_THAT(error_of(config, "{\"messages\": []}"), Contains("chat.jsonl:7: `messages` has no turns"));
  CHECK_THAT(error_of(config, "{\"messages\": [{\"content\": \"a\"}]}"),
             Contains("chat.jsonl:7: turn 1: no text `role`"));
  CHECK_THAT(error_of(config, "{\"messages\": [{\"role\": \"user\"}]}"),
             Contains("chat.jsonl:7: turn 1: no `content`"));
  CHECK_THAT(error_of(config, "{"), Contains("chat.jsonl:7: not JSON"));
}

TEST_CASE("what a row says beside its turns is seen by the template", "[dataset]") {
  const TemporaryDirectory directory;
  const ChatConfig config = chat_config(directory, kOwnChatMl, "");
  const auto text = [](const ChatConfig& how, const std::string& row) {
    return mark_conversation(ChatFormat(how), read_conversation(row, how.train, "chat.jsonl:1")).text;
  };
  const std::string turns = R"("conversations": [{"from": "human", "value": "a"}, {"from": "gpt", "value": "b"}])";
  CHECK(text(config, R"({"system": "S", )" + turns + "}") ==
        text(config, row_of({{"system", "S"}, {"user", "a"}, {"assistant", "b"}})));
  CHECK(text(config, R"({"system": "", "id": 3, "prompt_id": "x", "images": [], "prompt": "a", )" + turns + "}") ==
        text(config, row_of({{"user", "a"}, {"assistant", "b"}})));
  CHECK(text(config, R"({"system": "S", "messages": [{"role": "system", "content": "S"}, {"role": "user", "content":
        "a"}, {"role": "assistant", "content": "b"}]})") ==
        text(config, row_of({{"system", "S"}, {"user", "a"}, {"assistant", "b"}})));
  const ChatConfig with_tools = chat_config(
      directory, std::string("{% for t in tools or [] %}[{{ t.function.name }}]{% endfor %}") + kOwnChatMl, "");
  for (const char* tools : {R"([{"type": "function", "function": {"name": "now"}}])",
                            R"("[{\"type\": \"function\", \"function\": {\"name\": \"now\"}}]")"})
    CHECK_THAT(text(with_tools, R"({"tools": )" + std::string(tools) + ", " + turns + "}"),
               Catch::StartsWith("[now]<"));
  const ChatConfig thinks = chat_config(directory, std::string("{{ 'T' if enable_thinking }}") + kOwnChatMl, "");
  CHECK_THAT(text(thinks, R"({"chat_template_kwargs": {"enable_thinking": true}, )" + turns + "}"),
             Catch::StartsWith("T<"));
}

TEST_CASE("a turn that the row excludes isn't learned", "[dataset]") {
  const TemporaryDirectory directory;
  ChatConfig config = chat_config(directory, kOwnChatMl, "");
  const auto row = [](const std::string& mark, const std::string& other) {
    return R"({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b", )" + mark +
           R"(}, {"role": "user", "content": "c"}, {"role": "assistant", "content": "d", )" + other + "}]}";
  };
  CHECK(learned(config, row(R"("weight": 0)", R"("weight": 1)")) == Strings{"d<|im_end|>"});
  CHECK(learned(config, row(R"("train": true)", R"("train": false)")) == Strings{"b<|im_end|>"});
  CHECK(learned(config, row(R"("loss": false)", R"("loss": null)")) == Strings{"d<|im_end|>"});
  CHECK(learned(chat_config(directory, kBlocks, ""), row(R"("weight": 0)", R"("weight": 1.0)")) == Strings{"d</s>"});
  CHECK_THAT(error_of(config, row(R"("weight": 0.5)", R"("weight": 1)")),
             Contains("chat.jsonl:7: turn 2: `weight` is 0.5; expected 0 or 1"));
  CHECK_THAT(error_of(config, row(R"("weight": 0)", R"("train": false)")),
             Contains("chat.jsonl:7: turn 4: the row excludes each turn"));
  CHECK_THAT(error_of(config, R"({"messages": [{"role": "user", "content": "a", "train": true},
                                 {"role": "assistant", "content": "b"}]})"),
             Contains("chat.jsonl:7: turn 1: `train` is true, and only the assistant's turns are learned"));
  config.loss_on = LossOn::all;
  CHECK_THAT(error_of(config, row(R"("weight": 0)", R"("weight": 1)")), Contains("turn 2") && Contains("loss_on"));
}

TEST_CASE("a member that would be lost is refused at its line", "[dataset]") {
  const TemporaryDirectory directory;
  const ChatConfig config = chat_config(directory, kOwnChatMl, "");
  const std::string turns = R"("messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}])";
  for (const char* member :
       {R"("system_prompt": "S")", R"("functions": [{"name": "now"}])", R"("documents": [{"text": "d"}])",
        R"("label": false)", R"("weight": 0)", R"("images": ["a.png"])", R"("parallel_tool_calls": false)",
        R"("conversations": [{"from": "human", "value": "c"}])", R"("completion": "c")",
        R"("history": [["c", "d"]])"}) {
    const std::string name = std::string(member).substr(1, std::string(member).find('"', 1) - 1);
    CHECK_THAT(error_of(config, "{" + std::string(member) + ", " + turns + "}"),
               Contains("chat.jsonl:7: the member `" + name + "` isn't read"));
  }
  CHECK_THAT(error_of(config, R"({"system": "S", "messages": [{"role": "system", "content": "T"}, {"role": "user",
                              "content": "a"}, {"role": "assistant", "content": "b"}]})"),
             Contains("chat.jsonl:7: `system` differs from the system's turn"));
  CHECK_THAT(error_of(config, R"({"tools": [{"type": "function"}], )" + turns + "}"),
             Contains("chat.jsonl:7: the template doesn't print `tools`"));
  CHECK_THAT(error_of(config, R"({"tools": "now", )" + turns + "}"), Contains("`tools` should be a list of objects"));
  CHECK_THAT(error_of(config, R"({"chat_template_kwargs": {"enable_thinking": false}, )" + turns + "}"),
             Contains("doesn't read `enable_thinking`"));
  for (const char* member :
       {R"("reasoning_content": "r")", R"("tool_calls": [{"type": "function"}])", R"("function_call": {"name": "f"})",
        R"("train_detail": [{"begin_offset": 0}])", R"("name": "Ann")", R"("thinking": "t")"}) {
    const std::string name = std::string(member).substr(1, std::string(member).find('"', 1) - 1);
    CHECK_THAT(error_of(config, R"({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b",
                                )" + std::string(member) +
                                    "}]}"),
               Contains("chat.jsonl:7: turn 2: the template doesn't print the member `" + name + "`"));
  }
  CHECK_THAT(error_of(config, R"({"conversations": [{"from": "human", "value": "a"}, {"from": "function_call",
                              "value": "{}"}]})"),
             Contains("chat.jsonl:7: turn 2: `from` is 'function_call'"));
  CHECK_THAT(error_of(config, R"({"messages": [{"role": "user", "content": [{"type": "image_url"}]},
                              {"role": "assistant", "content": "b"}]})"),
             Contains("chat.jsonl:7: turn 1: a part of `content` is no text: type \"image_url\""));
  const ChatConfig plain =
      chat_config(directory,
                  "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}{% if add_generation_prompt %}"
                  "<assistant>{% endif %}",
                  "");
  CHECK_THAT(error_of(plain, R"({"messages": [{"role": "user", "content": [{"type": "text", "text": "a"}]},
                             {"role": "assistant", "content": "b"}]})"),
             Contains("chat.jsonl:7: turn 1: the template prints this list of texts as Python's list"));
}

TEST_CASE("a prompt that the completion repeats is an error", "[dataset]") {
  const TemporaryDirectory directory;
  const ChatConfig config = chat_config(directory, kOwnChatMl, "");
  const std::string whole = R"([{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}])";
  CHECK(learned(config, R"({"prompt": "a", "completion": )" + whole + "}") == Strings{"b<|im_end|>"});
  CHECK_THAT(error_of(config, R"({"prompt": [{"content": "a", "role": "user"}], "completion": )" + whole + "}"),
             Contains("chat.jsonl:7: `completion` begins with a turn of `prompt`"));
  CHECK_THAT(error_of(config, R"({"prompt": "c", "completion": )" + whole + "}"),
             Contains("chat.jsonl:7: `completion` is a conversation, and `prompt` isn't a turn"));
}

TEST_CASE("a mask of nothing or of everything names the row and the template's line", "[dataset]") {
  const TemporaryDirectory directory;
  const std::string row = row_of({{"user", "a"}, {"assistant", "b"}});
  CHECK_THAT(error_of(chat_config(directory, kOwnChatMl, ""), row_of({{"user", "a"}})),
             Contains("chat.jsonl:7: no turn is the assistant's"));
  CHECK_THAT(error_of(chat_config(directory,
                                  "{% for m in messages %}\n{% generation %}{{ m.content if m.role == 'assistant' }}"
                                  "{% endgeneration %}{% endfor %}",
                                  ""),
                      row),
             Contains("2 {% generation %} blocks; expected one for each of 1 turns") && Contains("chat.jinja:2)"));
  CHECK_THAT(error_of(chat_config(directory,
                                  "{% if messages[1] is defined %}\n{% generation %}{{ messages[1].content }}{% "
                                  "endgeneration %}{% endif %}",
                                  ""),
                      row),
             Contains("the whole text is the assistant's") && Contains("chat.jinja:2)"));
  CHECK_THAT(error_of(chat_config(directory, kOwnChatMl, ""), row_of({{"user", "a"}, {"assistant", ""}})),
             !Contains("nothing is learned"));
  const std::string nothing =
      "{% for m in messages %}{% if m.role == 'assistant' %}>{% generation %}{% endgeneration %}{% else %}{{ m.role }}"
      "{% endif %}{% endfor %}{% if add_generation_prompt %}>{% endif %}";
  CHECK_THAT(error_of(chat_config(directory, nothing, ""), row),
             Contains("have no text, so nothing is learned") && Contains("chat.jinja:1)"));
}

TEST_CASE("two ways that disagree name the row, the turn and the template's line", "[dataset]") {
  const TemporaryDirectory directory;
  const std::string row = row_of({{"user", "a"}, {"assistant", "b"}, {"user", "c"}, {"assistant", "d"}});
  const std::string changes =
      "{% for m in messages %}\n<{{ m.role }}>{{ m.content if loop.last or m.role == 'user' else '…' }}{% endfor %}"
      "{% if add_generation_prompt %}\n<assistant>{% endif %}";
  CHECK_THAT(error_of(chat_config(directory, changes, ""), row),
             Contains("chat.jsonl:7: turn 2: ") && Contains("chat.jinja:2)"));
  const std::string misplaced =
      "{% for m in messages %}{% if m.role == 'assistant' %}{% generation %}<{{ m.role }}>{{ m.content }}{% "
      "endgeneration "
      "%}{% else %}<{{ m.role }}>{{ m.content }}{% endif %}{% endfor %}{% if add_generation_prompt %}<assistant>{% "
      "endif %}";
  CHECK_THAT(error_of(chat_config(directory, misplaced, ""), row),
             Contains("chat.jsonl:7: turn 2: two ways to find the assistant's text disagree: {% generation %} has "
                      "'<assistant>b', and the difference of prefixes is 'b' (") &&
                 Contains("chat.jinja:1)"));
}

TEST_CASE("a template that needs a date is an error until the config has one", "[dataset]") {
  const TemporaryDirectory directory;
  const std::string row = row_of({{"user", "a"}, {"assistant", "b"}});
  ChatConfig config = chat_config(directory, std::string("{{ strftime_now('%A %d %B %Y') }}") + kOwnChatMl, "");
  CHECK_THAT(error_of(config, row), Contains("set dataset.date"));
  config.date = "2024-07-26";
  const MarkedText marked = mark_conversation(ChatFormat(config), read_conversation(row, config.train, "p"));
  CHECK_THAT(marked.text, Catch::StartsWith("Friday 26 July 2024"));
  config.date = "26.7.2024";
  CHECK_THAT(error_of(config, row), Contains("dataset.date: expected a date as 2024-07-26, got '26.7.2024'"));
}

TEST_CASE("a tokenizer without a chat template is an error that names the places", "[dataset]") {
  const TemporaryDirectory directory;
  ChatConfig config = chat_config(directory, kOwnChatMl, "");
  config.chat_template.reset();
  config.tokenizer = directory.write("vocab.txt", "[UNK]\na\n");
  CHECK_THROWS_WITH(ChatFormat(config),
                    Contains("has no chat template; looked for") && Contains("tokenizer_config.json"));
  directory.write("tokenizer_config.json", R"({"chat_template": "{{ bos_token }}x", "bos_token": {"content": "<s>"}})");
  CHECK(ChatFormat(config).render({.messages = nlohmann::ordered_json::array(), .tools = {}, .place = ""}).text ==
        "<s>x");
  directory.write("chat_template.jinja", "y");
  CHECK(ChatFormat(config).render({.messages = nlohmann::ordered_json::array(), .tools = {}, .place = ""}).text == "y");
}

TEST_CASE("a row with tools takes the tokenizer's template for them", "[dataset]") {
  const TemporaryDirectory directory;
  ChatConfig config = chat_config(directory, kOwnChatMl, "");
  config.chat_template.reset();
  config.tokenizer = directory.write("vocab.txt", "[UNK]\na\n");
  directory.write("tokenizer_config.json", R"({"chat_template": [{"name": "tool_use", "template": "with tools"},
                                                               {"name": "default", "template": "without"}]})");
  const std::string turns = R"("messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}])";
  const auto text = [&](const std::string& row) {
    return ChatFormat(config).render(read_conversation(row, config.train, "chat.jsonl:1")).text;
  };
  CHECK(text("{" + turns + "}") == "without");
  CHECK(text("{" + turns + R"(, "tools": [{"name": "f"}]})") == "with tools");
  directory.write("tokenizer_config.json", R"({"chat_template": {"tool_use": "with tools"}})");
  CHECK(text("{" + turns + R"(, "tools": [{"name": "f"}]})") == "with tools");
  CHECK_THROWS_WITH(text("{" + turns + "}"), Contains("chat.jsonl:1") && Contains("no chat template `default`"));
}

TEST_CASE("best fit fills rows, and keeps each piece once", "[dataset]") {
  CHECK(pack_best_fit(std::vector<std::int64_t>{6, 5, 4, 3, 2}, 10) == PackedRows{{0, 2}, {1, 3, 4}});
  CHECK(pack_best_fit(std::vector<std::int64_t>{10, 10}, 10) == PackedRows{{0}, {1}});
  std::mt19937 random(3);
  std::vector<std::int64_t> lengths(2000);
  for (std::int64_t& length : lengths) length = 1 + static_cast<std::int64_t>(random() % 100);
  const PackedRows rows = pack_best_fit(lengths, 128);
  std::vector<int> seen(lengths.size());
  for (const auto& row : rows) {
    std::int64_t total = 0;
    for (const std::int32_t piece : row) {
      total += lengths[static_cast<std::size_t>(piece)];
      ++seen[static_cast<std::size_t>(piece)];
    }
    CHECK(total <= 128);
  }
  CHECK(std::all_of(seen.begin(), seen.end(), [](int count) { return count == 1; }));
  const std::int64_t total = std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0});
  CHECK(static_cast<std::int64_t>(rows.size()) <= total / 128 + total / 128 / 50 + 1);
}

TEST_CASE("packed rows have documents, and no target across their borders", "[dataset]") {
  const TemporaryDirectory directory;
  std::string rows;
  for (int i = 0; i < 20; ++i)
    rows +=
        row_of({{"user", std::string(static_cast<std::size_t>(i), 'q')}, {"assistant", "answer " + std::to_string(i)}});
  DatasetConfig config;
  config.source = chat_config(directory, kBlocks, rows);
  config.batch_size = 100;
  const Datasets sets = build(config, {});
  const Batch batch = *sets.train->next();
  REQUIRE(batch.documents.defined());
  CHECK(batch.inputs.size(1) == 256);
  CHECK(batch.size() < 20);
  std::string answers;
  for (std::int64_t row = 0; row < batch.size(); ++row)
    for (std::int64_t t = 0; t < 256; ++t) {
      const auto target = batch.targets[row][t].item<std::int64_t>();
      if (target == -100) continue;
      answers += static_cast<char>(target);
      REQUIRE(t + 1 < 256);
      CHECK(batch.inputs[row][t + 1].item<std::int64_t>() == target);
      CHECK(at::equal(batch.documents[row][t], batch.documents[row][t + 1]));
    }
  for (int i = 0; i < 20; ++i) CHECK_THAT(answers, Contains("answer " + std::to_string(i) + "</s>"));
  CHECK(batch.target_positions.numel() == static_cast<std::int64_t>(answers.size()));
}

TEST_CASE("rows of one conversation are as wide as their batch's longest", "[dataset]") {
  const TemporaryDirectory directory;
  ChatConfig chat = chat_config(
      directory, kBlocks, row_of({{"user", "a"}, {"assistant", "b"}}) + row_of({{"user", "aaaa"}, {"assistant", "b"}}));
  chat.packing = Packing::none;
  DatasetConfig config;
  config.source = chat;
  config.batch_size = 2;
  const Batch batch = *build(config, {}).train->next();
  CHECK(!batch.documents.defined());
  CHECK(batch.inputs.size(1) == static_cast<std::int64_t>(std::string("<user>aaaa<assistant>b</s>").size()));
  CHECK(batch.target_positions.numel() == 10);
}

TEST_CASE("conversations that are too long are cut or dropped, and told", "[dataset]") {
  const TemporaryDirectory directory;
  const std::string rows = row_of({{"user", "a"}, {"assistant", std::string(100, 'b')}}) +
                           row_of({{"user", std::string(100, 'a')}, {"assistant", "b"}}) +
                           row_of({{"user", "a"}, {"assistant", "b"}});
  ChatConfig chat = chat_config(directory, kBlocks, rows);
  chat.seq_len = 50;
  std::string told;
  LoaderOptions options;
  options.tell = [&](const std::string& text) { told += text + "\n"; };
  CHECK(build(chat, options).train->size() == 2);
  CHECK_THAT(told,
             Contains("2 of 3 conversations of dataset.train have more than 50 tokens: cut") &&
                 Contains("1 of 3 conversations of dataset.train have no token to learn after the cut: left out"));
  chat.too_long = TooLong::drop;
  told.clear();
  CHECK(build(chat, options).train->size() == 1);
  CHECK_THAT(told, Contains("2 of 3 conversations of dataset.train have more than 50 tokens: dropped"));
  chat.seq_len = 8;
  CHECK_THROWS_WITH(build(chat, options),
                    Contains("each conversation of dataset.train has more than 8 tokens, and is dropped"));
  chat.too_long = TooLong::cut;
  CHECK_THROWS_WITH(build(chat, options), Contains("has anything to learn among the first 8 tokens"));
}

TEST_CASE("a share of the conversations is kept for evaluation", "[dataset]") {
  const TemporaryDirectory directory;
  std::string rows;
  for (int i = 0; i < 200; ++i) rows += row_of({{"user", std::to_string(i)}, {"assistant", "b"}});
  ChatConfig chat = chat_config(directory, kBlocks, rows);
  chat.packing = Packing::none;
  chat.eval_fraction = 0.2;
  const Sources sources = build(chat, LoaderOptions{});
  CHECK(sources.train->size() + sources.eval->size() == 200);
  CHECK(sources.eval->size() > 20);
  CHECK(sources.train->fingerprint() != sources.eval->fingerprint());
}

}  // namespace trainctl::dataset::chat_test
