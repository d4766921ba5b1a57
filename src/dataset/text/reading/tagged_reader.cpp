#include "dataset/text/reading/tagged_reader.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/text.h"
#include "dataset/text/reading/text_reader.h"

namespace trainctl::dataset {
namespace {

constexpr std::string_view kDocumentStart = "-DOCSTART-";
constexpr std::string_view kColumnsComment = "# global.columns =";  // CoNLL-U Plus

using SentenceUse = std::function<void(TaggedSentence)>;

/// Returns the number of a column; 0 if the name is no number.
std::int64_t column_number(const std::string& name) {
  std::int64_t number = 0;
  const char* end = name.data() + name.size();
  const auto [stop, problem] = std::from_chars(name.data(), end, number);
  return problem == std::errc() && stop == end && number > -1000 && number < 1000 ? number : 0;
}

std::vector<std::string_view> split(std::string_view line, ColumnSeparator separator) {
  std::vector<std::string_view> cells;
  const char* const ends = separator == ColumnSeparator::tab ? "\t" : separator == ColumnSeparator::space ? " " : " \t";
  while (true) {
    if (separator == ColumnSeparator::whitespace)
      line.remove_prefix(std::min(line.find_first_not_of(ends), line.size()));
    const std::size_t end = line.find_first_of(ends);
    if (separator != ColumnSeparator::whitespace || !line.empty()) cells.push_back(line.substr(0, end));
    if (end == std::string_view::npos) return cells;
    line.remove_prefix(end + 1);
  }
}

bool is_blank(std::string_view line) {
  return line.find_first_not_of(" \t") == std::string_view::npos;
}

/// A reader of a file of columns, sentence by sentence.
class ConllReader {
 public:
  ConllReader(const TaggedText& options, std::string path, const SentenceUse& use)
      : options_(options),
        use_(use),
        file_(path, {.invalid = options.encoding_errors}),
        word_(options.word.value_or("1")),
        tag_(options.tag.value_or("-1")) {
    sentence_.file = std::move(path);
  }

  void read() {
    std::string_view text = file_.text();
    while (!text.empty()) {
      const std::string_view line = take_line(text);
      ++line_;
      check_line_bytes(line, options_.max_line_bytes, place_of(sentence_.file, line_));
      read_line(line);
    }
    end_sentence();
  }

 private:
  void read_line(std::string_view line) {
    if (line_ <= options_.header_lines) {
      if (line_ == 1) name_columns(split(line, options_.separator));
      return;
    }
    if (line.starts_with(kColumnsComment))
      return name_columns(split(line.substr(kColumnsComment.size()), ColumnSeparator::whitespace));
    if (!options_.comment.empty() && line.starts_with(options_.comment)) return;
    if (is_blank(line)) return end_sentence();
    const std::vector<std::string_view> cells = split(line, options_.separator);
    const std::string_view word = cell(cells, word_);
    if (word == kDocumentStart) return end_sentence();
    const std::string_view tag = cell(cells, tag_);
    for (const auto& [value, name] : {std::pair(word, "word"), std::pair(tag, "tag")})
      if (value.empty()) throw core::Error(place_of(sentence_.file, line_) + ": the " + name + " is empty");
    if (cells.size() == 1)
      throw core::Error(place_of(sentence_.file, line_) +
                        ": this line has one column, and a word needs a tag beside it")
          .hint("set separator, and word and tag to the columns");
    sentence_.words.emplace_back(word);
    sentence_.tags.emplace_back(tag);
    sentence_.lines.push_back(line_);
  }

  void name_columns(const std::vector<std::string_view>& names) { names_.assign(names.begin(), names.end()); }

  std::string_view cell(const std::vector<std::string_view>& cells, const std::string& column) const {
    const auto count = static_cast<std::int64_t>(cells.size());
    const std::int64_t number = place_of_column(column);
    const std::int64_t index = number < 0 ? count + number : number - 1;
    if (index >= 0 && index < count) return cells[static_cast<std::size_t>(index)];
    throw core::Error(place_of(sentence_.file, line_) + ": this line has " + std::to_string(count) +
                      (count == 1 ? " column" : " columns") + ", and '" + column + "' is number " +
                      std::to_string(number))
        .hint("is separator right? lines of another kind are named by comment");
  }

