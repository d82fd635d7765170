#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "fedgrab/data/partition.h"

namespace fedgrab {
namespace {

using Table = std::vector<std::vector<int64_t>>;

constexpr size_t most_lines = 200;  // more rows or columns than this could not be told apart
constexpr size_t shades = 24;
constexpr double left = 70, top = 56, bar_height = 110, gap = 18, right = 130;

/// Neighbouring clients or classes drawn as one.
struct Grouping {
  size_t items, step;
  explicit Grouping(size_t count) : items(count), step((count + most_lines - 1) / most_lines) {
    step = std::max<size_t>(step, 1);
  }
  size_t groups() const { return (items + step - 1) / step; }
};

Table grouped(const Table& table, const Grouping& clients, const Grouping& classes) {
  Table sums(clients.groups(), std::vector<int64_t>(classes.groups()));
  for (size_t k = 0; k < table.size(); ++k)
    for (size_t c = 0; c < table[k].size(); ++c) sums[k / clients.step][c / classes.step] += table[k][c];
  return sums;
}

std::string escape(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '&')
      out += "&amp;";
    else if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else if (static_cast<unsigned char>(c) < 0x20)  // XML has no way to write most of these
      out += ' ';
    else
      out += c;
  }
  return out;
}

/// At most `limit` characters; never cuts a UTF-8 character in two.
std::string shorten(const std::string& text, size_t limit) {
  const auto continues = [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) == 0x80U; };
  size_t characters = 0;
  size_t cut = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if (continues(text[i])) continue;
    if (characters + 1 == limit) cut = i;
    ++characters;
  }
  return characters <= limit ? text : text.substr(0, cut) + "…";
}

std::string plural(size_t count, const char* one, const char* many) {
  return fmt::format("{} {}", count, count == 1 ? one : many);
}

/// Every how many lines of this width a label fits. Round steps read better than every third line.
size_t readable_step(double line) { return line >= 12 ? 1 : line >= 6 ? 2 : 5; }

/// White to dark blue, one hue: lightness shows the count, also in greyscale and with colour blindness.
std::string shade_colour(size_t shade) {
  const double depth = static_cast<double>(shade) / shades;
  const auto blend = [&](double light, double dark) {
    return static_cast<int>(std::lround(light + (dark - light) * depth));
  };
  return fmt::format("#{:02x}{:02x}{:02x}", blend(230, 8), blend(240, 48), blend(250, 107));
}

/// Square root: a long tail spans orders of magnitude, and a rare class should not vanish. Anything but 0 is coloured.
size_t shade_of(int64_t count, int64_t largest) {
  const double share = std::sqrt(static_cast<double>(count) / static_cast<double>(largest));
  return std::clamp<size_t>(static_cast<size_t>(std::lround(share * shades)), 1, shades);
}

class Picture {
 public:
  Picture(const Table& table, const std::vector<std::string>& class_names, const std::string& of)
      : of_(of),
        clients_(table.size()),
        classes_(class_names.size()),
        names_(class_names),
        counts_(grouped(table, clients_, classes_)),
        columns_(classes_.groups()),
        rows_(clients_.groups()),
        cell_width_(std::clamp(640.0 / static_cast<double>(std::max<size_t>(columns_, 1)), 4.0, 48.0)),
        cell_height_(std::clamp(600.0 / static_cast<double>(std::max<size_t>(rows_, 1)), 4.0, 20.0)),
        totals_(columns_) {
    for (const auto& row : counts_)
      for (size_t c = 0; c < columns_; ++c) {
        totals_[c] += row[c];
        largest_ = std::max(largest_, row[c]);
      }
    grid_width_ = cell_width_ * static_cast<double>(columns_);
    grid_height_ = cell_height_ * static_cast<double>(rows_);
    grid_top_ = top + bar_height + gap + label_height();
  }

  std::string svg() const {
    const double width = std::max(left + grid_width_ + right, 480.0);
    const double height = grid_top_ + std::max(grid_height_, legend_height) + 30;
    return fmt::format(
               "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" "
               "viewBox=\"0 0 {0:.0f} {1:.0f}\" font-family=\"sans-serif\" font-size=\"11\" fill=\"#333\">\n"
               "<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n",
               width, height) +
           title() + bars() + class_labels() + cells() + numbers() + client_labels() + legend() + "</svg>\n";
  }

