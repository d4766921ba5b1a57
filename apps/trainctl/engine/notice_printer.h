// Shows notices on stderr: for commands that leave no files behind.
#pragma once

#include "core/log.h"
#include "tracking/tracking.h"

namespace trainctl::engine {

class NoticePrinter final : public tracking::Sink {
 public:
  void on(const tracking::Event& event) override {
    if (const auto* notice = std::get_if<tracking::Notice>(&event))
      core::log().write(notice->level == tracking::Level::warning ? core::Severity::warning : core::Severity::info,
                        notice->text);
  }
};

}  // namespace trainctl::engine
