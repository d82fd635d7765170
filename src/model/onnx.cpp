#include "fedgrab/model/onnx.h"

#include <fmt/format.h>

#include "epsilon.h"
#include "fedgrab/core/file.h"
#include "fedgrab/core/protobuf.h"
#include "fedgrab/core/version.h"
#include "inference_graph.h"

namespace fedgrab {
namespace {

using protobuf::bytes_field, protobuf::float_field, protobuf::integer_field;

constexpr int64_t ir_version = 8, operator_set = 17;
const std::string probabilities = "probabilities", cosine_floor = "cosine_epsilon", spread_floor = "smallest_spread";

// Field numbers of onnx.proto3.
namespace model_field {
constexpr int ir = 1, producer_name = 2, producer_version = 3, graph = 7, opset = 8, opset_version = 2, metadata = 14,
              metadata_key = 1, metadata_value = 2;
}
namespace graph_field {
constexpr int node = 1, name = 2, initializer = 5, input = 11, output = 12;
}
namespace node_field {
constexpr int input = 1, output = 2, name = 3, operation = 4, attribute = 5;
}
namespace attribute_field {
constexpr int name = 1, number = 2, integer = 3, integers = 8, type = 20;
constexpr int64_t type_number = 1, type_integer = 2, type_integers = 7;
}  // namespace attribute_field
namespace tensor_field {
constexpr int dims = 1, data_type = 2, name = 8, raw_data = 9;
constexpr int64_t type_float = 1;
}  // namespace tensor_field
namespace value_field {
constexpr int name = 1, type = 2, tensor_type = 1, element_type = 1, shape = 2, dim = 1, dim_value = 1, dim_name = 2;
}

std::string attribute(const char* name, double value) {
  return bytes_field(attribute_field::name, name) + float_field(attribute_field::number, static_cast<float>(value)) +
         integer_field(attribute_field::type, attribute_field::type_number);
}
std::string attribute(const char* name, int64_t value) {
  return bytes_field(attribute_field::name, name) + integer_field(attribute_field::integer, value) +
         integer_field(attribute_field::type, attribute_field::type_integer);
}
std::string attribute(const char* name, std::initializer_list<int64_t> values) {
  std::string text = bytes_field(attribute_field::name, name);
  for (const int64_t value : values) text += integer_field(attribute_field::integers, value);
  return text + integer_field(attribute_field::type, attribute_field::type_integers);
}

std::string tensor(const std::string& name, const torch::Tensor& values) {
  const auto stored = values.to(torch::kFloat).contiguous();
  std::string text;
  for (const int64_t size : stored.sizes()) text += integer_field(tensor_field::dims, size);
  text += integer_field(tensor_field::data_type, tensor_field::type_float) + bytes_field(tensor_field::name, name);
  const std::string_view bytes(static_cast<const char*>(stored.data_ptr()), stored.nbytes());
  return text.append(bytes_field(tensor_field::raw_data, bytes));
}

/// Of any first dimension.
std::string value_info(const std::string& name, std::initializer_list<int64_t> sizes) {
  using namespace value_field;  // NOLINT(google-build-using-namespace)
  std::string dims = bytes_field(dim, bytes_field(dim_name, "batch"));
  for (const int64_t size : sizes) dims += bytes_field(dim, integer_field(dim_value, size));
  const std::string type_of_tensor = integer_field(element_type, tensor_field::type_float) + bytes_field(shape, dims);
  return bytes_field(value_field::name, name) + bytes_field(type, bytes_field(tensor_type, type_of_tensor));
}

/// Writes each step as one node, or as the few that ONNX needs for it.
class NodeWriter {
 public:
  void write(const GraphStep& step) {
    const auto& x = step.inputs;
    switch (step.operation) {
      case GraphOp::add: return node("Add", x, step.output);
      case GraphOp::subtract: return node("Sub", x, step.output);
      case GraphOp::multiply: return node("Mul", x, step.output);
      case GraphOp::divide: return node("Div", x, step.output);
      case GraphOp::convolution: return node("Conv", x, step.output, window(step));
      case GraphOp::batch_norm:
        return node("BatchNormalization", x, step.output, {attribute("epsilon", batch_norm_epsilon)});
      case GraphOp::relu: return node("Relu", x, step.output);
      case GraphOp::max_pool: return node("MaxPool", x, step.output, window(step));
      case GraphOp::global_average:
        return node("ReduceMean", x, step.output, {attribute("axes", {2, 3}), attribute("keepdims", int64_t{0})});
      case GraphOp::flatten: return node("Flatten", x, step.output, {attribute("axis", int64_t{1})});
      case GraphOp::linear: return node("Gemm", x, step.output, {attribute("transB", int64_t{1})});
      case GraphOp::unit_rows: return unit_rows(x.front(), step.output);
      case GraphOp::deviation: return deviation(x.front(), step.output);
    }
  }
  void softmax(const std::string& input, const std::string& output) {
    node("Softmax", {input}, output, {attribute("axis", int64_t{1})});
  }
  const std::string& text() const { return text_; }
  /// Constants of its own that the nodes use, by name.
  const std::map<std::string, double>& floors() const { return floors_; }

