#include "fedgrab/record/plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "fedgrab/record/table.h"
#include "svg_text.h"

namespace fedgrab {
namespace {

constexpr double wide = 640, narrow = 460, panel_height = 320, left = 64, right = 18, top = 10, bottom = 48;
constexpr double title_height = 34, legend_row = 22, letter = 6.6, margin = 12;
constexpr double slant = 28 * 3.14159265358979 / 180;

/// Okabe and Ito's colours without yellow, which is hard to see on white; after these seven lines are dashed, bars
/// outlined.
struct Look {
  const char* colour;
  const char* dash;
  double opacity;
};
Look look_of(size_t series) {
  static constexpr std::array colours{"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#333333"};
  static constexpr std::array dashes{"", "7 4", "2 3"};
  static constexpr std::array opacities{1.0, 0.25, 0.0};
  const size_t again = series / colours.size() % dashes.size();
  return {colours[series % colours.size()], dashes[again], opacities[again]};
}

double width_of(const std::string& text) { return letter * static_cast<double>(display_width(text)); }

/// Its beginning and its end, which tell names of many parts apart.
std::string shortened(const std::string& text, double width) {
  const auto letters = static_cast<size_t>(std::max(width / letter, 3.0));
  std::vector<std::string> all;  // a letter may be several bytes
  for (const char c : text)
    if ((static_cast<unsigned char>(c) & 0xC0U) == 0x80U && !all.empty())
      all.back() += c;
    else
      all.emplace_back(1, c);
  if (all.size() <= letters) return text;
  std::string out;
  for (size_t i = 0; i < letters / 2; ++i) out += all[i];
  out += "…";
  for (size_t i = all.size() - (letters - letters / 2 - 1); i < all.size(); ++i) out += all[i];
  return out;
}

/// 1, 2 or 5 times a power of ten, so that about `count` of them cover the range.
double tick_step(double range, int count) {
  const double rough = range / count, power = std::pow(10, std::floor(std::log10(rough)));
  for (const double step : {1.0, 2.0, 5.0})
    if (rough <= step * power) return step * power;
  return 10 * power;
}

/// An axis from data to pixels. Its ends are ticks.
struct Scale {
  double low = 0, high = 1, step = 0.2;

  static Scale around(double from, double to, int count) {
    if (!(from < to)) {
      const double room = from == 0 ? 1 : std::abs(from) / 2;
      from -= room;
      to += room;
    }
    Scale scale;
    scale.step = tick_step(to - from, count);
    scale.low = std::floor(from / scale.step + 1e-9) * scale.step;
    scale.high = std::ceil(to / scale.step - 1e-9) * scale.step;
    return scale;
  }
  double share(double value) const { return (value - low) / (high - low); }
  std::vector<double> ticks() const {
    std::vector<double> values;
    const auto count = std::lround((high - low) / step);
    for (long i = 0; i <= count; ++i) {
      const double value = low + static_cast<double>(i) * step;
      values.push_back(std::abs(value) < step * 1e-6 ? 0 : value);
    }
    return values;
  }
};

bool drawable(const Series& series, size_t i) {
  return i < series.x.size() && i < series.y.size() && std::isfinite(series.x[i]) && std::isfinite(series.y[i]);
}

double band_at(const Series& series, size_t i) {
  return i < series.band.size() && std::isfinite(series.band[i]) ? series.band[i] : 0;
}

class PanelPicture {
 public:
  PanelPicture(const Panel& panel, double width) : panel_(panel), width_(width), bars_(!panel.categories.empty()) {
    make_room_for_names();
    double x_low = std::numeric_limits<double>::infinity(), x_high = -x_low, y_low = x_low, y_high = -x_low;
    bool whole = true;
    for (const auto& series : panel.series)
      for (size_t i = 0; i < series.y.size(); ++i) {
        if (!drawable(series, i)) continue;
        x_low = std::min(x_low, series.x[i]);
        x_high = std::max(x_high, series.x[i]);
        y_low = std::min(y_low, lower(series, i));
        y_high = std::max(y_high, upper(series, i));
        whole = whole && series.x[i] == std::round(series.x[i]);
      }
    empty_ = !std::isfinite(x_low);
    if (empty_) return;
    if (bars_) {
      y_low = std::min(y_low, 0.0);
      y_high = std::max(y_high, 0.0);
      if (y_low == y_high) y_high = 1;  // nothing but zeros
    }
    x_ = Scale::around(x_low, x_high, 6);
    if (whole) x_.step = std::max(x_.step, 1.0);
    // The data fills the width; its ends need not be ticks.
    if (x_low < x_high) x_.low = x_low, x_.high = x_high;
    if (panel.share && y_low == 0 && y_high == 0) y_high = 1;
    y_ = Scale::around(y_low, y_high, 5);
  }

