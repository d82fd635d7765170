#include "fedgrab/record/plot.h"

#include <gtest/gtest.h>

#include <limits>

namespace fedgrab::plot_test {

size_t count(const std::string& text, const std::string& part) {
  size_t found = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

const double nowhere = std::numeric_limits<double>::quiet_NaN();

Panel lines() {
  return {.x_label = "round",
          .y_label = "All",
          .series = {{"a<b & c", {1, 2, 3}, {0.1, 0.2, 0.4}, {0.01, 0.02, 0.05}},
                     {"plain", {1, 2, 3}, {0.3, nowhere, 0.35}}}};
}

TEST(Plot, DrawsALineAPanelAndNamesItOnce) {
  const std::string svg = plot("Two \"lines\"", {lines(), lines()});
  EXPECT_EQ(count(svg, "stroke-width=\"1.8\""), 4U);
  EXPECT_EQ(count(svg, "fill-opacity"), 2U) << "a band for each series that has one";
  EXPECT_EQ(count(svg, ">a&lt;b &amp; c</text>"), 1U);
  EXPECT_EQ(count(svg, ">round</text>"), 2U);
  EXPECT_EQ(svg.find("nan"), std::string::npos);
}

TEST(Plot, TicksAreRoundNumbers) {
  const std::string svg = plot("", {lines()});
  for (const char* tick : {">0<", ">0.1<", ">0.4<", ">0.5<", ">1<", ">3<"})
    EXPECT_NE(svg.find(tick), std::string::npos) << tick;
}

TEST(Plot, BarsStandOnZero) {
  const Panel bars{
      .x_label = "class", .y_label = "Δ", .series = {{"x", {0, 1}, {2, -1}}}, .categories = {"up", "down"}};
  const std::string svg = plot("", {bars});
  EXPECT_NE(svg.find(">up</text>"), std::string::npos);
  EXPECT_NE(svg.find(">-1<"), std::string::npos);
  EXPECT_NE(svg.find(">0<"), std::string::npos);
  EXPECT_EQ(plot_csv({bars}), "panel,series,x,y,band\nΔ,x,up,2,\nΔ,x,down,-1,\n");
}

double height_of(const std::string& svg) { return std::stod(svg.substr(svg.find(" height=\"") + 9)); }

TEST(Plot, LongNamesOfBarsGetTheRoomTheyNeed) {
  const auto bars = [](size_t letters) {
    const std::string name(letters, 'x');
    return plot("", {Panel{.y_label = "y", .series = {{"a", {0, 1, 2}, {1, 2, 3}}}, .categories = {name, name, name}}});
  };
  EXPECT_GT(height_of(bars(40)), height_of(bars(3)) + 60);
  EXPECT_NE(bars(300).find("x…x"), std::string::npos) << "its beginning and its end";
  EXPECT_LT(height_of(bars(300)), height_of(bars(3)) + 320);
}

TEST(Plot, LongNamesOfLinesStayInThePicture) {
  const Panel panel{.x_label = "x", .y_label = "y", .series = {{std::string(300, 'x'), {1, 2}, {1, 2}}}};
  EXPECT_NE(plot("", {panel}).find("x…x"), std::string::npos);
}

TEST(Plot, WhatIsPositiveHasNoBandBelowZero) {
  Panel panel{.y_label = "y", .series = {{"a", {0}, {1}, {3}}}, .categories = {"x"}};
  EXPECT_NE(plot("", {panel}).find(">-2<"), std::string::npos);
  panel.positive = true;
  EXPECT_EQ(plot("", {panel}).find(">-"), std::string::npos);
}

TEST(Plot, BarsOfManySeriesAreToldApart) {
  Panel panel{.y_label = "y", .series = {}, .categories = {"x"}};
  for (int i = 0; i < 14; ++i) panel.series.push_back({std::to_string(i), {0}, {1}});
  const std::string svg = plot("", {panel});
  EXPECT_EQ(count(svg, "fill=\"#0072b2\" fill-opacity=\"1\""), 2U) << "bar and legend";
  EXPECT_EQ(count(svg, "fill=\"#0072b2\" fill-opacity=\"0.25\""), 2U);
}

TEST(Plot, BarsOfNothingButZerosStandOnTheAxis) {
  EXPECT_EQ(plot("", {Panel{.y_label = "y", .series = {{"a", {0}, {0}}}, .categories = {"x"}}}).find(">-"),
            std::string::npos);
}

TEST(Plot, WhatIsEqualEverywhereOrMissingIsStillAPicture) {
  const Panel flat{.x_label = "x", .y_label = "y", .series = {{"flat", {1}, {0.5}}}};
  EXPECT_NE(plot("", {flat}).find("<circle"), std::string::npos);
  const Panel empty{.x_label = "x", .y_label = "y", .series = {{"none", {}, {}}}};
  EXPECT_NE(plot("", {empty}).find("not run"), std::string::npos);
  EXPECT_EQ(plot_csv({empty}), "panel,series,x,y,band\n");
}

}  // namespace fedgrab::plot_test
