// Environment variables of a test.
#pragma once

#include <cstdlib>
#include <optional>
#include <string>

namespace trainctl::testing {

/// Sets a variable, or removes it where `value` is null; the former value comes back at the end of the object's life.
class EnvironmentVariable {
 public:
  EnvironmentVariable(std::string name, const char* value) : name_(std::move(name)) {
    if (const char* former = std::getenv(name_.c_str())) former_ = former;
    set(value);
  }
  EnvironmentVariable(const EnvironmentVariable&) = delete;
  EnvironmentVariable& operator=(const EnvironmentVariable&) = delete;
  ~EnvironmentVariable() { set(former_ ? former_->c_str() : nullptr); }

 private:
  void set(const char* value) {
    if (value == nullptr)
      ::unsetenv(name_.c_str());
    else
      ::setenv(name_.c_str(), value, /*overwrite=*/1);
  }

  std::string name_;
  std::optional<std::string> former_;
};

}  // namespace trainctl::testing
