#include "chat_template/objects.h"

#include <algorithm>
#include <array>

#include "chat_template/operations.h"

namespace trainctl::chat_template {
namespace {

constexpr std::int64_t kMostRange = 100'000;  // MAX_RANGE of jinja2.sandbox

/// namespace(…): the one kind of object whose members a template can set.
class Namespace final : public Object {
 public:
  explicit Namespace(const Arguments& arguments) {
    if (arguments.positional.size() > 1)
      throw TemplateProblem("namespace takes named arguments, and one mapping at most");
    for (const Value& one : arguments.positional) {
      const Mapping* const mapping = one.as_mapping();
      if (mapping == nullptr) throw TemplateProblem("namespace takes named arguments, and one mapping at most");
      for (const auto& [key, value] : mapping->items) set_member(key.printed(), value);
    }
    for (const auto& [name, value] : arguments.named) set_member(name, value);
  }
  std::string_view type_name() const override { return "Namespace"; }
  std::optional<Value> member(std::string_view name) const override {
    const Value* const found = values_.find(name);
    return found == nullptr ? std::nullopt : std::optional<Value>(*found);
  }
  bool set_member(const std::string& name, Value value) override {
    values_.set(Value::text(name), std::move(value));
    return true;
  }

 private:
  Mapping values_;
};

Value make_namespace(const Arguments& arguments) {
  return std::static_pointer_cast<Object>(std::make_shared<Namespace>(arguments));
}

Value make_range(const Arguments& arguments) {
  const std::size_t count = arguments.positional.size();
  if (count < 1 || count > 3 || !arguments.named.empty()) throw TemplateProblem("range takes one to three integers");
  std::array<std::int64_t, 3> bounds = {0, 0, 1};
  for (std::size_t i = 0; i < count; ++i) {
    const auto integer = arguments.positional[i].as_integer();
    if (!integer)
      throw TemplateProblem("range takes integers, got '" + std::string(arguments.positional[i].type_name()) + "'");
    bounds[count == 1 ? 1 : i] = *integer;
  }
  const auto [begin, end, step] = bounds;
  if (step == 0) throw TemplateProblem("range() arg 3 must not be zero");
  std::vector<Value> items;
  for (std::int64_t i = begin; step > 0 ? i < end : i > end;) {
    items.emplace_back(i);
    if (static_cast<std::int64_t>(items.size()) > kMostRange)
      throw TemplateProblem("range is too large; the most is " + std::to_string(kMostRange) + " items");
    if (__builtin_add_overflow(i, step, &i)) break;  // past the end
  }
  return Value::sequence(SequenceKind::range, std::move(items));
}

Value make_dict(const Arguments& arguments) {
  Mapping mapping;
  for (const Value& one : arguments.positional) {
    const Mapping* const from = one.as_mapping();
    if (from == nullptr) throw TemplateProblem("dict takes a mapping and named arguments");
    for (const auto& [key, value] : from->items) mapping.set(key, value);
  }
  for (const auto& [name, value] : arguments.named) mapping.set(Value::text(name), value);
  return Value::mapping(std::move(mapping));
}

Value raise_exception(const Arguments& arguments) {
  const Parameters given(arguments, "raise_exception", {"message"});
  throw TemplateProblem("the template refuses the messages: " + given.required("message").printed());
}

Value strftime_now(const std::optional<std::tm>& now, const Arguments& arguments) {
  const Parameters given(arguments, "strftime_now", {"format"});
  if (!now)
    throw TemplateProblem(
        "the template asks for today's date (strftime_now), by which the text would differ from day to day");
  std::array<char, 1024> buffer{};
  const std::size_t length = std::strftime(buffer.data(), buffer.size(), given.text("format").c_str(), &*now);
  return Value::text(std::string(buffer.data(), length));
}

}  // namespace

Value function(Function::Body body) {
  return std::static_pointer_cast<Object>(std::make_shared<Function>(std::move(body)));
}

std::optional<Value> Loop::member(std::string_view name) const {
  const std::size_t count = items_.size();
  if (name == "index") return Value::number(index_ + 1);
  if (name == "index0") return Value::number(index_);
  if (name == "revindex") return Value::number(count - index_);
  if (name == "revindex0") return Value::number(count - index_ - 1);
  if (name == "first") return Value(index_ == 0);
  if (name == "last") return Value(index_ + 1 == count);
  if (name == "length") return Value::number(count);
  if (name == "depth") return Value(depth_ + 1);
  if (name == "depth0") return Value(depth_);
  if (name == "previtem") return index_ > 0 ? items_[index_ - 1] : Value::undefined("there is no previous item");
  if (name == "nextitem") return index_ + 1 < count ? items_[index_ + 1] : Value::undefined("there is no next item");
  return function_member(name);
}

std::optional<Value> Loop::function_member(std::string_view name) const {
  if (name == "cycle")
    return function([index = index_](const Arguments& arguments) {
      if (arguments.positional.empty()) throw TemplateProblem("no items for cycling given");
      return arguments.positional[index % arguments.positional.size()];
    });
  if (name == "changed")
    return function([last = last_changed_](const Arguments& arguments) -> Value {
      const Value now = Value::tuple(arguments.positional);
      if (*last && equal(**last, now)) return false;
      *last = now;
      return true;
    });
  return std::nullopt;
}

void define_globals(Scope& scope, const RenderOptions& options) {
  scope.set("range", function(make_range));
  scope.set("dict", function(make_dict));
  scope.set("namespace", function(make_namespace));
  scope.set("raise_exception", function(raise_exception));
  scope.set("strftime_now",
            function([now = options.now](const Arguments& arguments) { return strftime_now(now, arguments); }));
}

}  // namespace trainctl::chat_template
