#include "pretrained/class_order.h"

#include <catch2/catch.hpp>

#include "core/error.h"
#include "support/small_files.h"

namespace trainctl::pretrained::class_order_test {

using namespace trainctl::testing;
using Catch::Contains;
using Names = std::vector<std::string>;

TEST_CASE("classes of a published network are the data's, or refused", "[pretrained][regression]") {
  const TemporaryDirectory directory;
  const auto refusal = [&](const std::string& id2label, const Names& ours, ClassesBy by = ClassesBy::user) {
    directory.write("config.json", R"({"model_type": "bert", "id2label": )" + id2label + "}");
    return error_of([&] { check_class_order(open_weights(directory.path()), ours, by); });
  };
  directory.write("model.safetensors", std::string("\x02\0\0\0\0\0\0\0{}", 10));
  const std::string three = R"({"0": "pos", "1": "neg", "2": "mid"})";
  CHECK(refusal(three, {"pos", "neg", "mid"}) == "no error");
  CHECK_THAT(refusal(three, {"mid", "neg", "pos"}), Contains("in another order: pos, neg, mid"));
  CHECK_THAT(refusal(three, {"a", "mid", "neg"}), Contains("in another order"));
  CHECK_THAT(refusal(three, {"Mid", "Neg", "Pos"}), Contains("in another order"));
  CHECK(refusal(three, {"good", "bad", "so so"}) == "no error");  // as the user lists them
  CHECK_THAT(refusal(three, {"good", "bad", "so so"}, ClassesBy::data), Contains("other classes than the data"));
  CHECK(refusal(three, {"a", "b"}, ClassesBy::data) == "no error");  // the head has another size
  CHECK(refusal(R"({"0": "LABEL_0", "1": "LABEL_1"})", {"a", "b"}, ClassesBy::data) == "no error");
}

TEST_CASE("classes that an export lists are the data's, or refused", "[pretrained][regression]") {
  const auto refusal = [](const Names& ours, ClassesBy by = ClassesBy::data) {
    return error_of([&] { check_exported_classes("model.onnx", {"a", "b", "c"}, ours, by); });
  };
  CHECK(refusal({"a", "b", "c"}) == "no error");
  CHECK(refusal({}) == "no error");
  CHECK_THAT(refusal({"b", "c"}), Contains("model.onnx have 3 classes"));
  CHECK_THAT(refusal({"b", "c", "d"}), Contains("in another order: a, b, c"));
  CHECK_THAT(refusal({"x", "y", "z"}), Contains("other classes than the data: a, b, c"));
  CHECK(refusal({"x", "y", "z"}, ClassesBy::user) == "no error");
}

TEST_CASE("classes that are numbers, or differ by case alone, have an order", "[pretrained][regression]") {
  const TemporaryDirectory directory;
  directory.write("model.safetensors", std::string("\x02\0\0\0\0\0\0\0{}", 10));
  const auto refusal = [&](const std::string& id2label, const Names& ours) {
    directory.write("config.json", R"({"model_type": "bert", "id2label": )" + id2label + "}");
    return error_of([&] { check_class_order(open_weights(directory.path()), ours, ClassesBy::user); });
  };
  const std::string numbers = R"({"0": "0", "1": "1", "2": "2"})";
  CHECK_THAT(refusal(numbers, {"0", "2", "1"}), Contains("in another order: 0, 1, 2"));
  CHECK(refusal(numbers, {"0", "1", "2"}) == "no error");
  CHECK(refusal(numbers, {"a", "b", "c"}) == "no error");
  const std::string cases = R"({"0": "us", "1": "US"})";
  CHECK_THAT(refusal(cases, {"US", "us"}), Contains("in another order: us, US"));
  CHECK(refusal(cases, {"us", "US"}) == "no error");
  CHECK_THAT(refusal(R"({"0": "Pos", "1": "Neg"})", {"neg", "pos"}), Contains("in another order"));
}

TEST_CASE("classes in timm's config.json are compared", "[pretrained][regression]") {
  const TemporaryDirectory directory;
  directory.write("model.safetensors", std::string("\x02\0\0\0\0\0\0\0{}", 10));
  const auto refusal = [&](const std::string& keys) {
    directory.write("config.json", R"({"architecture": "resnet18", )" + keys + "}");
    return error_of([&] { check_class_order(open_weights(directory.path()), {"dog", "cat"}, ClassesBy::user); });
  };
  CHECK_THAT(refusal(R"("label_names": ["cat", "dog"])"), Contains("in another order: cat, dog"));
  CHECK_THAT(refusal(R"("label_names": {"0": "cat", "1": "dog"})"), Contains("in another order"));
  CHECK_THAT(refusal(R"("pretrained_cfg": {"label_names": ["cat", "dog"]})"), Contains("in another order"));
  CHECK(refusal(R"("label_names": ["dog", "cat"])") == "no error");
}

}  // namespace trainctl::pretrained::class_order_test
