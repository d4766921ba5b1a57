#include "dataset/chat/trained_spans.h"

#include <algorithm>
#include <map>

#include "core/error.h"

namespace trainctl::dataset {
namespace {

using chat_template::Rendered;
using chat_template::TextSpan;
using Json = nlohmann::ordered_json;

/// In the place of a content: characters for private use, and letters that no template looks for.
constexpr std::string_view kMarker = "\xEE\x80\x80qzAnswerqz\xEE\x80\x81";
constexpr std::size_t kShownBytes = 60;
constexpr const char* kTemplateHint = "remove the member from the row, or set dataset.chat_template to one that has it";

bool is_blank(std::string_view text) {
  return text.find_first_not_of(" \t\r\n") == std::string_view::npos;
}

std::string_view without_blanks(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(" \t\r\n");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t\r\n") + 1 - begin);
}

/// A text in quotes, shortened in its middle.
std::string shown(std::string_view text) {
  std::string quoted;
  for (const char byte : text) quoted += byte == '\n' ? std::string("\\n") : std::string(1, byte);
  if (quoted.size() <= kShownBytes) return "'" + quoted + "'";
  const auto is_inside = [&](std::size_t at) { return (static_cast<unsigned char>(quoted[at]) & 0xC0U) == 0x80; };
  std::size_t head = kShownBytes / 2;
  std::size_t tail = quoted.size() - kShownBytes / 2;
  while (is_inside(head)) --head;
  while (tail < quoted.size() && is_inside(tail)) ++tail;
  return "'" + quoted.substr(0, head) + "…" + quoted.substr(tail) + "'";
}

/// The search in one conversation.
class Marking {
 public:
  Marking(const ChatFormat& format, const Conversation& conversation)
      : format_(format),
        template_(format.template_for(conversation)),
        conversation_(conversation),
        whole_(format.render(conversation)) {}

  MarkedText run() {
    check_printed();
    if (format_.loss_on() == LossOn::all) {
      if (conversation_.unlearned.empty()) return {whole_.text, {{0, whole_.text.size(), 0}}};
      throw fail_turn(conversation_.unlearned.front(), "the row excludes this turn, and loss_on is all", 0)
          .hint("set dataset.loss_on: assistant");
    }
    std::vector<std::size_t> turns = turns_of_assistant();
    if (turns.empty()) throw fail("no turn is the assistant's", 0).hint("set dataset.loss_on: all, or remove the row");
    check_blocks(turns.size());
    const std::size_t first = format_.loss_on() == LossOn::last ? turns.size() - 1 : 0;
    std::vector<TextSpan> trained;
    for (std::size_t i = first; i < turns.size(); ++i)
      if (!is_unlearned(turns[i])) trained.push_back(span_of(turns[i], i));
    if (trained.empty())
      throw fail_turn(turns.back(), "the row excludes each turn that would be learned", 0).hint("remove the row");
    if (std::all_of(trained.begin(), trained.end(), [](const TextSpan& span) { return span.begin == span.end; }))
      throw fail("the assistant's turns have no text, so nothing is learned", trained.front().line);
    if (trained.size() == 1 && trained[0].end - trained[0].begin == whole_.text.size())
      throw fail("the whole text is the assistant's, so a model would learn it without a prompt", trained[0].line);
    return {whole_.text, std::move(trained)};
  }

 private:
  std::vector<std::size_t> turns_of_assistant() const {
    std::vector<std::size_t> turns;
    for (std::size_t i = 0; i < conversation_.messages.size(); ++i)
      if (conversation_.messages[i].at("role") == "assistant") turns.push_back(i);
    return turns;
  }

  bool is_unlearned(std::size_t turn) const { return std::ranges::count(conversation_.unlearned, turn) > 0; }

