// Conversations, tokenised once by all cores.
#include <memory>
#include <utility>

#include "dataset/chat/chat_tokens.h"
#include "dataset/files/file_list.h"
#include "dataset/image/transform/transform.h"
#include "dataset/sources.h"
#include "dataset/text/language_source.h"
#include "dataset/text/ordered_tasks.h"

namespace trainctl::dataset {
namespace {

constexpr std::size_t kConversationsInTask = 128;

StoreChunk tokenize_all(const ChatFormat& format, const tokenizer::Tokenizer& tokenizer,
                        const std::vector<Conversation>& conversations) {
  StoreChunk chunk;
  for (const Conversation& conversation : conversations) {
    const ChatTokens tokens = tokenize_conversation(format, tokenizer, conversation);
    chunk.ids.insert(chunk.ids.end(), tokens.ids.begin(), tokens.ids.end());
    chunk.labels.insert(chunk.labels.end(), tokens.labels.begin(), tokens.labels.end());
    chunk.document_ends.push_back(chunk.ids.size());
    for (const auto& message : conversation.messages)
      if (const auto content = message.find("content"); content != message.end() && content->is_string())
        chunk.num_bytes += static_cast<std::int64_t>(content->get_ref<const std::string&>().size());
  }
  return chunk;
}

void write_store(const ChatFormat& format, const tokenizer::Tokenizer& tokenizer, const ChatFiles& files, Rows rows,
                 StoreWriter& writer) {
  OrderedTasks<StoreChunk> tasks([&](const StoreChunk& chunk) { writer.add(chunk); });
  std::vector<Conversation> waiting;
  const auto start = [&] {
    tasks.start([&, conversations = std::make_shared<const std::vector<Conversation>>(std::exchange(waiting, {}))] {
      return tokenize_all(format, tokenizer, *conversations);
    });
  };
  for (const std::string& file : files.files)
    read_conversations(file, files, rows, [&](Conversation conversation) {
      waiting.push_back(std::move(conversation));
      if (waiting.size() >= kConversationsInTask) start();
    });
  start();
  tasks.finish();
}

/// Ends the reading of a file.
struct ReadEnough {};

PreparedStores prepare_sets(const ChatConfig& config, Rows rows, const tokenizer::Tokenizer& tokenizer,
                            const PrepareOptions& options) {
  const ChatFormat format(config);
  const auto prepare_one = [&](const ChatFiles& files) {
    Reading reading(tokenizer);
    reading.add(format.reading()).add(files.messages.value_or(""));
    if (rows == Rows::preferences) reading.add("preferences");
    return prepare_store({.files = files.files,
                          .reading = reading.text(),
                          .layout = {StoreKind::labelled_tokens, tokenizer.vocab_size()},
                          .write = [&](StoreWriter& writer) { write_store(format, tokenizer, files, rows, writer); }},
                         config.cache_dir, options);
  };
  PreparedStores stores{.train = prepare_one(config.train), .eval = std::nullopt, .test = std::nullopt};
  if (config.eval) stores.eval = prepare_one(*config.eval);
  if (config.test && options.tests == TestTexts::prepared) stores.test = prepare_one(*config.test);
  return stores;
}

void read_first(const ChatConfig& config, Rows rows, Phase phase, std::int64_t num_rows) {
  const ChatFormat format(config);
  const std::shared_ptr<const tokenizer::Tokenizer> tokenizer = open_tokenizer(config.tokenizer);
  const ChatFiles& files = phase == Phase::training ? config.train : *config.eval;
  std::int64_t count = 0;
  try {
    read_conversations(expand_files(files.files, {}, "files").front().string(), files, rows,
                       [&](const Conversation& one) {
                         tokenize_conversation(format, *tokenizer, one);
                         if (++count >= num_rows) throw ReadEnough{};
                       });
  } catch (const ReadEnough&) {
  }
}

}  // namespace

PreparedStores prepare_stores(const ChatConfig& config, const tokenizer::Tokenizer& tokenizer,
                              const PrepareOptions& options) {
  return prepare_sets(config, Rows::conversations, tokenizer, options);
}
PreparedStores prepare_stores(const PreferenceConfig& config, const tokenizer::Tokenizer& tokenizer,
                              const PrepareOptions& options) {
  return prepare_sets(config.as_chat(), Rows::preferences, tokenizer, options);
}

void read_first_rows(const ChatConfig& config, Phase phase, std::int64_t num_rows) {
  read_first(config, Rows::conversations, phase, num_rows);
}
void read_first_rows(const PreferenceConfig& config, Phase phase, std::int64_t num_rows) {
  read_first(config.as_chat(), Rows::preferences, phase, 2 * num_rows);
}

}  // namespace trainctl::dataset
