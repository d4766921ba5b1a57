// What LibTorch's errors say, without the stack that their text goes on with.
#pragma once

#include <exception>
#include <string>

namespace trainctl {

std::string first_line(const std::exception& error);

}  // namespace trainctl
