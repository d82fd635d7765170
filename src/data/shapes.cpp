// The built-in data set: figures drawn from signed distances. Colour, position and clutter are independent of the
// label, so a network must use outlines. Some figures are similar, so that rare classes are easily confused with common
// ones.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <vector>

#include "fedgrab/core/interrupt.h"
#include "fedgrab/core/random.h"
#include "fedgrab/data/load.h"

namespace fedgrab {
namespace {

constexpr int64_t side = 32;
constexpr auto pi = static_cast<float>(M_PI);

struct Point {
  float x, y;
};
using Colour = std::array<float, 3>;

float length(Point p) { return std::sqrt(p.x * p.x + p.y * p.y); }

// Distances in units of the figure's radius, negative inside, y downwards. Near the outline they are exact enough to
// smooth the edge; elsewhere only the sign matters.

float disc(Point p, float radius) { return length(p) - radius; }

float box(Point p, float half_width, float half_height) {
  return std::max(std::abs(p.x) - half_width, std::abs(p.y) - half_height);
}

/// The angle of the nearest of `n` spokes, the first of which points up, taken out of p.
Point fold(Point p, int n) {
  const float sector = 2.0F * pi / static_cast<float>(n);
  const float angle = std::atan2(p.x, -p.y);
  const float rest = std::abs(angle - sector * std::round(angle / sector));
  const float radius = length(p);
  return {radius * std::cos(rest), radius * std::sin(rest)};
}

/// Corners at `outer` along the spokes, at `inner` halfway between them.
float star(Point p, int spokes, float outer, float inner) {
  const Point q = fold(p, spokes);
  const float half = pi / static_cast<float>(spokes);
  const Point edge{inner * std::cos(half) - outer, inner * std::sin(half)};
  return ((q.x - outer) * edge.y - q.y * edge.x) / length(edge);
}

float polygon(Point p, int corners, float radius) {
  return star(p, corners, radius, radius * std::cos(pi / static_cast<float>(corners)));
}

float circle(Point p) { return disc(p, 0.85F); }
float square(Point p) { return box(p, 0.75F, 0.75F); }
float triangle(Point p) { return polygon({p.x, p.y - 0.2F}, 3, 1.1F); }
float five_point_star(Point p) { return star(p, 5, 1.1F, 0.5F); }
float cross(Point p) { return std::min(box(p, 0.95F, 0.3F), box(p, 0.3F, 0.95F)); }
float ring(Point p) { return std::abs(length(p) - 0.68F) - 0.22F; }
float pentagon(Point p) { return polygon(p, 5, 1.0F); }
float diamond(Point p) { return (std::abs(p.x) * 1.0F + std::abs(p.y) * 0.7F - 0.75F) / 1.22F; }
float crescent(Point p) { return std::max(disc(p, 0.9F), 0.72F - length({p.x - 0.42F, p.y})); }
float heart(Point p) {
  const float corner = (std::abs(p.x) + std::abs(p.y - 0.1F)) * 0.7071F - 0.62F;
  return std::min(corner, disc({std::abs(p.x) - 0.4385F, p.y + 0.3385F}, 0.62F));
}

struct Figure {
  const char* name;
  float (*distance)(Point);
};

// From common to rare once the long tail is cut: each of the last four resembles one of the first six.
constexpr std::array<Figure, 10> figures{{{"circle", circle},
                                          {"square", square},
                                          {"triangle", triangle},
                                          {"star", five_point_star},
                                          {"cross", cross},
                                          {"ring", ring},
                                          {"pentagon", pentagon},
                                          {"diamond", diamond},
                                          {"crescent", crescent},
                                          {"heart", heart}}};

float between(Random& random, float low, float high) { return low + (high - low) * random.uniform(); }

Colour any_colour(Random& random) { return {random.uniform(), random.uniform(), random.uniform()}; }

Colour mix(const Colour& a, const Colour& b, float share) {
  return {a[0] + (b[0] - a[0]) * share, a[1] + (b[1] - a[1]) * share, a[2] + (b[2] - a[2]) * share};
}

float contrast(const Colour& a, const Colour& b) {
  return std::max({std::abs(a[0] - b[0]), std::abs(a[1] - b[1]), std::abs(a[2] - b[2])});
}

/// A colour that can be told from the background, though at times only just. Figures are light on dark: a small network
/// would spend its first minutes on learning that an outline may have either sign.
Colour figure_colour(Random& random, const Colour& background) {
  constexpr float least = 0.3F;
  const Colour white{1, 1, 1};
  Colour colour = mix(any_colour(random), white, 0.4F);
  while (contrast(colour, background) < least) colour = mix(any_colour(random), white, 0.4F);
  return colour;
}

class Canvas {
 public:
  template <class Shade>
  void fill(const Shade& shade) {
    for (int64_t y = 0; y < side; ++y)
      for (int64_t x = 0; x < side; ++x) at(x, y) = shade(centre(x, y));
  }

  /// Lays `colour` over every pixel inside; `distance` is in pixels, so the edge is one pixel soft.
  template <class Distance>
  void paint(const Distance& distance, const Colour& colour, float opacity) {
    for (int64_t y = 0; y < side; ++y)
      for (int64_t x = 0; x < side; ++x) {
        const float cover = std::clamp(0.5F - distance(centre(x, y)), 0.0F, 1.0F) * opacity;
        if (cover > 0) at(x, y) = mix(at(x, y), colour, cover);
      }
  }

