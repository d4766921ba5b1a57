#include "config/plugged.h"

#include <catch2/catch.hpp>
#include <string>

#include "config/emit.h"
#include "config/parse.h"
#include "config/read.h"
#include "config/reference.h"
#include "config/schema.h"
#include "config/shape.h"
#include "config/write.h"

namespace trainctl::config::plugged_test {
namespace {

struct Circle {
  static constexpr std::string_view kind = "circle";
  double radius = 1;
  static constexpr auto fields() { return Fields{field<&Circle::radius>("Radius.", positive)}; }
  double area() const { return 3 * radius * radius; }
};

struct AreaInterface {
  double (*area)(const void* config);
};

struct PluggedFigure : Plugged<AreaInterface> {
  using Plugged::Plugged;
  double area() const { return interface().area(config()); }
};

/// A config struct as a plug-in has it, for two kinds.
template <int Corners>
struct Polygon {
  static constexpr std::string_view kind = Corners == 3 ? "triangle" : "square";
  double side = Corners;
  std::vector<std::string> labels{};
  static constexpr auto fields() {
    return Fields{field<&Polygon::side>("Length of a side.", positive), field<&Polygon::labels>("Names.")};
  }
  double area() const { return side * side / (Corners == 3 ? 2 : 1); }
};

template <class Config>
PluggedKind<AreaInterface> as_plugged() {
  return plugged_kind<Config>(
      AreaInterface{.area = [](const void* config) { return plugged_config<Config>(config).area(); }});
}

using Figure = OneOf<Circle, PluggedFigure>;

struct Drawing {
  Figure figure;
  std::vector<Figure> more{};
  static constexpr auto fields() {
    return Fields{field<&Drawing::figure>("What is drawn."), field<&Drawing::more>("What else.")};
  }
};

double area_of(const Figure& figure) {
  return figure.visit([](const auto& one) { return one.area(); });
}

/// The kinds of plug-ins are of the process: they are added once, the square after the shape was looked at.
const Shape& figures() {
  static const bool added = [] {
    PluggedKinds<AreaInterface>::all().add(as_plugged<Polygon<3>>());
    shape_of<Figure>();
    PluggedKinds<AreaInterface>::all().add(as_plugged<Polygon<4>>());
    return true;
  }();
  static_cast<void>(added);
  return shape_of<Drawing>();
}

std::optional<Drawing> read_drawing(const std::string& text, Problems& problems) {
  const Shape& shape = figures();
  const auto root = parse(text, {}, problems);
  if (!root) return std::nullopt;
  Drawing drawing;
  read_into(shape, *root, &drawing, problems);
  return drawing;
}

TEST_CASE("a kind of a plug-in is read, written and asked as our own", "[config]") {
  Problems problems;
  const auto drawing = read_drawing("figure: {kind: square, side: 5}\nmore: [circle, triangle]\n", problems);
  REQUIRE(problems.empty());
  CHECK(drawing->figure.kind() == "square");
  CHECK(area_of(drawing->figure) == 25);
  REQUIRE(drawing->more.size() == 2);
  CHECK(area_of(drawing->more[0]) == 3);
  CHECK(area_of(drawing->more[1]) == 4.5);
  const std::string written = emit(write(*drawing));
  const auto again = read_drawing(written, problems);
  REQUIRE(problems.empty());
  CHECK(area_of(again->figure) == 25);
  CHECK(again->more[1].kind() == "triangle");
}

TEST_CASE("a copy of a plug-in's config has values of its own", "[config]") {
  Problems problems;
  auto drawing = read_drawing("figure: {kind: square, side: 5}\n", problems);
  const Figure copy = drawing->figure;
  const auto root = parse("figure: {kind: square, side: 2}\n", {}, problems);
  read_into(figures(), *root, &*drawing, problems);
  CHECK(area_of(drawing->figure) == 4);
  CHECK(area_of(copy) == 25);
  Figure other = Circle{};
  other = copy;
  CHECK(area_of(other) == 25);
}

TEST_CASE("mistakes in a plug-in's keys are reported as in our own", "[config]") {
  Problems problems;
  read_drawing("figure: {kind: square, sied: 5, side: -1}\nmore: [{kind: sqare}]\n", problems);
  std::string text;
  for (const core::Problem& problem : problems.sorted()) text += problem.text() + "\n";
  CHECK(text.find("did you mean 'side'?") != std::string::npos);
  CHECK(text.find("figure.side") != std::string::npos);
  CHECK(text.find("did you mean 'square'?") != std::string::npos);
}

TEST_CASE("schema and reference list the kinds of plug-ins", "[config]") {
  const std::string reference = markdown_reference(figures(), "Drawing", {});
  CHECK(reference.find("`triangle`") != std::string::npos);
  CHECK(reference.find("Length of a side.") != std::string::npos);
  CHECK(json_schema(figures(), "Drawing").find("\"square\"") != std::string::npos);
}

}  // namespace
}  // namespace trainctl::config::plugged_test