 private:
  static constexpr double legend_height = 170;

  bool labels_upright() const { return 6.5 * static_cast<double>(longest_label()) <= cell_width_; }
  double label_height() const { return labels_upright() ? 12 : 8 + 6.2 * static_cast<double>(longest_label()); }
  /// Every n-th class is named, so that neighbouring names do not run into each other.
  size_t label_step() const { return labels_upright() ? 1 : readable_step(cell_width_); }
  size_t longest_label() const {
    size_t longest = 1;
    for (size_t c = 0; c < columns_; ++c) longest = std::max(longest, class_label(c).size());
    return std::min<size_t>(longest, 16);
  }
  std::string class_label(size_t column) const { return shorten(names_[column * classes_.step], 16); }

  double x(size_t column) const { return left + cell_width_ * static_cast<double>(column); }
  double y(size_t row) const { return grid_top_ + cell_height_ * static_cast<double>(row); }

  std::string title() const {
    const int64_t samples = std::accumulate(totals_.begin(), totals_.end(), int64_t{0});
    std::string text = fmt::format(
        "<text x=\"{0}\" y=\"22\" font-size=\"15\" font-weight=\"bold\">{3}{1} over {2}</text>\n"
        "<text x=\"{0}\" y=\"40\" fill=\"#666\">",
        left, plural(static_cast<size_t>(samples), "training sample", "training samples"),
        plural(clients_.items, "client", "clients"), of_.empty() ? "" : escape(of_) + ": ");
    text += plural(classes_.items, "class", "classes");
    if (clients_.step > 1) text += fmt::format(" · each row sums {} clients", clients_.step);
    if (classes_.step > 1) text += fmt::format(" · each column sums {} classes", classes_.step);
    return text + "</text>\n";
  }

