#include "core/file_name.h"

namespace trainctl::core {

std::string file_name_of(std::string text) {
  for (char& c : text)
    if (c == '/' || static_cast<unsigned char>(c) < ' ') c = '_';
  if (text == "." || text == "..") text.assign(text.size(), '_');
  return text;
}

}  // namespace trainctl::core
