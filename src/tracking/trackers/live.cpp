#include "tracking/trackers/live.h"

#include <optional>
#include <utility>

namespace trainctl::tracking {
namespace {

class LiveDelivery final : public Sink {
 public:
  explicit LiveDelivery(DeliveryOptions options) : options_(std::move(options)) {}

  void on(const Event& event) override {
    const bool is_end = std::holds_alternative<RunFinished>(event);
    if (!is_end && !std::holds_alternative<RunStarted>(event) && !std::holds_alternative<StepLogged>(event) &&
        !std::holds_alternative<Evaluated>(event))
      return;
    if (!delivery_) delivery_.emplace(options_);  // unless another process delivers the run
    while (delivery_->deliver() > 0) continue;
    if (is_end) delivery_->finish();
  }

 private:
  DeliveryOptions options_;
  std::optional<Delivery> delivery_;
};

}  // namespace

std::unique_ptr<Sink> make_live_delivery(const DeliveryOptions& options) {
  return std::make_unique<LiveDelivery>(options);
}

}  // namespace trainctl::tracking
