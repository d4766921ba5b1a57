// The prompt of a question, as a trained model has seen questions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "chat_template/template_files.h"
#include "dataset/config.h"
#include "tokenizer/tokenizer.h"

namespace trainctl::dataset {

struct ChatPrompt {
  std::string text;
  std::optional<std::int32_t> end{};  // the token that ends an answer, if it is one token
};

/// Renders a question with the chat template of the dataset, up to where the answer begins. A template that asks for
/// the date gets today's, unless the config has one. Nothing if the dataset has no conversations.
std::optional<ChatPrompt> chat_prompt(const SourceConfig& source, const tokenizer::Tokenizer& tokenizer,
                                      const std::string& question);

/// The chat templates by which a model was trained.
struct TrainedChat {
  chat_template::NamedTemplates templates;
  bool is_of_tokenizer = false;       // else the dataset names another one
  std::optional<std::int32_t> end{};  // the token that ends an answer, if it is one token
};

/// Returns the chat templates of a dataset; nothing if the dataset has no conversations.
std::optional<TrainedChat> trained_chat(const SourceConfig& source, const tokenizer::Tokenizer& tokenizer);

}  // namespace trainctl::dataset
