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

TEST(Plot, WhatIsEqualEverywhereOrMissingIsStillAPicture) {
  const Panel flat{.x_label = "x", .y_label = "y", .series = {{"flat", {1}, {0.5}}}};
  EXPECT_NE(plot("", {flat}).find("<circle"), std::string::npos);
  const Panel empty{.x_label = "x", .y_label = "y", .series = {{"none", {}, {}}}};
  EXPECT_NE(plot("", {empty}).find("not run"), std::string::npos);
  EXPECT_EQ(plot_csv({empty}), "panel,series,x,y,band\n");
}

}  // namespace fedgrab::plot_test
