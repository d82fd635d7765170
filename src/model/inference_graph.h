/// The computation from images to logits in elementary operations, normalisation and head included. Every form in which
/// a model is exported is written from this one description.
#pragma once

#include <string>
#include <vector>

#include "fedgrab/model/state.h"

namespace fedgrab {

enum class GraphOp {
  add,
  subtract,
  multiply,
  divide,
  convolution,
  batch_norm,
  relu,
  max_pool,
  global_average,  // over rows and columns
  flatten,         // all but the first dimension
  linear,
  unit_rows,  // each divided by its length, cosine_epsilon at least
  deviation,  // of each row: of the population, smallest_spread at least
};

struct GraphStep {
  GraphOp operation;
  std::string output;
  std::vector<std::string> inputs;  // "images", the output of an earlier step, or a constant
  int64_t kernel = 1, stride = 1, padding = 0;
};

struct InferenceGraph {
  std::vector<GraphStep> steps;
  TensorMap constants;  // by the names of the state's parameters, and "mean", "std", …; copies
};

inline const std::string graph_input = "images", graph_output = "logits";

/// Of the first head. Images are floats 0..1, [batch, channels, height, width].
InferenceGraph inference_graph(const State& state, const Normalisation& normalisation);

}  // namespace fedgrab