  /// What its names need below the height that every panel has.
  double extra_height() const { return extra_height_; }

  std::string svg() const {
    if (empty_)
      return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\" fill=\"#777\">not run</text>\n",
                         left_ + plot_width() / 2, top + plot_height() / 2);
    std::string text = axes();
    for (size_t i = 0; i < panel_.series.size(); ++i) text += bars_ ? bars(i) : band(i);
    if (!bars_)
      for (size_t i = 0; i < panel_.series.size(); ++i) text += line(i);
    return text;
  }

 private:
  double plot_width() const { return width_ - left_ - right; }
  double room() const { return plot_width() / static_cast<double>(panel_.categories.size()); }
  /// Names too long to stand side by side are slanted and need room below, the first of them to the left as well.
  void make_room_for_names() {
    for (const auto& name : panel_.categories) longest_ = std::max(longest_, width_of(name) + letter);
    slanted_ = bars_ && longest_ > room();
    if (!slanted_) return;
    double overhang = 0;
    for (size_t i = 0; i < panel_.categories.size(); ++i) {
      const double place = (static_cast<double>(i) + 0.5) / static_cast<double>(panel_.categories.size());
      overhang = std::max(
          overhang, (width_of(panel_.categories[i]) * std::cos(slant) - px(static_cast<double>(i))) / (1 - place));
    }
    left_ += std::min(overhang, width_ / 4);
    longest_ = 0;
    for (size_t i = 0; i < panel_.categories.size(); ++i) longest_ = std::max(longest_, width_of(name_of(i)));
    extra_height_ = std::max(0.0, longest_ * std::sin(slant) + 22 - bottom);
  }
  /// As much of it as there is room for.
  std::string name_of(size_t category) const {
    const std::string& name = panel_.categories[category];
    return slanted_ ? shortened(name, px(static_cast<double>(category)) / std::cos(slant)) : name;
  }
  static double plot_height() { return panel_height - top - bottom; }
  double within(double y) const {
    return panel_.share ? std::clamp(y, 0.0, 1.0) : panel_.positive ? std::max(y, 0.0) : y;
  }
  double lower(const Series& series, size_t i) const { return within(series.y[i] - band_at(series, i)); }
  double upper(const Series& series, size_t i) const { return within(series.y[i] + band_at(series, i)); }
  double px(double x) const {
    if (bars_) return left_ + plot_width() * (x + 0.5) / static_cast<double>(panel_.categories.size());
    return left_ + plot_width() * x_.share(x);
  }
  double py(double y) const { return top + plot_height() * (1 - y_.share(y)); }

