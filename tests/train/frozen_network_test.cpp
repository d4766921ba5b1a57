#include "train/run/frozen_network.h"

#include "ranks.h"

namespace trainctl::train {

using namespace testing;

TEST_CASE("layers that init_from lacks are the same in the student and in the reference of dpo",
          "[train][regression]") {
  const TemporaryDirectory directory;
  experiment::Experiment experiment = experiment_of({.language_model = true}, 1);
  experiment.model.init_from = write_other_weights(directory, experiment, ".h.1.");
  experiment.model.init_policy = model::InitPolicy::partial;
  const std::unique_ptr<Run> run = build_run(experiment);
  experiment.task = task::DpoConfig{};
  std::vector<tracking::Notice> notices;
  const task::Companions companions =
      load_companions(experiment, *run->model, run->data, {.device = at::kCPU, .seed = 7, .notices = notices});
  REQUIRE(companions.reference);
  const std::vector<model::NamedTensor> student = model::named_parameters(*run->model);
  const std::vector<model::NamedTensor> reference = model::named_parameters(*companions.reference);
  REQUIRE(reference.size() == student.size());
  for (std::size_t i = 0; i < student.size(); ++i) {
    CAPTURE(student[i].name);
    CHECK(reference[i].tensor.equal(student[i].tensor));
  }
}

TEST_CASE("the checksum of a reference changes with its weights alone", "[train][regression]") {
  const TemporaryDirectory directory;
  const experiment::Experiment experiment = experiment_of({.language_model = true}, 1);
  const std::unique_ptr<Run> run = build_run(experiment);
  const auto checksum = [&](std::int64_t seed) {
    experiment::Experiment other = experiment;
    other.seed = seed;
    other.task = task::DpoConfig{.reference = write_other_weights(directory, other)};
    std::vector<tracking::Notice> notices;
    return load_companions(other, *run->model, run->data, {.device = at::kCPU, .seed = 7, .notices = notices})
        .checksums.at("task.reference");
  };
  const std::string first = checksum(1);
  CHECK(checksum(1) == first);
  CHECK(checksum(2) != first);
}

}  // namespace trainctl::train
