#include "chat_template/members.h"

#include <algorithm>
#include <set>

#include "chat_template/operations.h"

namespace trainctl::chat_template {
namespace {

/// A method with its object.
class BoundMethod final : public Object {
 public:
  BoundMethod(Value self, std::string name, Method method)
      : self_(std::move(self)), name_(std::move(name)), method_(method) {}
  std::string_view type_name() const override { return "builtin_function_or_method"; }
  bool is_callable() const override { return true; }
  Value call(const Arguments& arguments) override { return method_(self_, arguments); }

 private:
  Value self_;
  std::string name_;
  Method method_;
};

Value dict_items(const Value& self, const Arguments& arguments) {
  const Parameters none(arguments, "the method", {});
  std::vector<Value> items;
  for (const auto& [key, value] : self.as_mapping()->items) items.push_back(Value::tuple({key, value}));
  return Value::sequence(SequenceKind::dict_items, std::move(items));
}
Value dict_keys(const Value& self, const Arguments& arguments) {
  const Parameters none(arguments, "the method", {});
  return Value::sequence(SequenceKind::dict_keys, items_of(self));
}
Value dict_values(const Value& self, const Arguments& arguments) {
  const Parameters none(arguments, "the method", {});
  std::vector<Value> values;
  for (const auto& [key, value] : self.as_mapping()->items) values.push_back(value);
  return Value::sequence(SequenceKind::dict_values, std::move(values));
}
Value dict_get(const Value& self, const Arguments& arguments) {
  const Parameters given(arguments, "get", {"key", "default"});
  const Value* const found = self.as_mapping()->find(given.required("key"));
  return found == nullptr ? given.get("default", None{}) : *found;
}
Value copied(const Value& self, const Arguments& arguments) {
  const Parameters none(arguments, "the method", {});
  return self;
}

Value list_index(const Value& self, const Arguments& arguments) {
  const Parameters given(arguments, "index", {"value"});
  const std::vector<Value>& items = self.as_sequence()->items;
  for (std::size_t i = 0; i < items.size(); ++i)
    if (equal(items[i], given.required("value"))) return Value::number(i);
  throw TemplateProblem(given.required("value").represented() + " is not in list");
}
Value list_count(const Value& self, const Arguments& arguments) {
  const Parameters given(arguments, "count", {"value"});
  const std::vector<Value>& items = self.as_sequence()->items;
  return Value::number(static_cast<std::size_t>(std::count_if(
      items.begin(), items.end(), [&](const Value& item) { return equal(item, given.required("value")); })));
}

const MethodTable& methods_of(const Value& object) {
  static const MethodTable none;
  static const MethodTable of_dict = {
      {"items", dict_items}, {"keys", dict_keys}, {"values", dict_values}, {"get", dict_get}, {"copy", copied}};
  static const MethodTable of_list = {{"index", list_index}, {"count", list_count}, {"copy", copied}};
  if (object.is_text()) return text_methods();
  if (object.as_mapping() != nullptr) return of_dict;
  return has_places(object) ? of_list : none;
}

bool is_changing(const Value& object, const std::string& name) {
  static const std::set<std::string_view> of_dict = {"clear", "pop", "popitem", "setdefault", "update"};
  static const std::set<std::string_view> of_list = {"append", "clear",   "extend", "insert",
                                                     "pop",    "reverse", "remove", "sort"};
  if (object.as_mapping() != nullptr) return of_dict.contains(name);
  return object.as_sequence() != nullptr && of_list.contains(name);
}

}  // namespace

Value member_of(const Value& object, const std::string& name) {
  if (const auto* undefined = object.get_if<Undefined>()) throw TemplateProblem(undefined->what);
  if (const auto own = object.as_object())
    if (const auto found = own->member(name)) return *found;
  const MethodTable& methods = methods_of(object);
  if (const auto method = methods.find(name); method != methods.end())
    return std::static_pointer_cast<Object>(std::make_shared<BoundMethod>(object, name, method->second));
  if (is_changing(object, name))
    throw TemplateProblem("access to attribute '" + name + "' of '" + std::string(object.type_name()) +
                          "' object is unsafe: the sandbox lets no template change a value");
  if (const Mapping* mapping = object.as_mapping())
    if (const Value* found = mapping->find(std::string_view(name))) return *found;
  return Value::undefined("'" + std::string(object.type_name()) + " object' has no attribute '" + name + "'");
}

Value item_or_member(const Value& object, const Value& key) {
  Value found = item_of(object, key);
  if (!found.is_undefined() || !key.is_text()) return found;
  Value member = member_of(object, *key.as_text());
  return member.is_undefined() ? found : member;
}

}  // namespace trainctl::chat_template
