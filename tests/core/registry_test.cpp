#include "fedgrab/core/registry.h"

#include <gtest/gtest.h>

#include "tests/data/scratch_folder.h"

namespace fedgrab::registry_test {

struct Shape {
  virtual ~Shape() = default;
  virtual double area() const { return 0; }
};

struct SquareParams {
  double side = 2;
  template <class Visitor>
  void describe(Visitor& v) {
    v.param("side", side, "length of a side").between(0, 10);
  }
};

struct Square : Shape {
  using Params = SquareParams;
  static constexpr const char* name = "square";
  explicit Square(Params params) : side(params.side) {}
  double area() const override { return side * side; }
  double side;
};

struct Point : Shape {
  static constexpr const char* name = "point";
};

const std::vector<Choice<Shape>>& shapes() {
  static const std::vector<Choice<Shape>> entries{
      {"none", "nothing at all", [](const Config&) { return std::unique_ptr<Shape>(); }},
      choice_of<Shape, Square>("shape", "four sides"),
      choice_of<Shape, Point>("shape", "no side"),
  };
  return entries;
}

TEST(Registry, MakesAChoiceFromItsOwnParameters) {
  Schema schema;
  declare_all(shapes(), schema);
  ASSERT_EQ(schema.all().size(), 1U);  // of those that have any
  EXPECT_EQ(schema.all().front().key, "shape.square.side");
  Config config(schema);
  config.set_text("shape.square.side", "3");
  const auto make = [&](const char* name) { return find_in(shapes(), "shape.kind", name, "").make(config); };
  EXPECT_EQ(make("square")->area(), 9);
  EXPECT_EQ(make("point")->area(), 0);
  EXPECT_EQ(make("none"), nullptr);
  EXPECT_EQ(names_in(shapes()), (std::vector<std::string>{"none", "square", "point"}));
}

TEST(Registry, NamesTheNearestChoiceOrTellsHowToListThem) {
  const auto find = [](const char* name) { return [name] { find_in(shapes(), "shape.kind", name, "see the list"); }; };
  expect_error(Fault::usage, find("sqare"), {"shape.kind: unknown value \"sqare\" (did you mean square?)"});
  expect_error(Fault::usage, find("tetrahedron"), {"shape.kind: unknown value \"tetrahedron\" (see the list)"});
}

}  // namespace fedgrab::registry_test