  std::int64_t place_of_column(const std::string& column) const {
    const auto found = std::find(names_.begin(), names_.end(), column);
    if (found != names_.end()) return found - names_.begin() + 1;
    if (const std::int64_t number = column_number(column); number != 0) return number;
    const std::string near = core::nearest_word(column, names_);
    throw core::Error(place_of(sentence_.file, line_) + ": there is no column '" + column + "'; " +
                      (names_.empty() ? "no header line names columns" : "the columns are " + core::list_words(names_)))
        .hint(!near.empty() ? "did you mean " + near + "?"
                            : "columns are chosen by number from 1 (-1 is the last), or by name with header_lines: 1");
  }

  void end_sentence() {
    if (sentence_.words.empty()) return;
    TaggedSentence next{.words = {}, .tags = {}, .numbers = {}, .lines = {}, .file = sentence_.file};
    use_(std::exchange(sentence_, std::move(next)));
  }

  const TaggedText& options_;
  const SentenceUse& use_;
  TextFile file_;
  std::string word_;
  std::string tag_;
  std::vector<std::string> names_;
  TaggedSentence sentence_{};
  std::int64_t line_ = 0;
};

const nlohmann::json& list_member(const nlohmann::json& object, const std::string& name, const std::string& place) {
  const auto found = object.find(name);
  if (found == object.end()) {
    std::vector<std::string> names;
    for (const auto& [key, value] : object.items()) names.push_back(key);
    throw core::Error(place + ": this object has no member '" + name + "'; it has " + core::list_words(names))
        .hint("word and tag name the members");
  }
  if (!found->is_array()) throw core::Error(place + ": '" + name + "' should be a list, but is " + found->type_name());
  return *found;
}

TaggedSentence sentence_of(const nlohmann::json& object, const TaggedText& options, const std::string& place) {
  const std::string word_name = options.word.value_or("tokens");
  const std::string tag_name = options.tag.value_or("tags");
  const nlohmann::json& words = list_member(object, word_name, place);
  const nlohmann::json& tags = list_member(object, tag_name, place);
  if (words.size() != tags.size())
    throw core::Error(place + ": '" + word_name + "' has " + std::to_string(words.size()) + " items, '" + tag_name +
                      "' has " + std::to_string(tags.size()));
  TaggedSentence sentence;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (!words[i].is_string() || words[i].get_ref<const std::string&>().empty())
      throw core::Error(place + ": item " + std::to_string(i + 1) + " of '" + word_name +
                        "' should be a text that isn't empty");
    sentence.words.push_back(words[i].get<std::string>());
    if (tags[i].is_string())
      sentence.tags.push_back(tags[i].get<std::string>());
    else if (tags[i].is_number_integer())
      sentence.numbers.push_back(tags[i].get<std::int64_t>());
  }
  if (sentence.tags.size() != words.size() && sentence.numbers.size() != words.size())
    throw core::Error(place + ": '" + tag_name +
                      "' should be a list of names, or of numbers that count dataset.class_names");
  return sentence;
}

}  // namespace

void read_tagged(const TaggedText& files, const SentenceUse& use) {
  bool any = false;
  const SentenceUse counted = [&](TaggedSentence sentence) {
    any = true;
    use(std::move(sentence));
  };
  for (const std::string& file : files.files) {
    if (format_of(file, files.format) == TaggedFormat::conll) {
      ConllReader(files, file, counted).read();
      continue;
    }
    const TextFileOptions options{
        .format = TextFormat::jsonl, .max_line_bytes = files.max_line_bytes, .encoding_errors = files.encoding_errors};
    read_json_lines(file, options, [&](const nlohmann::json& object, std::int64_t line) {
      TaggedSentence sentence = sentence_of(object, files, place_of(file, line));
      if (sentence.words.empty()) return;
      sentence.file = file;
      sentence.lines.assign(sentence.words.size(), line);
      counted(std::move(sentence));
    });
  }
  if (!any) throw core::Error("no sentences in " + core::list_words(files.files));
}

}  // namespace trainctl::dataset