  /// Refuses what the row has and the template prints nowhere, since the model would not see it.
  void check_printed() const {
    check_lists();
    for (const auto& [name, value] : conversation_.variables.items())
      if (!template_.reads_variable(name))
        throw fail("the template doesn't read `" + name + "` of chat_template_kwargs", 0);
    if (!conversation_.tools.is_null()) {
      Conversation without = conversation_;
      without.tools = nullptr;
      if (has_same_text(without)) throw fail("the template doesn't print `tools`", 0).hint(kTemplateHint);
    }
    for (const auto& [name, turn] : members_of_turns()) {
      Conversation without = conversation_;
      for (Json& message : without.messages)
        if (is_content(message, name)) message.erase(name);
      // A template may leave out the thinking of earlier turns.
      const bool is_known = name.starts_with("reason") || name == "thinking";
      if (!(is_known && template_.names_member(name)) && has_same_text(without))
        throw fail_turn(turn, "the template doesn't print the member `" + name + "`", 0).hint(kTemplateHint);
    }
  }

  /// Returns the members of turns beside role and content, and for each the first turn that has it.
  std::map<std::string, std::size_t> members_of_turns() const {
    std::map<std::string, std::size_t> members;
    for (std::size_t i = 0; i < conversation_.messages.size(); ++i)
      for (const auto& [name, value] : conversation_.messages[i].items())
        if (is_content(conversation_.messages[i], name) && has_meaning(name, value)) members.try_emplace(name, i);
    return members;
  }

  /// A tool's name says which call a turn answers.
  static bool is_content(const Json& message, const std::string& name) {
    return name != "role" && name != "content" &&
           !(name == "name" && message.at("role") != "user" && message.at("role") != "assistant" &&
             message.at("role") != "system");
  }

  bool has_same_text(const Conversation& other) const {
    try {
      return format_.render(other).text == whole_.text;
    } catch (const core::Error&) {
      return false;  // the template needs what the other lacks
    }
  }

  /// A template that knows texts alone prints a list as Python does.
  void check_lists() const {
    for (std::size_t i = 0; i < conversation_.messages.size(); ++i) {
      const Json& message = conversation_.messages[i];
      if (message.contains("content") && message.at("content").is_array() &&
          (whole_.text.find("[{'type': 'text'") != std::string::npos ||
           whole_.text.find("[{'text': ") != std::string::npos))
        throw fail_turn(i, "the template prints this list of texts as Python's list", 0)
            .hint("write `content` as one text");
    }
  }

  void check_blocks(std::size_t num_turns) const {
    if (!template_.chat().has_generation() || whole_.generated.size() == num_turns) return;
    throw fail("the template has printed " + std::to_string(whole_.generated.size()) +
                   " {% generation %} blocks; expected one for each of " + std::to_string(num_turns) +
                   " turns of the assistant",
               whole_.generated.empty() ? 0 : whole_.generated.front().line);
  }

  core::Error fail(const std::string& what, int line) const {
    return core::Error(conversation_.place + ": " + what + where(line));
  }
  core::Error fail_turn(std::size_t turn, const std::string& what, int line) const {
    return fail("turn " + std::to_string(turn + 1) + ": " + what, line);
  }
  std::string where(int line) const {
    return line == 0 ? " (" + template_.chat().name() + ")"
                     : " (" + template_.chat().name() + ":" + std::to_string(line) + ")";
  }

  std::string_view part(std::size_t begin, std::size_t end) const {
    return std::string_view(whole_.text).substr(begin, end - begin);
  }

