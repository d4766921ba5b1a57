#include <algorithm>
#include <charconv>

#include "chat_template/members.h"
#include "chat_template/operations.h"
#include "chat_template/python_text.h"

namespace trainctl::chat_template {
namespace {

const std::string& own_text(const Value& self) {
  return *self.as_text();
}

template <StripSide side>
Value text_strip(const Value& self, const Arguments& arguments) {
  const Parameters given(arguments, "strip", {"chars"});
  if (given.get("chars", None{}).is<None>()) return Value::text(strip(own_text(self), side));
  return Value::text(strip(own_text(self), side, given.text("chars")));
}

template <LetterCase wanted>
Value text_case(const Value& self, const Arguments& arguments) {
  const Parameters none(arguments, "the method", {});
  return checked_text(with_case(own_text(self), wanted));
}

Value texts(const std::vector<std::string>& parts) {
  std::vector<Value> items;
  for (const std::string& part : parts) items.push_back(Value::text(part));
  return Value::list(std::move(items));
}

template <bool from_right>
Value text_split(const Value& self, const Arguments& arguments) {
  const Parameters given(arguments, "split", {"sep", "maxsplit"});
  SplitOptions options{.most = given.integer("maxsplit", -1), .from_right = from_right};
  if (!given.get("sep", None{}).is<None>()) options.separator = given.text("sep");
  if (options.separator && options.separator->empty()) throw TemplateProblem("empty separator");
  return texts(split(own_text(self), options));
}

Value text_splitlines(const Value& self, const Arguments& arguments) {
  const Parameters given(arguments, "splitlines", {"keepends"});
  return texts(split_lines(own_text(self), given.truth("keepends", false)));
}

/// startswith, endswith: also with a tuple of texts.
template <bool at_start>
Value text_has_end(const Value& self, const Arguments& arguments) {
  const Parameters given(arguments, at_start ? "startswith" : "endswith", {"prefix", "start", "end"});
  const Value part = slice_of(self, given.get("start", None{}), given.get("end", None{}), None{});
  const bool starts_behind = given.integer("start", 0) > static_cast<std::int64_t>(length_of(self));
  const Value& wanted = given.required("prefix");
  const Sequence* const several = wanted.as_sequence();
  for (const Value& one : several != nullptr && several->is_tuple() ? several->items : std::vector<Value>{wanted}) {
    if (!one.is_text())
      throw TemplateProblem("startswith and endswith take str or a tuple of str, not " + std::string(one.type_name()));
    if (starts_behind) continue;
    if (at_start ? own_text(part).starts_with(own_text(one)) : own_text(part).ends_with(own_text(one))) return true;
  }
  return false;
}

Value text_replace(const Value& self, const Arguments& arguments) {
  const Parameters given(arguments, "replace", {"old", "new", "count"});
  return checked_text(replaced(own_text(self), given.text("old"), given.text("new"), given.integer("count", -1)));
}

/// find, rfind: the place in code points, or -1.
template <bool from_right>
Value text_find(const Value& self, const Arguments& arguments) {
  const Parameters given(arguments, "find", {"sub"});
  const std::u32string text = code_points(own_text(self));
  const std::u32string part = code_points(given.text("sub"));
  const std::size_t found = from_right ? text.rfind(part) : text.find(part);
  return found == std::u32string::npos ? Value(std::int64_t{-1}) : Value::number(found);
}

Value text_index(const Value& self, const Arguments& arguments) {
  Value found = text_find<false>(self, arguments);
  if (*found.as_integer() < 0) throw TemplateProblem("substring not found");
  return found;
}

Value text_count(const Value& self, const Arguments& arguments) {
  const Parameters given(arguments, "count", {"sub"});
  const std::string part = given.text("sub");
  if (part.empty()) return Value::number(count_code_points(own_text(self)) + 1);
  std::size_t count = 0;
  for (std::size_t at = 0; (at = own_text(self).find(part, at)) != std::string::npos; at += part.size()) ++count;
  return Value::number(count);
}

Value text_join(const Value& self, const Arguments& arguments) {
  const Parameters given(arguments, "join", {"iterable"});
  std::string out;
  bool is_first = true;
  for (const Value& item : items_of(given.required("iterable"))) {
    if (!item.is_text())
      throw TemplateProblem("join takes a sequence of str, got an item of '" + std::string(item.type_name()) + "'");
    out += (is_first ? "" : own_text(self)) + own_text(item);
    is_first = false;
  }
  return checked_text(std::move(out));
}

template <TextProperty property>
Value text_is(const Value& self, const Arguments& arguments) {
  const Parameters none(arguments, "the method", {});
  return has_property(own_text(self), property);
}

template <bool from_right>
Value text_partition(const Value& self, const Arguments& arguments) {
  const Parameters given(arguments, "partition", {"sep"});
  const std::string separator = given.text("sep");
  if (separator.empty()) throw TemplateProblem("empty separator");
  const std::string& text = own_text(self);
  const std::size_t found = from_right ? text.rfind(separator) : text.find(separator);
  if (found == std::string::npos) {
    const Value nothing = Value::text("");
    return Value::tuple(from_right ? std::vector<Value>{nothing, nothing, self}
                                   : std::vector<Value>{self, nothing, nothing});
  }
  return Value::tuple(
      {Value::text(text.substr(0, found)), Value::text(separator), Value::text(text.substr(found + separator.size()))});
}

template <bool prefix>
Value text_remove(const Value& self, const Arguments& arguments) {
  const Parameters given(arguments, "removeprefix and removesuffix", {"affix"});
  const std::string& text = own_text(self);
  const std::string affix = given.text("affix");
  if (prefix ? !text.starts_with(affix) : !text.ends_with(affix)) return self;
  return Value::text(prefix ? text.substr(affix.size()) : text.substr(0, text.size() - affix.size()));
}

enum class Side { left, right };
template <Side side>
Value text_justify(const Value& self, const Arguments& arguments) {
  const Parameters given(arguments, "ljust and rjust", {"width", "fillchar"});
  const std::size_t width = given.width("width", 0);
  const std::string fill = given.find("fillchar") == nullptr ? " " : given.text("fillchar");
  if (count_code_points(fill) != 1) throw TemplateProblem("The fill character must be exactly one character long");
  std::string blanks;
  for (std::size_t size = count_code_points(own_text(self)); size < width; ++size) blanks += fill;
  return checked_text(side == Side::left ? own_text(self) + blanks : blanks + own_text(self));
}

Value text_zfill(const Value& self, const Arguments& arguments) {
  const Parameters given(arguments, "zfill", {"width"});
  const std::size_t width = given.width("width", 0);
  const std::string& text = own_text(self);
  const bool has_sign = text.starts_with('-') || text.starts_with('+');
  const std::size_t size = count_code_points(text);
  const std::string zeros(width > size ? width - size : 0, '0');
  return Value::text(has_sign ? text.substr(0, 1) + zeros + text.substr(1) : zeros + text);
}

/// str.format with {}, {0} and {name}; other fields are refused.
Value text_format(const Value& self, const Arguments& arguments) {
  std::string out;
  std::size_t next = 0;
  const std::string& text = own_text(self);
  for (std::size_t at = 0; at < text.size(); ++at) {
    const char byte = text[at];
    if ((byte == '{' || byte == '}') && at + 1 < text.size() && text[at + 1] == byte) {
      out += text[at++];
    } else if (byte == '}') {
      throw TemplateProblem("Single '}' encountered in format string");
    } else if (byte == '{') {
      const std::size_t end = text.find('}', at);
      if (end == std::string::npos) throw TemplateProblem("Single '{' encountered in format string");
      const std::string field = text.substr(at + 1, end - at - 1);
      const bool is_number = field.find_first_not_of("0123456789") == std::string::npos;
      std::size_t index = std::string::npos;  // of more digits: no argument has it
      if (field.empty())
        index = next++;
      else
        std::from_chars(field.data(), field.data() + field.size(), index);
      const auto named = std::find_if(arguments.named.begin(), arguments.named.end(),
                                      [&](const auto& one) { return one.first == field; });
      if (is_number && index < arguments.positional.size())
        out += arguments.positional[index].printed();
      else if (named != arguments.named.end())
        out += named->second.printed();
      else
        throw TemplateProblem("the field {" + field + "} of str.format has no argument, or its form is not supported");
      at = end;
    } else {
      out += byte;
    }
  }
  return checked_text(std::move(out));
}

}  // namespace

const MethodTable& text_methods() {
  static const MethodTable table = {
      {"strip", text_strip<StripSide::both>},
      {"lstrip", text_strip<StripSide::left>},
      {"rstrip", text_strip<StripSide::right>},
      {"upper", text_case<LetterCase::upper>},
      {"lower", text_case<LetterCase::lower>},
      {"title", text_case<LetterCase::title>},
      {"capitalize", text_case<LetterCase::capitalized>},
      {"swapcase", text_case<LetterCase::swapped>},
      {"split", text_split<false>},
      {"rsplit", text_split<true>},
      {"splitlines", text_splitlines},
      {"startswith", text_has_end<true>},
      {"endswith", text_has_end<false>},
      {"replace", text_replace},
      {"find", text_find<false>},
      {"rfind", text_find<true>},
      {"index", text_index},
      {"count", text_count},
      {"join", text_join},
      {"isdigit", text_is<TextProperty::digit>},
      {"isdecimal", text_is<TextProperty::decimal>},
      {"isalpha", text_is<TextProperty::alpha>},
      {"isalnum", text_is<TextProperty::alnum>},
      {"isspace", text_is<TextProperty::space>},
      {"isupper", text_is<TextProperty::upper>},
      {"islower", text_is<TextProperty::lower>},
      {"istitle", text_is<TextProperty::title>},
      {"partition", text_partition<false>},
      {"rpartition", text_partition<true>},
      {"removeprefix", text_remove<true>},
      {"removesuffix", text_remove<false>},
      {"ljust", text_justify<Side::left>},
      {"rjust", text_justify<Side::right>},
      {"zfill", text_zfill},
      {"format", text_format},
  };
  return table;
}

}  // namespace trainctl::chat_template
