#include "fedgrab/model/architecture.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "fedgrab/core/error.h"
#include "fedgrab/core/parameters.h"
#include "fedgrab/core/registry.h"

namespace fedgrab {
namespace {

/// Appends layers and keeps track of where the data is and how wide it has become.
class Builder {
 public:
  Builder(std::string name, ImageShape input)
      : architecture_{std::move(name), input, {}, 0}, channels_(input.channels) {}

  int last() const { return static_cast<int>(architecture_.layers.size()) - 1; }

  int convolution(const std::string& name, int input, int64_t in, int64_t out, int64_t kernel, int64_t stride = 1) {
    channels_ = out;
    return append({LayerKind::convolution, name, input, -1, in, out, kernel, stride, kernel / 2});
  }
  /// With a bias, and without padding.
  int plain_convolution(const std::string& name, int64_t in, int64_t out, int64_t kernel) {
    channels_ = out;
    return append({LayerKind::convolution, name, last(), -1, in, out, kernel, 1, 0, true});
  }
  int norm(const std::string& name, int input, int64_t width) {
    return append({LayerKind::batch_norm, name, input, -1, width, width});
  }
  int relu(int input) { return append({LayerKind::relu, "", input}); }
  int add(int input, int other) { return append({LayerKind::add, "", input, other}); }
  int max_pool(int64_t kernel, int64_t stride, int64_t padding) {
    return append({LayerKind::max_pool, "", last(), -1, channels_, channels_, kernel, stride, padding});
  }
  int global_average() { return append({LayerKind::global_average, "", last()}); }
  int dropout(double rate) { return append({.kind = LayerKind::dropout, .input = last(), .rate = rate}); }
  int flatten() { return append({LayerKind::flatten, "", last()}); }
  int linear(const std::string& name, int64_t in, int64_t out) {
    channels_ = out;
    return append({LayerKind::linear, name, last(), -1, in, out});
  }

  Architecture finish() && {
    architecture_.features = channels_;
    return std::move(architecture_);
  }

 private:
  int append(Layer layer) {
    architecture_.layers.push_back(std::move(layer));
    return last();
  }