 private:
  static std::vector<std::string> window(const GraphStep& s) {
    return {attribute("kernel_shape", {s.kernel, s.kernel}), attribute("strides", {s.stride, s.stride}),
            attribute("pads", {s.padding, s.padding, s.padding, s.padding})};
  }
  static std::vector<std::string> along_rows() { return {attribute("axes", {-1}), attribute("keepdims", int64_t{1})}; }
  void unit_rows(const std::string& x, const std::string& output) {
    node("ReduceL2", {x}, output + ".length", along_rows());
    at_least(output + ".length", cosine_floor, cosine_epsilon, output + ".divisor");
    node("Div", {x, output + ".divisor"}, output);
  }
  void deviation(const std::string& x, const std::string& output) {
    node("ReduceMean", {x}, output + ".mean", along_rows());
    node("Sub", {x, output + ".mean"}, output + ".centred");
    node("Mul", {output + ".centred", output + ".centred"}, output + ".square");
    node("ReduceMean", {output + ".square"}, output + ".variance", along_rows());
    node("Sqrt", {output + ".variance"}, output + ".root");
    at_least(output + ".root", spread_floor, smallest_spread, output);
  }
  void at_least(const std::string& x, const std::string& floor, double value, const std::string& output) {
    floors_.emplace(floor, value);
    node("Max", {x, floor}, output);
  }
  void node(const char* operation, const std::vector<std::string>& inputs, const std::string& output,
            const std::vector<std::string>& attributes = {}) {
    std::string text;
    for (const auto& input : inputs) text += bytes_field(node_field::input, input);
    text += bytes_field(node_field::output, output) + bytes_field(node_field::name, output) +
            bytes_field(node_field::operation, operation);
    for (const auto& one : attributes) text += bytes_field(node_field::attribute, one);
    text_ += bytes_field(graph_field::node, text);
  }

  std::string text_;
  std::map<std::string, double> floors_;
};

std::string graph_text(const State& state, const InferenceGraph& graph) {
  NodeWriter nodes;
  for (const auto& step : graph.steps) nodes.write(step);
  nodes.softmax(graph_output, probabilities);
  const ImageShape& input = state.model->architecture.input;
  std::string text = nodes.text() + bytes_field(graph_field::name, state.model->architecture.name);
  for (const auto& [name, values] : graph.constants)
    text += bytes_field(graph_field::initializer, tensor(name, values));
  for (const auto& [name, value] : nodes.floors())
    text += bytes_field(graph_field::initializer, tensor(name, torch::full({1}, value)));
  text += bytes_field(graph_field::input, value_info(graph_input, {input.channels, input.height, input.width}));
  for (const auto& name : {graph_output, probabilities})
    text += bytes_field(graph_field::output, value_info(name, {state.model->classes}));
  return text;
}

}  // namespace

void save_onnx(const std::filesystem::path& path, const State& state, const Normalisation& normalisation,
               const std::map<std::string, std::string>& metadata) {
  std::string text = integer_field(model_field::ir, ir_version) + bytes_field(model_field::producer_name, "fedgrab") +
                     bytes_field(model_field::producer_version, version()) +
                     bytes_field(model_field::opset, integer_field(model_field::opset_version, operator_set)) +
                     bytes_field(model_field::graph, graph_text(state, inference_graph(state, normalisation)));
  for (const auto& [key, value] : metadata)
    text += bytes_field(model_field::metadata,
                        bytes_field(model_field::metadata_key, key) + bytes_field(model_field::metadata_value, value));
  write_atomically(path, text);
}

}  // namespace fedgrab