  /// Noise of deviation `noise`, near enough to normal: the sum of the four bytes of a random word.
  void write(Random& random, float noise, uint8_t* out) const {
    constexpr float byte_sum_mean = 510.0F, byte_sum_deviation = 147.8F;
    for (size_t channel = 0; channel < 3; ++channel)
      for (const Colour& pixel : pixels_) {
        const uint32_t word = random.bits();
        const auto sum = static_cast<float>((word & 255U) + (word >> 8 & 255U) + (word >> 16 & 255U) + (word >> 24));
        const float value = pixel[channel] + noise * (sum - byte_sum_mean) / byte_sum_deviation;
        *out++ = static_cast<uint8_t>(std::lrint(std::clamp(value, 0.0F, 1.0F) * 255.0F));
      }
  }

 private:
  Colour& at(int64_t x, int64_t y) { return pixels_[static_cast<size_t>(y * side + x)]; }
  static Point centre(int64_t x, int64_t y) { return {static_cast<float>(x) + 0.5F, static_cast<float>(y) + 0.5F}; }

  std::array<Colour, side * side> pixels_{};
};

/// A gradient with stripes in it. Returns the colour halfway.
Colour draw_background(Canvas& canvas, Random& random) {
  const Colour black{0, 0, 0};
  const Colour from = mix(any_colour(random), black, 0.5F);
  const Colour other = mix(any_colour(random), black, 0.5F);
  const Colour to = mix(from, other, between(random, 0.1F, 0.5F));
  const float angle = between(random, 0, 2 * pi);
  const float stripe_angle = between(random, 0, 2 * pi);
  const float frequency = between(random, 0.3F, 1.6F);
  const float depth = between(random, 0, 0.06F);
  canvas.fill([&](Point p) {
    const float along = ((p.x - 16) * std::cos(angle) + (p.y - 16) * std::sin(angle)) / 40.0F + 0.5F;
    const float stripe = depth * std::sin(frequency * (p.x * std::cos(stripe_angle) + p.y * std::sin(stripe_angle)));
    Colour colour = mix(from, to, along);
    for (float& value : colour) value += stripe;
    return colour;
  });
  return mix(from, to, 0.5F);
}

/// A blob or a line of any colour, too small to be taken for a figure.
void draw_clutter(Canvas& canvas, Random& random) {
  const Colour colour = any_colour(random);
  const float opacity = between(random, 0.5F, 1);
  const Point centre{between(random, 0, side), between(random, 0, side)};
  const float angle = between(random, 0, pi);
  const Point along{std::cos(angle), std::sin(angle)};
  const bool line = random.uniform() < 0.5F;
  const float half_length = line ? between(random, 4, 10) : between(random, 0.8F, 2);
  const float half_width = line ? between(random, 0.3F, 0.7F) : between(random, 0.8F, 2);
  canvas.paint(
      [&](Point p) {
        const Point q{p.x - centre.x, p.y - centre.y};
        return box({q.x * along.x + q.y * along.y, q.y * along.x - q.x * along.y}, half_length, half_width);
      },
      colour, opacity);
}

void draw_figure(Canvas& canvas, Random& random, const Figure& figure, const Colour& background) {
  const Colour colour = figure_colour(random, background);
  const float opacity = between(random, 0.8F, 1);
  const float radius = between(random, 8, 13);
  const float room = 16.5F - radius;
  const Point centre{16 + between(random, -room, room), 16 + between(random, -room, room)};
  const float angle = between(random, -0.35F, 0.35F);
  const float stretch = between(random, 0.9F, 1.1F);
  const float mirror = random.uniform() < 0.5F ? -1.0F : 1.0F;
  const Point along{std::cos(angle) / radius, std::sin(angle) / radius};
  canvas.paint(
      [&](Point p) {
        const Point q{p.x - centre.x, p.y - centre.y};
        const Point turned{q.x * along.x + q.y * along.y, q.y * along.x - q.x * along.y};
        return figure.distance({turned.x * mirror * stretch, turned.y / stretch}) * radius;
      },
      colour, opacity);
}

void draw(Random random, const Figure& figure, uint8_t* out) {
  Canvas canvas;
  const Colour background = draw_background(canvas, random);
  const uint64_t behind = random.below(3), before = random.below(2);
  for (uint64_t i = 0; i < behind; ++i) draw_clutter(canvas, random);
  draw_figure(canvas, random, figure, background);
  for (uint64_t i = 0; i < before; ++i) draw_clutter(canvas, random);
  const float noise = between(random, 0.02F, 0.08F);
  canvas.write(random, noise, out);
}

/// Classes take turns, so that any run of images holds all of them.
Split draw_split(int64_t per_class, uint64_t seed, uint32_t split) {
  const ImageShape shape{3, side, side};
  std::vector<uint8_t> bytes(static_cast<size_t>(per_class * shape.size()) * figures.size());
  Split result;
  uint8_t* out = bytes.data();
  for (int64_t index = 0; index < per_class; ++index) {
    throw_if_interrupted();
    for (uint32_t label = 0; label < figures.size(); ++label, out += shape.size()) {
      draw(Random(seed, Purpose::synthetic, split, label, static_cast<uint32_t>(index)), figures[label], out);
      result.labels.push_back(static_cast<int32_t>(label));
    }
  }
  result.images = Images::own(shape, std::move(bytes));
  return result;
}

}  // namespace

Dataset make_shapes(int64_t train_per_class, int64_t test_per_class, uint64_t seed) {
  Dataset dataset;
  dataset.name = "shapes";
  dataset.train = draw_split(train_per_class, seed, 0);
  dataset.test = draw_split(test_per_class, seed, 1);
  for (const auto& figure : figures) dataset.class_names.emplace_back(figure.name);
  dataset.normalisation = {{0.35F, 0.35F, 0.35F}, {0.25F, 0.25F, 0.25F}};
  dataset.augmentation = {crop(2), flip()};  // a mirrored or shifted figure keeps its name
  dataset.balanced = true;
  return dataset;
}

}  // namespace fedgrab