  std::string axes() const {
    std::string grid, labels;
    for (const double tick : y_.ticks()) {
      grid += fmt::format("M{:.1f} {:.1f}h{:.1f}", left_, py(tick), plot_width());
      labels += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"end\">{:.4g}</text>\n", left_ - 6,
                            py(tick) + 4, tick);
    }
    std::string text = fmt::format("<path d=\"{}\" stroke=\"#e3e3e3\"/>\n{}", grid, labels);
    text += bars_ ? category_labels() : round_labels();
    // Zero is worth a line of its own where values fall on both sides of it.
    const double base = y_.low < 0 && y_.high > 0 ? py(0) : top + plot_height();
    text += fmt::format("<path d=\"M{:.1f} {:.1f}v{:.1f}M{:.1f} {:.1f}h{:.1f}\" stroke=\"#777\" fill=\"none\"/>\n",
                        left_, top, plot_height(), left_, base, plot_width());
    if (!bars_)  // the names of categories need no axis title
      text += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">{}</text>\n",
                          left_ + plot_width() / 2, panel_height - 6, escape_svg(panel_.x_label));
    return text + fmt::format("<text transform=\"translate(14 {:.1f}) rotate(-90)\" text-anchor=\"middle\">{}</text>\n",
                              top + plot_height() / 2, escape_svg(panel_.y_label));
  }

  std::string round_labels() const {
    std::string text;
    const auto last = static_cast<int64_t>(std::floor(x_.high / x_.step + 1e-6));
    for (auto i = static_cast<int64_t>(std::ceil(x_.low / x_.step - 1e-9)); i <= last; ++i) {
      const double tick = static_cast<double>(i) * x_.step;
      text += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">{:.6g}</text>\n", px(tick),
                          top + plot_height() + 17, tick);
    }
    return text;
  }

  /// Every n-th name, so that neighbours do not run into each other.
  std::string category_labels() const {
    const auto step = static_cast<size_t>(std::max(1.0, std::ceil((slanted_ ? 14 : longest_) / room())));
    std::string text;
    for (size_t i = 0; i < panel_.categories.size(); i += step)
      text += fmt::format("<text transform=\"translate({:.1f} {:.1f}){}\" text-anchor=\"{}\">{}</text>\n",
                          px(static_cast<double>(i)), top + plot_height() + (slanted_ ? 12 : 17),
                          slanted_ ? " rotate(-28)" : "", slanted_ ? "end" : "middle", escape_svg(name_of(i)));
    return text;
  }

  std::string bars(size_t index) const {
    const auto& series = panel_.series[index];
    const double group = room() * 0.8, width = group / static_cast<double>(panel_.series.size());
    std::string shapes, whiskers;
    for (size_t i = 0; i < series.y.size(); ++i) {
      if (!drawable(series, i)) continue;
      const double x = px(series.x[i]) - group / 2 + width * static_cast<double>(index);
      const double from = py(std::max(series.y[i], 0.0)), to = py(std::min(series.y[i], 0.0));
      shapes += fmt::format("M{:.1f} {:.1f}h{:.1f}v{:.1f}h-{:.1f}z", x, from, width, to - from, width);
      if (band_at(series, i) > 0)
        whiskers += fmt::format("M{:.1f} {:.1f}V{:.1f}", x + width / 2, py(lower(series, i)), py(upper(series, i)));
    }
    return fmt::format(
        "<path fill=\"{0}\" fill-opacity=\"{1}\" stroke=\"{0}\" d=\"{2}\"/>\n<path stroke=\"#333\" d=\"{3}\"/>\n",
        look_of(index).colour, look_of(index).opacity, shapes, whiskers);
  }

  std::string band(size_t index) const {
    const auto& series = panel_.series[index];
    std::string there, back;
    for (size_t i = 0; i < series.y.size(); ++i) {
      if (!drawable(series, i) || series.band.empty()) continue;
      const auto edge = [&](double y) { return fmt::format("{:.1f} {:.1f}", px(series.x[i]), py(y)); };
      there += (there.empty() ? "M" : "L") + edge(upper(series, i));
      back = "L" + edge(lower(series, i)) + back;
    }
    if (there.empty()) return {};
    return fmt::format("<path fill=\"{}\" fill-opacity=\"0.15\" d=\"{}{}z\"/>\n", look_of(index).colour, there, back);
  }

  std::string line(size_t index) const {
    const auto& series = panel_.series[index];
    std::string path, dots;
    const bool few = series.y.size() <= 20;
    for (size_t i = 0; i < series.y.size(); ++i) {
      if (!drawable(series, i)) continue;
      path += fmt::format("{}{:.1f} {:.1f}", path.empty() ? "M" : "L", px(series.x[i]), py(series.y[i]));
      if (few)
        dots += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3\" fill=\"{}\"/>\n", px(series.x[i]),
                            py(series.y[i]), look_of(index).colour);
    }
    if (path.empty()) return {};
    return fmt::format("<path fill=\"none\" stroke=\"{}\" stroke-width=\"1.8\" stroke-dasharray=\"{}\" d=\"{}\"/>\n{}",
                       look_of(index).colour, look_of(index).dash, path, dots);
  }

  const Panel& panel_;
  double width_, left_ = left, extra_height_ = 0, longest_ = 0;
  bool bars_, slanted_ = false, empty_ = false;
  Scale x_, y_;
};

