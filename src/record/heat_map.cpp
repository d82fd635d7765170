#include "fedgrab/record/heat_map.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "fedgrab/record/table.h"
#include "svg_text.h"

namespace fedgrab {
namespace {

constexpr double side = 480, top = 44, letter = 6.2, margin = 16;
constexpr int shades = 32;

/// White to dark blue: lightness alone carries the value, which every eye and printer keeps.
std::string shade_colour(int shade) {
  const double depth = static_cast<double>(shade) / shades;
  const auto blend = [&](double light, double dark) { return std::lround(light + (dark - light) * depth); };
  return fmt::format("#{:02x}{:02x}{:02x}", blend(255, 8), blend(255, 48), blend(255, 107));
}

double longest(const std::vector<std::string>& names) {
  size_t width = 0;
  for (const auto& name : names) width = std::max(width, display_width(name));
  return letter * static_cast<double>(width);
}

}  // namespace

std::string heat_map(const HeatMap& map) {
  const size_t rows = map.rows.size(), columns = map.columns.size();
  const double cell = std::clamp(side / static_cast<double>(std::max<size_t>({rows, columns, 1})), 3.0, 36.0);
  const double left = 34 + longest(map.rows), width = cell * static_cast<double>(columns);
  const double height = cell * static_cast<double>(rows);
  const auto step = static_cast<size_t>(std::ceil(12 / cell));  // names that do not run into each other
  // One path per shade rather than one rectangle per cell keeps large matrices small.
  std::vector<std::string> paths(shades + 1);
  for (size_t y = 0; y < rows; ++y)
    for (size_t x = 0; x < columns; ++x)
      paths[static_cast<size_t>(std::lround(std::clamp(map.shares[y][x], 0.0, 1.0) * shades))] +=
          fmt::format("M{} {}h1v1h-1z", x, y);
  std::string text = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" viewBox=\"0 0 {0:.0f} {1:.0f}\" "
      "font-family=\"sans-serif\" font-size=\"11\" fill=\"#333\">\n<rect width=\"100%\" height=\"100%\" rx=\"6\" "
      "fill=\"#fff\"/>\n<text x=\"{2}\" y=\"24\" font-size=\"15\" font-weight=\"bold\">{3}</text>\n"
      "<g transform=\"translate({4:.1f} {5}) scale({6:.3f})\">\n",
      std::max(left + width + margin, 2 * margin + 9 * static_cast<double>(display_width(map.title))),
      top + height + longest(map.columns) + 40, margin, escape_svg(map.title), left, top, cell);
  for (int shade = 1; shade <= shades; ++shade)
    if (const auto& path = paths[static_cast<size_t>(shade)]; !path.empty())
      text += fmt::format("<path fill=\"{}\" d=\"{}\"/>\n", shade_colour(shade), path);
  text += fmt::format(
      "</g>\n<rect x=\"{:.1f}\" y=\"{}\" width=\"{:.1f}\" height=\"{:.1f}\" fill=\"none\" stroke=\"#999\"/>\n", left,
      top, width, height);
  for (size_t y = 0; y < rows; y += step)
    text += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"end\">{}</text>\n", left - 5,
                        top + cell * (static_cast<double>(y) + 0.5) + 4, escape_svg(map.rows[y]));
  for (size_t x = 0; x < columns; x += step)
    text += fmt::format("<text transform=\"translate({:.1f} {:.1f}) rotate(-90)\" text-anchor=\"end\">{}</text>\n",
                        left + cell * (static_cast<double>(x) + 0.5) + 4, top + height + 6, escape_svg(map.columns[x]));
  return text + fmt::format(
                    "<text transform=\"translate(16 {:.1f}) rotate(-90)\" text-anchor=\"middle\" "
                    "fill=\"#666\">{}</text>\n<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\" "
                    "fill=\"#666\">{}</text>\n</svg>\n",
                    top + height / 2, escape_svg(map.row_label), left + width / 2,
                    top + height + longest(map.columns) + 26, escape_svg(map.column_label));
}

}  // namespace fedgrab
