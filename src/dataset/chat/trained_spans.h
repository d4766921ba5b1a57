// Which part of a conversation's text is the assistant's, found in two independent ways that must agree.
#pragma once

#include <string>
#include <vector>

#include "dataset/chat/chat_format.h"

namespace trainctl::dataset {

/// A conversation's text, and the bytes of it that a model learns.
struct MarkedText {
  std::string text;
  std::vector<chat_template::TextSpan> trained;
};

/// Finds the assistant's text in two ways. The first is the template's {% generation %} blocks, or else a marker in the
/// place of a turn's content. The second is the difference of two texts: the turns before, with a prompt for an answer,
/// and the same with the turn. Where the two disagree, or nothing or all would be learned, an Error names the row, the
/// turn and the template's line.
MarkedText mark_conversation(const ChatFormat& format, const Conversation& conversation);

}  // namespace trainctl::dataset