/// The names of the series, wrapped at `width`; `height` is set to what it takes.
std::string legend(const std::vector<Series>& series, bool bars, double width, double& height) {
  std::string text;
  double x = left, y = title_height + 14;
  for (size_t i = 0; i < series.size(); ++i) {
    const std::string name = shortened(series[i].name, width - left - 52);
    const double wanted = 34 + width_of(name) + 18;
    if (x > left && x + wanted > width) {
      x = left;
      y += legend_row;
    }
    const auto [colour, dash, opacity] = look_of(i);
    text +=
        bars ? fmt::format(
                   "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"24\" height=\"6\" fill=\"{}\" fill-opacity=\"{}\" "
                   "stroke=\"{}\"/>\n",
                   x, y - 7, colour, opacity, colour)
             : fmt::format("<path stroke=\"{}\" stroke-width=\"4\" stroke-dasharray=\"{}\" d=\"M{:.1f} {:.1f}h24\"/>\n",
                           colour, dash, x, y - 4);
    text += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\">{}</text>\n", x + 30, y, escape_svg(name));
    x += wanted;
  }
  height = y + 14;
  return text;
}

}  // namespace

Series mean_series(const std::string& name, const Values& values, const Values& bands) {
  Series series{.name = name, .x = {}, .y = {}};
  const bool seeds =
      std::any_of(values.begin(), values.end(), [](const auto& entry) { return entry.second.size() > 1; });
  for (const auto& [x, ys] : values) {
    series.x.push_back(x);
    series.y.push_back(mean_of(ys));
    if (const auto band = bands.find(x); band != bands.end())
      series.band.push_back(mean_of(band->second));
    else if (seeds)
      series.band.push_back(deviation_of(ys));
  }
  return series;
}

std::string plot(const std::string& title, const std::vector<Panel>& panels) {
  const auto count = static_cast<double>(std::max<size_t>(panels.size(), 1));
  const double width = std::max((panels.size() > 1 ? narrow : wide) * count,
                                left + 9 * static_cast<double>(display_width(title)) + margin);
  const double each = width / count;
  double panels_top = title_height;
  const bool bars = !panels.empty() && !panels.front().categories.empty();
  const std::string names =
      legend(panels.empty() ? std::vector<Series>{} : panels.front().series, bars, width, panels_top);
  std::string pictures;
  double extra = 0;
  for (size_t i = 0; i < panels.size(); ++i) {
    const PanelPicture picture(panels[i], each);
    extra = std::max(extra, picture.extra_height());
    pictures += fmt::format("<g transform=\"translate({:.0f} {:.0f})\">\n{}</g>\n", each * static_cast<double>(i),
                            panels_top, picture.svg());
  }
  const double height = panels_top + panel_height + extra + margin;
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" viewBox=\"0 0 {0:.0f} {1:.0f}\" "
      "font-family=\"sans-serif\" font-size=\"12\" fill=\"#333\">\n"
      "<rect width=\"100%\" height=\"100%\" rx=\"6\" fill=\"#fff\"/>\n"
      "<text x=\"{2:.0f}\" y=\"24\" font-size=\"15\" font-weight=\"bold\">{3}</text>\n{4}{5}</svg>\n",
      width, height, left, escape_svg(title), names, pictures);
}

std::string plot_csv(const std::vector<Panel>& panels) {
  Table table({{"panel"}, {"series"}, {"x"}, {"y"}, {"band"}});
  for (const auto& panel : panels)
    for (const auto& series : panel.series)
      for (size_t i = 0; i < series.y.size(); ++i)
        if (drawable(series, i))
          table.add_row({panel.y_label, series.name,
                         panel.categories.empty() ? fmt::format("{:g}", series.x[i])
                                                  : panel.categories[static_cast<size_t>(series.x[i])],
                         fmt::format("{:.6g}", series.y[i]),
                         series.band.empty() ? "" : fmt::format("{:.6g}", band_at(series, i))});
  return table.to_csv();
}

}  // namespace fedgrab
