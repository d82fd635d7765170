#include "fedgrab/record/table.h"

#include <gtest/gtest.h>

#include <stdexcept>

namespace fedgrab::table_test {

Table accuracies() {
  Table table({{"method", Align::left}, {"all"}, {"few"}});
  table.add_row({"fedavg", "0.71 ± 0.01", "0.2"});
  table.add_row({"fed_grab", "0.8", "−"});
  return table;
}

TEST(Table, AlignsText) {
  EXPECT_EQ(accuracies().to_text(),
            "method            all  few\n"
            "────────  ───────────  ───\n"
            "fedavg    0.71 ± 0.01  0.2\n"
            "fed_grab          0.8    −\n");
}

TEST(Table, LeavesNoSpaceAtLineEnds) {
  Table table({{"a", Align::left}, {"note", Align::left}});
  table.add_row({"x", ""});
  EXPECT_EQ(table.to_text(), "a  note\n─  ────\nx\n");
}

TEST(Table, WritesMarkdown) {
  EXPECT_EQ(accuracies().to_markdown(),
            "| method    |         all | few |\n"
            "| --------- | ----------: | --: |\n"
            "| fedavg    | 0.71 ± 0.01 | 0.2 |\n"
            "| fed\\_grab |         0.8 |   − |\n");
}

TEST(Table, WritesCsv) { EXPECT_EQ(accuracies().to_csv(), "method,all,few\nfedavg,0.71 ± 0.01,0.2\nfed_grab,0.8,−\n"); }

TEST(Table, WritesLatex) {
  EXPECT_EQ(accuracies().to_latex(),
            "\\begin{tabular}{lrr}\n"
            "\\toprule\n"
            "method & all & few \\\\\n"
            "\\midrule\n"
            "fedavg & 0.71 $\\pm$ 0.01 & 0.2 \\\\\n"
            "fed\\_grab & 0.8 & $-$ \\\\\n"
            "\\bottomrule\n"
            "\\end{tabular}\n");
}

TEST(Table, EscapesEachFormItsOwnWay) {
  Table table({{"x", Align::left}});
  table.add_row({"a|b, \"50%\" & [c]\\\nd"});
  EXPECT_EQ(table.to_text(), "x\n───────────────────\na|b, \"50%\" & [c]\\ d\n");
  EXPECT_NE(table.to_markdown().find("| a\\|b, \"50%\" \\& \\[c\\]\\\\ d |\n"), std::string::npos);
  EXPECT_EQ(table.to_csv(), "x\n\"a|b, \"\"50%\"\" & [c]\\\nd\"\n");
  EXPECT_NE(table.to_latex().find("a\\textbar{}b, \"50\\%\" \\& {[}c]\\textbackslash{} d \\\\\n"), std::string::npos);
}

TEST(Table, HidesFormulasFromSpreadsheets) {
  const auto csv = [](const std::string& cell) {
    Table table({{"x"}});
    table.add_row({cell});
    return table.to_csv().substr(2);
  };
  EXPECT_EQ(csv("=1+1"), "'=1+1\n");
  EXPECT_EQ(csv("=HYPERLINK(\"http://x\",\"y\")"), "\"'=HYPERLINK(\"\"http://x\"\",\"\"y\"\")\"\n");
  EXPECT_EQ(csv("+cmd|' /C calc'!A0"), "'+cmd|' /C calc'!A0\n");
  EXPECT_EQ(csv("-2+3"), "'-2+3\n");
  EXPECT_EQ(csv("@SUM(1)"), "'@SUM(1)\n");
  EXPECT_EQ(csv("\t=1"), "'\t=1\n");
  for (const std::string number : {"-0.5", "+3", "-1e-05", "-0.10 ± 0.02", "-", "-inf", "0.5", "a=b"})
    EXPECT_EQ(csv(number), number + "\n");
}

TEST(Table, CountsCodePoints) {
  EXPECT_EQ(display_width(""), 0U);
  EXPECT_EQ(display_width("0.8 ± 0.1"), 9U);
  EXPECT_EQ(display_width("a·β→"), 4U);
}

TEST(Table, RefusesRowsOfAnotherLength) {
  Table table({{"a"}, {"b"}});
  EXPECT_THROW(table.add_row({"1"}), std::invalid_argument);
}

TEST(MeanStd, OfOneValueThereIsNoDeviation) {
  EXPECT_EQ(mean_std({0.5}), "0.500");
  EXPECT_EQ(mean_std({0.25, 0.75}), "0.500 ± 0.354");
}

}  // namespace fedgrab::table_test
