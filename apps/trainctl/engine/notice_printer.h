// Shows notices on stderr: for commands that leave no files behind.
#pragma once

#include <cstdio>

#include "tracking/tracking.h"

namespace trainctl {

class NoticePrinter final : public Sink {
 public:
  void on(const Event& event) override {
    if (const auto* notice = std::get_if<Notice>(&event))
      std::fprintf(stderr, "%s%s\n", notice->level == Level::warning ? "warning: " : "", notice->text.c_str());
  }
};

}  // namespace trainctl
