// Members of values: entries of dicts, and the methods of Python's str, list and dict.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "chat_template/value.h"

namespace trainctl::chat_template {

using Method = Value (*)(const Value& self, const Arguments& arguments);
using MethodTable = std::map<std::string_view, Method>;

const MethodTable& text_methods();

/// `object.name`: a method, else an entry, else undefined. Methods that would change the object are refused.
Value member_of(const Value& object, const std::string& name);
/// `object[key]`: an item, else the member of that name, else undefined.
Value item_or_member(const Value& object, const Value& key);

}  // namespace trainctl::chat_template
