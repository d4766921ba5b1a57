// A small config with one of everything, for the tests of the config library.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/field.h"

namespace sample {

using trainctl::config::choice;
using trainctl::config::field;

enum class Mode { fp32, tf32, bf16, fp16 };

struct Adam {
  static constexpr std::string_view kind = "adam";
  double beta = 0.9;
  static constexpr auto fields() {
    return trainctl::config::Fields{field<&Adam::beta>("Decay.", trainctl::config::below_one)};
  }
};

struct Sgd {
  static constexpr std::string_view kind = "sgd";
  double momentum = 0;
  std::int64_t stride = 1;
  static constexpr auto fields() {
    return trainctl::config::Fields{field<&Sgd::momentum>("Share kept.", trainctl::config::below_one),
                                    field<&Sgd::stride>("Stride.", trainctl::config::at_least(1))};
  }
};

struct Files {
  std::string images;
  std::string labels;
  static constexpr auto fields() {
    using namespace trainctl::config;
    return trainctl::config::Fields{field<&Files::images>("Images.", non_empty & required),
                                    field<&Files::labels>("Labels.", non_empty & required)};
  }
};

struct Optimizer {
  trainctl::config::OneOf<Adam, Sgd> rule;
  double lr = 0.001;
  double weight_decay = 0;
  std::optional<double> clip;
  static constexpr auto fields() {
    using namespace trainctl::config;
    return trainctl::config::Fields{choice<&Optimizer::rule>("Rule."), field<&Optimizer::lr>("Rate.", positive),
                                    field<&Optimizer::weight_decay>("Decay.", non_negative),
                                    field<&Optimizer::clip>("Norm.", positive)};
  }
};

struct Root {
  std::string name;
  std::int64_t seed = 0;
  bool shuffle = true;
  Mode mode = Mode::fp32;
  trainctl::config::AutoOr<std::int64_t> workers;
  std::vector<std::int64_t> channels = {16, 32};
  std::optional<Files> eval;
  Optimizer optimizer;
  std::vector<trainctl::config::OneOf<Adam, Sgd>> steps;
  trainctl::config::OneOf<Adam, Sgd> scaling;

  static constexpr auto fields() {
    using namespace trainctl::config;
    return trainctl::config::Fields{
        field<&Root::name>("Name.", non_empty & required),
        field<&Root::seed>("Seed.", at_least(0)),
        field<&Root::shuffle>("Shuffle."),
        field<&Root::mode>("Mode."),
        field<&Root::workers>("Workers.", between(0, 64)),
        field<&Root::channels>("Channels.", non_empty & at_least(1) & trainctl::config::any_seed),
        field<&Root::eval>("Files."),
        field<&Root::optimizer>("Optimizer."),
        field<&Root::steps>("Steps."),
        field<&Root::scaling>("Scaling.")};
  }
};

}  // namespace sample