  /// The second way: the text up to the turn, with the prompt for an answer, and the text with the turn.
  TextSpan by_prefixes(std::size_t turn) const {
    TextSpan span;
    for (const bool is_end : {false, true}) {
      const std::size_t num_turns = turn + (is_end ? 1 : 0);
      if (is_end && num_turns == conversation_.messages.size()) return {span.begin, whole_.text.size()};
      const std::string text = num_turns == 0 ? "" : format_.render(conversation_, num_turns, !is_end).text;
      const auto same = std::mismatch(text.begin(), text.end(), whole_.text.begin(), whole_.text.end()).first;
      const auto equal = static_cast<std::size_t>(same - text.begin());
      if (equal < text.size())
        throw fail_turn(turn,
                        "the conversation up to " + std::string(is_end ? "and with" : "") +
                            " this turn has another text alone than with the turns behind it: " +
                            shown(std::string_view(text).substr(equal)) + " and " +
                            shown(part(equal, whole_.text.size())),
                        whole_.line_of(equal))
            .hint("the template changes earlier turns; set dataset.loss_on: last, or another dataset.chat_template");
      (is_end ? span.end : span.begin) = text.size();
    }
    return span;
  }

  TextSpan span_of(std::size_t turn, std::size_t number) const {
    const TextSpan prefixes = by_prefixes(turn);
    const bool has_blocks = template_.chat().has_generation();
    const TextSpan own = has_blocks ? whole_.generated[number] : by_marker(turn);
    const std::string_view before =
        own.begin >= prefixes.begin ? part(prefixes.begin, own.begin) : part(own.begin, prefixes.begin);
    const bool ends_inside = own.end <= prefixes.end;
    const std::string_view after = ends_inside ? part(own.end, prefixes.end) : std::string_view("x");
    // Without blocks, the turn may begin with the template's own words, such as an empty <think></think>.
    const bool begins_right = is_blank(before) || (!has_blocks && own.begin > prefixes.begin);
    if (!begins_right || !ends_inside || (has_blocks && !is_blank(after)))
      throw fail_turn(turn,
                      "two ways to find the assistant's text disagree: " +
                          std::string(has_blocks ? "{% generation %} has " : "the content is ") +
                          shown(part(own.begin, own.end)) + ", and the difference of prefixes is " +
                          shown(part(prefixes.begin, prefixes.end)),
                      own.line)
          .hint("set dataset.chat_template to a template whose prompt for an answer ends where the answer begins");
    if (has_blocks) return own;
    const std::string_view ending = after.substr(0, after.find_last_not_of(" \t\r\n") + 1);
    return {prefixes.begin, own.end + ending.size(), own.line};
  }

  /// The first way without {% generation %}: a marker in the place of the content.
  TextSpan by_marker(std::size_t turn) const {
    const Json& message = conversation_.messages[turn];
    const auto content = message.find("content");
    if (content == message.end() || !content->is_string())
      throw fail_turn(turn, "its content is no text, and the template has no {% generation %} blocks", 0);
    Conversation marked = conversation_;
    marked.messages[turn]["content"] = kMarker;
    const std::string text = format_.render(marked).text;
    const std::size_t found = text.find(kMarker);
    const std::size_t behind = found == std::string::npos ? 0 : text.size() - found - kMarker.size();
    const std::string& whole = whole_.text;
    const bool fits = found != std::string::npos && text.find(kMarker, found + 1) == std::string::npos &&
                      found + behind <= whole.size() && whole.compare(0, found, text, 0, found) == 0 &&
                      whole.compare(whole.size() - behind, behind, text, text.size() - behind, behind) == 0;
    const std::string own = content->get<std::string>();
    if (fits && without_blanks(part(found, whole.size() - behind)) == without_blanks(own))
      return {found, whole.size() - behind, whole_.line_of(found)};
    throw fail_turn(turn, "the text does not have this turn's content once and unchanged: " + shown(own),
                    fits ? whole_.line_of(found) : 0)
        .hint("set dataset.chat_template to a template with {% generation %} blocks");
  }

  const ChatFormat& format_;
  const ParsedTemplate& template_;
  const Conversation& conversation_;
  Rendered whole_;
};

}  // namespace

MarkedText mark_conversation(const ChatFormat& format, const Conversation& conversation) {
  return Marking(format, conversation).run();
}

}  // namespace trainctl::dataset