  Architecture architecture_;
  int64_t channels_;
};

/// Three stages of convolution, norm, ReLU and pooling, and a projection to 256 features if requested: small enough for
/// a CPU.
Architecture cnn(const std::string& name, ImageShape input, bool wide) {
  if (input.height < 8 || input.width < 8)
    throw Error(Fault::usage, "model.name", name + " needs images of at least 8 x 8 pixels", "raise data.size");
  Builder b(name, input);
  int64_t in = input.channels;
  for (int stage = 1; stage <= 3; ++stage) {
    const int64_t out = int64_t{8} << stage;
    const int convolved = b.convolution(fmt::format("conv{}", stage), b.last(), in, out, 3);
    b.relu(b.norm(fmt::format("bn{}", stage), convolved, out));
    if (stage < 3) b.max_pool(2, 2, 0);
    in = out;
  }
  if (wide) b.relu(b.norm("bn4", b.convolution("conv4", b.last(), in, 256, 1), 256));
  b.global_average();
  return std::move(b).finish();
}

/// The network of pfl-research's CIFAR-10 benchmark: 1,626,442 parameters there.
Architecture pfl_cnn(ImageShape input) {
  if (input.height < 6 || input.width < 6)
    throw Error(Fault::usage, "model.name", "pfl-cnn needs images of at least 6 x 6 pixels", "raise data.size");
  Builder b("pfl-cnn", input);
  b.relu(b.plain_convolution("conv1", input.channels, 32, 3));
  b.relu(b.plain_convolution("conv2", 32, 64, 3));
  b.max_pool(2, 2, 0);
  b.dropout(0.25);
  b.flatten();
  b.relu(b.linear("fc1", 64 * ((input.height - 4) / 2) * ((input.width - 4) / 2), 128));
  b.dropout(0.5);
  return std::move(b).finish();
}

/// conv-norm-relu-conv-norm (He et al. 2016); `expansion` 4 makes it the bottleneck with the stride on the 3×3.
void residual_block(Builder& b, const std::string& name, int64_t in, int64_t width, int64_t stride, int64_t expansion) {
  const int start = b.last();
  const int64_t out = width * expansion;
  int x = start;
  const auto conv_norm = [&](int index, int64_t from, int64_t to, int64_t kernel, int64_t step) {
    x = b.norm(fmt::format("{}.bn{}", name, index),
               b.convolution(fmt::format("{}.conv{}", name, index), x, from, to, kernel, step), to);
  };
  if (expansion == 1) {
    conv_norm(1, in, width, 3, stride);
    x = b.relu(x);
    conv_norm(2, width, width, 3, 1);
  } else {
    conv_norm(1, in, width, 1, 1);
    x = b.relu(x);
    conv_norm(2, width, width, 3, stride);
    x = b.relu(x);
    conv_norm(3, width, out, 1, 1);
  }
  int skip = start;
  if (stride != 1 || in != out)
    skip = b.norm(name + ".downsample.1", b.convolution(name + ".downsample.0", start, in, out, 1, stride), out);
  b.relu(b.add(x, skip));
}

struct ResidualPlan {
  std::vector<int> blocks;
  int64_t width = 64;
  int64_t expansion = 1;
  bool imagenet_stem = false;
};

Architecture resnet(const std::string& name, ImageShape input, const ResidualPlan& plan) {
  Builder b(name, input);
  const int64_t stem_kernel = plan.imagenet_stem ? 7 : 3;
  b.relu(b.norm("bn1", b.convolution("conv1", -1, input.channels, plan.width, stem_kernel, plan.imagenet_stem ? 2 : 1),
                plan.width));
  if (plan.imagenet_stem) b.max_pool(3, 2, 1);
  int64_t in = plan.width;
  for (size_t stage = 0; stage < plan.blocks.size(); ++stage) {
    const int64_t width = plan.width << stage;
    for (int block = 0; block < plan.blocks[stage]; ++block) {
      residual_block(b, fmt::format("layer{}.{}", stage + 1, block), in, width, stage > 0 && block == 0 ? 2 : 1,
                     plan.expansion);
      in = width * plan.expansion;
    }
  }
  b.global_average();
  Architecture made = std::move(b).finish();
  made.features = in;
  return made;
}

struct NamedNetwork {
  std::string name;
  Architecture (*make)(const std::string& name, ImageShape input);
};

const std::vector<NamedNetwork>& networks() {
  using Name = const std::string&;
  static const std::vector<NamedNetwork> all{
      {"cnn", [](Name name, ImageShape input) { return cnn(name, input, false); }},
      {"cnn256", [](Name name, ImageShape input) { return cnn(name, input, true); }},
      {"resnet8",
       [](Name name, ImageShape input) {
         return resnet(name, input, {.blocks = {1, 1, 1}, .width = 16});
       }},
      {"resnet32",
       [](Name name, ImageShape input) {
         return resnet(name, input, {.blocks = {5, 5, 5}, .width = 16});
       }},
      {"resnet18",
       [](Name name, ImageShape input) {
         return resnet(name, input, {.blocks = {2, 2, 2, 2}});
       }},
      {"resnet34",
       [](Name name, ImageShape input) {
         return resnet(name, input, {.blocks = {3, 4, 6, 3}});
       }},
      {"resnet50",
       [](Name name, ImageShape input) {
         return resnet(name, input, {.blocks = {3, 4, 6, 3}, .expansion = 4, .imagenet_stem = true});
       }},
      {"pfl-cnn", [](Name, ImageShape input) { return pfl_cnn(input); }},
  };
  return all;
}

}  // namespace

const std::vector<std::string>& architecture_names() {
  static const std::vector<std::string> names = names_in(networks());
  return names;
}

Architecture make_architecture(const std::string& name, ImageShape input) {
  return find_in(networks(), "model.name", name, fmt::format("one of {}", fmt::join(architecture_names(), ", ")))
      .make(name, input);
}

}  // namespace fedgrab
