#include "fedgrab/record/table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <numeric>
#include <stdexcept>
#include <utility>

namespace fedgrab {
namespace {

using Cells = std::vector<std::string>;

std::string repeat(std::string_view piece, size_t times) {
  std::string out;
  for (size_t i = 0; i < times; ++i) out += piece;
  return out;
}

std::string pad(const std::string& cell, size_t width, Align align) {
  const std::string space(width - display_width(cell), ' ');
  return align == Align::left ? cell + space : space + cell;
}

std::vector<size_t> column_widths(const std::vector<Cells>& rows) {
  std::vector<size_t> widths(rows.front().size());
  for (const auto& row : rows)
    for (size_t i = 0; i < widths.size(); ++i) widths[i] = std::max(widths[i], display_width(row[i]));
  return widths;
}

/// A row stays one line in every form but CSV.
std::string one_line(std::string_view cell) {
  std::string out(cell);
  for (char& c : out)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) c = ' ';
  return out;
}

std::string for_markdown(std::string_view cell) {
  std::string out;
  for (const char c : one_line(cell)) {
    if (std::string_view("\\`*_[]<>|~&$").find(c) != std::string_view::npos) out += '\\';
    out += c;
  }
  return out;
}

bool is_number(std::string_view text) {
  if (text.starts_with('+')) text.remove_prefix(1);
  double value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  return code == std::errc() && end == text.data() + text.size();
}

/// "-0.1" and "-0.1 ± 0.2".
bool is_measure(std::string_view text) {
  constexpr std::string_view sign = " ± ";
  const auto at = text.find(sign);
  return at == std::string_view::npos ? is_number(text)
                                      : is_number(text.substr(0, at)) && is_number(text.substr(at + sign.size()));
}

/// Spreadsheets run what begins so; they show a text behind an apostrophe.
bool is_formula(std::string_view cell) {
  return !cell.empty() && std::string_view("=+-@\t\r").find(cell.front()) != std::string_view::npos &&
         cell.size() > 1 && !is_measure(cell);
}

std::string for_csv(std::string_view cell) {
  if (is_formula(cell)) return for_csv(fmt::format("'{}", cell));
  if (cell.find_first_of(",\"\r\n") == std::string_view::npos) return std::string(cell);
  std::string out = "\"";
  for (const char c : cell) out += c == '"' ? "\"\"" : std::string(1, c);
  return out + '"';
}

std::string for_latex(std::string_view cell) {
  // A bare [ or * at the start of a row would be read as an argument of the \\ before it.
  static constexpr std::array<std::pair<std::string_view, std::string_view>, 22> replacements{{
      {"\\", "\\textbackslash{}"},
      {"~", "\\textasciitilde{}"},
      {"^", "\\textasciicircum{}"},
      {"<", "\\textless{}"},
      {">", "\\textgreater{}"},
      {"|", "\\textbar{}"},
      {"&", "\\&"},
      {"%", "\\%"},
      {"$", "\\$"},
      {"#", "\\#"},
      {"_", "\\_"},
      {"{", "\\{"},
      {"}", "\\}"},
      {"[", "{[}"},
      {"*", "{*}"},
      {"±", "$\\pm$"},
      {"·", "$\\cdot$"},
      {"×", "$\\times$"},
      {"−", "$-$"},
      {"→", "$\\to$"},
      {"≤", "$\\le$"},
      {"≥", "$\\ge$"},
  }};
  const std::string text = one_line(cell);
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const auto* found = std::find_if(replacements.begin(), replacements.end(), [&](const auto& replacement) {
      return std::string_view(text).substr(at).starts_with(replacement.first);
    });
    if (found == replacements.end()) {
      out += text[at++];
    } else {
      out += found->second;
      at += found->first.size();
    }
  }
  return out;
}

}  // namespace

size_t display_width(std::string_view text) {
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; }));
}

void Table::add_row(Cells cells) {
  if (cells.size() != columns_.size())
    throw std::invalid_argument(
        fmt::format("a row of {} cells in a table of {} columns", cells.size(), columns_.size()));
  rows_.push_back(std::move(cells));
}

std::vector<Cells> Table::rows_with_header(std::string (*escape)(std::string_view)) const {
  std::vector<Cells> rows(1);
  for (const auto& column : columns_) rows.front().push_back(escape(column.header));
  for (const auto& row : rows_) {
    Cells& escaped = rows.emplace_back();
    for (const auto& cell : row) escaped.push_back(escape(cell));
  }
  return rows;
}

std::string Table::to_text() const {
  const auto rows = rows_with_header(one_line);
  const auto widths = column_widths(rows);
  std::string out;
  for (const auto& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) line += (i == 0 ? "" : "  ") + pad(row[i], widths[i], columns_[i].align);
    out += line.erase(line.find_last_not_of(' ') + 1) + '\n';
    if (&row != &rows.front()) continue;
    for (size_t i = 0; i < row.size(); ++i) out += (i == 0 ? "" : "  ") + repeat("─", widths[i]);
    out += '\n';
  }
  return out;
}

std::string Table::to_markdown() const {
  const auto rows = rows_with_header(for_markdown);
  auto widths = column_widths(rows);
  for (auto& width : widths) width = std::max<size_t>(width, 3);  // room for the rule
  std::string out;
  for (const auto& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) out += "| " + pad(row[i], widths[i], columns_[i].align) + " ";
    out += "|\n";
    if (&row != &rows.front()) continue;
    for (size_t i = 0; i < row.size(); ++i)
      out += "| " + std::string(widths[i] - 1, '-') + (columns_[i].align == Align::right ? ": " : "- ");
    out += "|\n";
  }
  return out;
}

std::string Table::to_csv() const {
  std::string out;
  for (const auto& row : rows_with_header(for_csv)) out += fmt::format("{}\n", fmt::join(row, ","));
  return out;
}

std::string Table::to_latex() const {
  const auto rows = rows_with_header(for_latex);
  std::string alignment;
  for (const auto& column : columns_) alignment += column.align == Align::left ? 'l' : 'r';
  std::string out = fmt::format("\\begin{{tabular}}{{{}}}\n\\toprule\n", alignment);
  for (const auto& row : rows) {
    out += fmt::format("{} \\\\\n", fmt::join(row, " & "));
    if (&row == &rows.front()) out += "\\midrule\n";
  }
  return out + "\\bottomrule\n\\end{tabular}\n";
}

double mean_of(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

double deviation_of(const std::vector<double>& values) {
  if (values.size() < 2) return 0;
  double squares = 0;
  for (const double v : values) squares += (v - mean_of(values)) * (v - mean_of(values));
  return std::sqrt(squares / static_cast<double>(values.size() - 1));
}

std::string mean_std(const std::vector<double>& values, int digits) {
  const std::string mean = fmt::format("{:.{}f}", mean_of(values), digits);
  return values.size() < 2 ? mean : fmt::format("{} ± {:.{}f}", mean, deviation_of(values), digits);
}

}  // namespace fedgrab
