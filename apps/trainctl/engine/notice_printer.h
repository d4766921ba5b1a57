// Shows notices on stderr: for commands that leave no files behind.
#pragma once

#include <cstdio>

#include "tracking/tracking.h"

namespace trainctl::engine {

class NoticePrinter final : public tracking::Sink {
 public:
  void on(const tracking::Event& event) override {
    if (const auto* notice = std::get_if<tracking::Notice>(&event))
      std::fprintf(stderr, "%s%s\n", notice->level == tracking::Level::warning ? "warning: " : "",
                   notice->text.c_str());
  }
};

}  // namespace trainctl::engine
