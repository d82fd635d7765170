/// A backbone as a plain list of layers with shapes: the CPU runs it through ATen one network at a time, a batched
/// engine can run the same list for many clients at once.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "fedgrab/data/dataset.h"

namespace fedgrab {

enum class LayerKind { convolution, batch_norm, relu, max_pool, global_average, flatten, linear, add, dropout };

struct Layer {
  LayerKind kind;
  std::string name;  // prefix of its parameters, as torchvision spells it; empty when it has none
  int input = -1;    // the layer whose output it reads; -1: the images
  int other = -1;    // add: the second operand
  int64_t in = 0, out = 0;
  int64_t kernel = 1, stride = 1, padding = 0;
  bool bias = false;  // convolution
  double rate = 0;    // dropout: share of values that are set to zero in training
};

struct Architecture {
  std::string name;
  ImageShape input;
  std::vector<Layer> layers;  // the last one's output is the features
  int64_t features = 0;
};

/// cnn, resnet8 and resnet32 (three stages), resnet18 and resnet34 (3×3 stem, no pooling), resnet50 (ImageNet stem),
/// pfl-cnn. Throws a usage Error for an unknown name or an image too small for the network.
Architecture make_architecture(const std::string& name, ImageShape input);
const std::vector<std::string>& architecture_names();

}  // namespace fedgrab