  std::string bars() const {
    int64_t tallest = 1;
    for (const int64_t total : totals_) tallest = std::max(tallest, total);
    const double base = top + bar_height;
    std::string text = fmt::format(
        "<text transform=\"translate(18 {:.0f}) rotate(-90)\" text-anchor=\"middle\">all clients</text>\n"
        "<text x=\"{:.0f}\" y=\"{:.0f}\" text-anchor=\"end\">{}</text>\n<g fill=\"#2f6fae\">\n",
        base - bar_height / 2, left - 6, base - bar_height + 18, tallest);
    for (size_t c = 0; c < columns_; ++c) {
      const double height = (bar_height - 14) * static_cast<double>(totals_[c]) / static_cast<double>(tallest);
      text += fmt::format("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\"/>\n",
                          x(c) + cell_width_ * 0.1, base - height, cell_width_ * 0.8, height);
    }
    text += "</g>\n";
    if (cell_width_ >= 30)
      for (size_t c = 0; c < columns_; ++c) {
        const double height = (bar_height - 14) * static_cast<double>(totals_[c]) / static_cast<double>(tallest);
        text += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\" font-size=\"10\">{}</text>\n",
                            x(c) + cell_width_ / 2, base - height - 3, totals_[c]);
      }
    return text + fmt::format("<path d=\"M{:.1f} {:.1f}h{:.1f}\" stroke=\"#999\"/>\n", left, base, grid_width_);
  }

  std::string class_labels() const {
    std::string text;
    const double base = top + bar_height;
    for (size_t c = 0; c < columns_; c += label_step()) {
      const std::string name = escape(class_label(c));
      const double middle = x(c) + cell_width_ / 2;
      text +=
          labels_upright()
              ? fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">{}</text>\n", middle, base + 14,
                            name)
              : fmt::format("<text transform=\"translate({:.1f} {:.1f}) rotate(-90)\" text-anchor=\"end\">{}</text>\n",
                            middle + 4, base + 6, name);
    }
    return text;
  }

  /// One path per shade rather than one rectangle per cell keeps 100 × 100 cells small.
  std::string cells() const {
    std::vector<std::string> paths(shades + 1);
    for (size_t k = 0; k < rows_; ++k)
      for (size_t c = 0; c < columns_; ++c)
        if (counts_[k][c] > 0) paths[shade_of(counts_[k][c], largest_)] += fmt::format("M{} {}h1v1h-1z", c, k);
    std::string text = fmt::format("<g transform=\"translate({} {:.1f}) scale({:.3f} {:.3f})\">\n", left, grid_top_,
                                   cell_width_, cell_height_);
    for (size_t shade = 1; shade <= shades; ++shade)
      if (!paths[shade].empty())
        text += fmt::format("<path fill=\"{}\" d=\"{}\"/>\n", shade_colour(shade), paths[shade]);
    text += "</g>\n";
    std::string lines;
    if (cell_width_ >= 8)
      for (size_t c = 1; c < columns_; ++c)
        lines += fmt::format("M{:.1f} {:.1f}v{:.1f}", x(c), grid_top_, grid_height_);
    if (cell_height_ >= 8)
      for (size_t k = 1; k < rows_; ++k) lines += fmt::format("M{:.1f} {:.1f}h{:.1f}", left, y(k), grid_width_);
    if (!lines.empty()) text += fmt::format("<path stroke=\"#fff\" d=\"{}\"/>\n", lines);
    return text + fmt::format(
                      "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" fill=\"none\" "
                      "stroke=\"#999\"/>\n",
                      left, grid_top_, grid_width_, grid_height_);
  }

  /// The counts themselves, where a cell has room for them.
  std::string numbers() const {
    if (cell_width_ < 30 || cell_height_ < 11) return {};
    std::string text = "<g text-anchor=\"middle\" font-size=\"9\">\n";
    for (size_t k = 0; k < rows_; ++k)
      for (size_t c = 0; c < columns_; ++c)
        if (const int64_t count = counts_[k][c]; count > 0)
          text += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\"{}>{}</text>\n", x(c) + cell_width_ / 2,
                              y(k) + cell_height_ / 2 + 3,
                              shade_of(count, largest_) * 2 > shades ? " fill=\"#fff\"" : "", count);
    return text + "</g>\n";
  }

  std::string client_labels() const {
    std::string text =
        fmt::format("<text transform=\"translate(18 {:.0f}) rotate(-90)\" text-anchor=\"middle\">client</text>\n",
                    grid_top_ + grid_height_ / 2);
    for (size_t k = 0; k < rows_; k += readable_step(cell_height_))
      text += fmt::format("<text x=\"{:.0f}\" y=\"{:.1f}\" text-anchor=\"end\">{}</text>\n", left - 6,
                          y(k) + cell_height_ / 2 + 4, k * clients_.step);
    return text;
  }

  std::string legend() const {
    const double at = left + grid_width_ + 24;
    constexpr double step = 5;
    std::string text = fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\">samples</text>\n", at, grid_top_ + 10);
    const double ramp = grid_top_ + 20;
    for (size_t shade = 1; shade <= shades; ++shade)
      text += fmt::format("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"16\" height=\"{}\" fill=\"{}\"/>\n", at,
                          ramp + step * static_cast<double>(shades - shade), step, shade_colour(shade));
    for (const double share : {1.0, 0.75, 0.5, 0.25}) {
      const auto count = std::llround(share * share * static_cast<double>(largest_));
      if (count < 1 || (share < 1.0 && count == largest_)) continue;
      text += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\">{}</text>\n", at + 22,
                          ramp + step * shades * (1 - share) + (share == 1.0 ? 8 : 4), count);
    }
    const double none = ramp + step * shades + 6;
    return text + fmt::format(
                      "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"16\" height=\"10\" fill=\"#fff\" stroke=\"#999\"/>\n"
                      "<text x=\"{:.1f}\" y=\"{:.1f}\">none</text>\n",
                      at, none, at + 22, none + 9);
  }

  const std::string& of_;
  Grouping clients_, classes_;
  const std::vector<std::string>& names_;
  Table counts_;
  size_t columns_, rows_;
  double cell_width_, cell_height_;
  std::vector<int64_t> totals_;
  int64_t largest_ = 1;
  double grid_width_ = 0, grid_height_ = 0, grid_top_ = 0;
};

}  // namespace

std::string partition_picture(const Table& table, const std::vector<std::string>& class_names, const std::string& of) {
  return Picture(table, class_names, of).svg();
}

}  // namespace fedgrab
