/// A small table of texts and its four output formats. Cells hold plain text; each form escapes what it must.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace fedgrab {

enum class Align { left, right };

struct Column {
  std::string header;
  Align align = Align::right;
};

class Table {
 public:
  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

  /// One cell per column; another number throws std::invalid_argument.
  void add_row(std::vector<std::string> cells);
  size_t rows() const { return rows_.size(); }

  /// Aligned for a terminal, a rule below the header.
  std::string to_text() const;
  /// As GitHub renders it.
  std::string to_markdown() const;
  /// RFC 4180, lines ended by a bare line feed. A text that a spreadsheet would run as a formula gets an apostrophe.
  std::string to_csv() const;
  /// A tabular with the rules of the booktabs package.
  std::string to_latex() const;

 private:
  std::vector<std::vector<std::string>> rows_with_header(std::string (*escape)(std::string_view)) const;

  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

/// "0.712 ± 0.013": mean and sample deviation; of one value the value alone.
std::string mean_std(const std::vector<double>& values, int digits = 3);
/// Of the sample; 0 where there is one value.
double mean_of(const std::vector<double>& values);
double deviation_of(const std::vector<double>& values);

/// Code points of a UTF-8 text: its width on a terminal, as long as nobody uses wide or combining characters.
size_t display_width(std::string_view text);

}  // namespace fedgrab
