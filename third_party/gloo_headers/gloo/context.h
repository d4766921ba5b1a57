// LibTorch's c10d/ProcessGroupGloo.hpp includes Gloo's headers, but its packages lack them (the library has Gloo linked
// in). These declarations are what that header names; nothing here is defined, constructed or laid out by this project.
#pragma once

#include <chrono>
#include <memory>

namespace gloo {

namespace transport {
class UnboundBuffer {
 public:
  virtual ~UnboundBuffer() = 0;
};
}  // namespace transport

class Context {
 public:
  virtual ~Context();
  void setTimeout(std::chrono::milliseconds timeout);
};

}  // namespace gloo
