// Which Spans a thread is in, and which ended last: what a run was doing when it stopped.
#pragma once

#include <memory>
#include <optional>
#include <string>

namespace trainctl::runtime {

/// Listens to the thread that made it, and to autograd's threads while they work for it; 0.2 µs a Span. Ends on that
/// thread; every thread may ask.
class SpanLog {
 public:
  SpanLog();
  ~SpanLog();
  SpanLog(const SpanLog&) = delete;
  SpanLog& operator=(const SpanLog&) = delete;

  /// The innermost Span, and since when.
  struct Open {
    std::string name;
    double seconds = 0;
  };
  std::optional<Open> innermost() const;
  /// A line for each Span that is open, outermost first; then for each of those that ended last, in that order.
  std::string text() const;

 private:
  struct Listening;
  std::unique_ptr<Listening> listening_;
};

}  // namespace trainctl::runtime
