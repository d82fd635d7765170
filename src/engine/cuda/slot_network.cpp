#include "slot_network.h"

#include <ATen/cuda/CUDAEvent.h>
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "fedgrab/core/error.h"

namespace fedgrab::cuda {
namespace {

cudaStream_t stream() { return c10::cuda::getCurrentCUDAStream().stream(); }

float* floats(const torch::Tensor& t, int64_t offset = 0) {
  return t.defined() ? t.data_ptr<float>() + offset : nullptr;
}
float2* pairs(const torch::Tensor& t) { return reinterpret_cast<float2*>(t.data_ptr<float>()); }

torch::TensorOptions on_device(torch::ScalarType type) {
  return torch::TensorOptions().dtype(type).device(torch::kCUDA);
}

int64_t narrow(int64_t size, int64_t kernel, int64_t stride, int64_t padding) {
  return (size + 2 * padding - kernel) / stride + 1;
}

}  // namespace

SlotWeights::SlotWeights(int64_t slots, int64_t size, Precision precision, bool trained)
    : values(torch::zeros({slots, size}, on_device(torch::kFloat))) {
  if (trained) velocity = torch::zeros_like(values);
  if (precision == Precision::bf16) copy = torch::zeros({slots, size}, on_device(torch::kBFloat16));
}

void SlotWeights::restart() {
  if (velocity.defined()) velocity.zero_();
  if (copy.defined()) copy_to_bf16(floats(values), copy.data_ptr(), values.numel(), stream());
}

SlotNetwork::SlotNetwork(std::shared_ptr<const Model> model, Precision precision)
    : model_(std::move(model)), precision_(precision), layout_(*model_) {
  compile();
  for (const auto& op : operations_)
    if (op.out % channel_padding != 0 || model_->architecture.input.channels > channel_padding)
      throw Error(Fault::other, "model", "a width that is no multiple of 8 does not run on cuda",
                  "choose --device cpu");
}

void SlotNetwork::compile() {
  const auto& layers = model_->architecture.layers;
  const auto& input = model_->architecture.input;
  std::vector<int> readers(layers.size()), last_reader(layers.size(), -1);
  for (size_t i = 0; i < layers.size(); ++i)
    for (const int source : {layers[i].input, layers[i].other})
      if (source >= 0) {
        ++readers[static_cast<size_t>(source)];
        last_reader[static_cast<size_t>(source)] = static_cast<int>(i);
      }
  const auto only_reader_is = [&](size_t i, LayerKind kind) {
    return readers[i] == 1 && layers[static_cast<size_t>(last_reader[i])].kind == kind;
  };
  std::vector<int> made_by(layers.size(), -1);  // the operation that holds a layer's output
  std::map<int, Operation> waiting;             // norms whose residual is not there yet, by layer
  operations_.reserve(layers.size());
  const auto producer = [&](int layer) { return layer < 0 ? -1 : made_by[static_cast<size_t>(layer)]; };
  const auto emit = [&](Operation op) {
    operations_.push_back(std::move(op));
    return static_cast<int>(operations_.size()) - 1;
  };
  for (size_t i = 0; i < layers.size(); ++i) {
    const Layer& layer = layers[i];
    Operation op{.kind = Kind::convolution, .input = producer(layer.input), .name = layer.name};
    if (op.input >= 0) {
      const Operation& before = operations_[static_cast<size_t>(op.input)];
      op.in = before.out, op.height = before.out_height, op.width = before.out_width;
    } else {
      op.in = input.channels, op.height = input.height, op.width = input.width;
    }
    op.out = op.in, op.out_height = op.height, op.out_width = op.width;
    op.kernel = layer.kernel, op.stride = layer.stride, op.padding = layer.padding;
    switch (layer.kind) {
      case LayerKind::convolution:
      case LayerKind::max_pool:
        if (layer.bias) throw Error(Fault::other, layer.name, "a convolution with a bias does not run on cuda yet");
        op.kind = layer.kind == LayerKind::convolution ? Kind::convolution : Kind::max_pool;
        if (layer.kind == LayerKind::convolution) op.out = layer.out;
        op.out_height = narrow(op.height, op.kernel, op.stride, op.padding);
        op.out_width = narrow(op.width, op.kernel, op.stride, op.padding);
        made_by[i] = emit(op);
        break;
      case LayerKind::batch_norm:
        op.kind = Kind::norm;
        op.relu = only_reader_is(i, LayerKind::relu);
        if (only_reader_is(i, LayerKind::add))
          waiting.emplace(static_cast<int>(i), op);
        else
          made_by[i] = emit(op);
        break;
      case LayerKind::add: {
        const auto norm = waiting.find(layer.input);
        if (norm == waiting.end())
          throw Error(Fault::other, "model", "a sum without a norm before it does not run on cuda yet");
        if (const auto skip = waiting.find(layer.other); skip != waiting.end())  // downsampled
          made_by[static_cast<size_t>(layer.other)] = emit(skip->second);
        Operation sum = norm->second;
        sum.residual = producer(layer.other);
        sum.relu = only_reader_is(i, LayerKind::relu);
        made_by[i] = emit(sum);
        break;
      }
      case LayerKind::relu:
        if (op.input < 0 || !operations_[static_cast<size_t>(op.input)].relu)
          throw Error(Fault::other, "model", "a ReLU without a norm before it does not run on cuda yet");
        made_by[i] = op.input;
        break;
      case LayerKind::global_average:
        op.kind = Kind::global_average;
        made_by[i] = emit(op);
        break;
      default: throw Error(Fault::other, "model", "a layer of this kind does not run on cuda yet");
    }
  }
}

ConvolutionShape SlotNetwork::convolution_shape(const Operation& op, int64_t slots, int64_t batch) const {
  const auto i = [](int64_t n) { return static_cast<int>(n); };
  return {i(slots),        i(batch),          i(op.height), i(op.width),  i(padded(op.in)), i(op.out_height),
          i(op.out_width), i(padded(op.out)), i(op.kernel), i(op.stride), i(op.padding)};
}

NormShape SlotNetwork::norm_shape(const Operation& op, int64_t slots, int64_t batch) const {
  return {static_cast<int>(slots), static_cast<int>(batch), static_cast<int>(op.height * op.width),
          static_cast<int>(op.in)};
}

NormTensors SlotNetwork::norm_tensors(const Operation& op, const SlotWeights& weights) const {
  const auto at = [&](const char* suffix) { return floats(weights.values, layout_.offset(op.name + suffix)); };
  return {at(".weight"), at(".bias"), at(".running_mean"), at(".running_var"), layout_.size()};
}

int64_t SlotNetwork::activation_bytes() const {
  int64_t elements = model_->architecture.input.height * model_->architecture.input.width * channel_padding;
  for (const auto& op : operations_) elements += op.out * op.out_height * op.out_width;
  return elements * static_cast<int64_t>(torch::elementSize(type())) * 3 / 2;
}

int64_t SlotNetwork::largest_batch() const {
  int64_t largest = 1;
  for (const auto& op : operations_)
    largest = std::max({largest, op.height * op.width * padded(op.in), op.out_height * op.out_width * padded(op.out)});
  return std::numeric_limits<int32_t>::max() / largest;
}

torch::Tensor SlotNetwork::forward(const SlotWeights& weights, const torch::Tensor& images, const torch::Tensor& counts,
                                   Tape* tape) const {
  const int64_t slots = images.size(0), batch = images.size(1);
  if (batch > largest_batch())
    throw Error(Fault::usage, "train.batch", fmt::format("{} images of this size are too many for the device", batch),
                fmt::format("at most {}", largest_batch()));
  const auto* const samples = counts.data_ptr<int32_t>();
  std::vector<torch::Tensor> values(operations_.size()), extra(operations_.size());
  torch::Tensor features;
  for (size_t i = 0; i < operations_.size(); ++i) {
    const Operation& op = operations_[i];
    const torch::Tensor& input = op.input < 0 ? images : values[static_cast<size_t>(op.input)];
    const auto output = [&] {
      return torch::empty({slots, batch, op.out_height, op.out_width, op.out}, on_device(type()));
    };
    switch (op.kind) {
      case Kind::convolution: {
        values[i] = output();
        if (tape != nullptr)
          extra[i] = torch::empty(
              {slots, op.out, sums_per_channel(static_cast<int>(batch), static_cast<int>(op.out_height * op.out_width)),
               2},
              on_device(torch::kFloat));
        const int64_t offset = layout_.offset(op.name + ".weight");
        const auto& read = weights.copy.defined() ? weights.copy : weights.values;
        convolve(precision_, convolution_shape(op, slots, batch), samples, input.data_ptr(),
                 static_cast<const char*>(read.data_ptr()) + offset * static_cast<int64_t>(read.element_size()),
                 layout_.size(), values[i].data_ptr(), tape != nullptr ? pairs(extra[i]) : nullptr, stream());
        break;
      }
      case Kind::norm: {
        values[i] = output();
        const auto shape = norm_shape(op, slots, batch);
        const auto tensors = norm_tensors(op, weights);
        extra[i] = torch::empty({slots, op.out, 2}, on_device(torch::kFloat));
        if (tape != nullptr) {
          auto& sums = extra[static_cast<size_t>(op.input)];
          norm_statistics(shape, samples, pairs(sums), tensors, pairs(extra[i]), stream());
          sums.reset();
        } else {
          norm_running_statistics(shape, tensors, pairs(extra[i]), stream());
        }
        const void* residual = op.residual < 0 ? nullptr : values[static_cast<size_t>(op.residual)].data_ptr();
        norm_apply(precision_, shape, samples, input.data_ptr(), pairs(extra[i]), tensors, residual, op.relu,
                   values[i].data_ptr(), stream());
        break;
      }
      case Kind::max_pool:
        values[i] = output();
        extra[i] = torch::empty(values[i].sizes(), on_device(torch::kByte));
        max_pool(precision_, convolution_shape(op, slots, batch), samples, input.data_ptr(), values[i].data_ptr(),
                 extra[i].data_ptr<uint8_t>(), stream());
        break;
      case Kind::global_average:
        features = torch::empty({slots, batch, op.in}, on_device(torch::kFloat));
        global_average(precision_, norm_shape(op, slots, batch), samples, input.data_ptr(), floats(features), stream());
        break;
    }
  }
  if (tape != nullptr) *tape = {std::move(values), std::move(extra)};
  return features;
}

void SlotNetwork::backward(const SlotWeights& weights, const torch::Tensor& images, const torch::Tensor& counts,
                           Tape& tape, const torch::Tensor& feature_gradient, Update& update) const {
  const int64_t slots = images.size(0), batch = images.size(1);
  const auto* const samples = counts.data_ptr<int32_t>();
  const int64_t gradient_stride = update.gradient.size(1);
  std::vector<torch::Tensor> gradients(operations_.size());  // of each operation's output
  std::vector<torch::Tensor> in_use;                         // by the side stream, until it is joined
  const auto main = c10::cuda::getCurrentCUDAStream();
  const auto gradient_at = [&](const std::string& name) {
    return floats(update.gradient, layout_.offset(name) - update.first);
  };
  for (size_t i = operations_.size(); i-- > 0;) {
    const Operation& op = operations_[i];
    const torch::Tensor& input = op.input < 0 ? images : tape.values[static_cast<size_t>(op.input)];
    torch::Tensor* const below = op.input < 0 ? nullptr : &gradients[static_cast<size_t>(op.input)];
    switch (op.kind) {
      case Kind::global_average:
        *below = torch::empty_like(input);
        global_average_backward(precision_, norm_shape(op, slots, batch), samples, floats(feature_gradient),
                                below->data_ptr(), stream());
        break;
      case Kind::max_pool:
        *below = torch::empty_like(input);
        max_pool_backward(precision_, convolution_shape(op, slots, batch), samples, gradients[i].data_ptr(),
                          tape.extra[i].data_ptr<uint8_t>(), below->data_ptr(), stream());
        break;
      case Kind::norm: {
        *below = torch::empty_like(input);
        const auto scratch = torch::empty({slots, op.out, norm_chunks, 2}, on_device(torch::kFloat));
        const auto sums = torch::empty({slots, op.out, 2}, on_device(torch::kFloat));
        norm_backward(precision_, norm_shape(op, slots, batch), samples, input.data_ptr(), pairs(tape.extra[i]),
                      norm_tensors(op, weights), op.relu, tape.values[i].data_ptr(), gradients[i].data_ptr(),
                      pairs(scratch), pairs(sums), gradient_at(op.name + ".weight"), gradient_at(op.name + ".bias"),
                      gradient_stride, below->data_ptr(), stream());
        // Behind the ReLU's mask, the same gradient is the residual's.
        if (op.residual >= 0) gradients[static_cast<size_t>(op.residual)] = gradients[i];
        break;
      }
      case Kind::convolution: {
        const auto shape = convolution_shape(op, slots, batch);
        const int64_t offset = layout_.offset(op.name + ".weight");
        if (below != nullptr) {  // before the weights move
          const bool add = below->defined();
          if (!add) *below = torch::empty_like(input);
          const auto& read = weights.copy.defined() ? weights.copy : weights.values;
          convolve_input_gradient(
              precision_, shape, samples, gradients[i].data_ptr(),
              static_cast<const char*>(read.data_ptr()) + offset * static_cast<int64_t>(read.element_size()),
              layout_.size(), below->data_ptr(), add, stream());
        }
        at::cuda::CUDAEvent ready;
        ready.record(main);
        ready.block(update.side);
        in_use.insert(in_use.end(), {input, gradients[i]});
        if (update.fused) {
          const SlotTensor tensor{floats(weights.values, offset),
                                  floats(weights.velocity, offset),
                                  weights.copy.defined()
                                      ? static_cast<char*>(weights.copy.data_ptr()) +
                                            offset * static_cast<int64_t>(weights.copy.element_size())
                                      : nullptr,
                                  floats(update.start, offset),
                                  floats(update.correction, offset),
                                  layout_.size()};
          convolve_and_step(precision_, shape, samples, input.data_ptr(), gradients[i].data_ptr(), tensor, update.rule,
                            update.side.stream());
        } else {
          convolve_weight_gradient(precision_, shape, samples, input.data_ptr(), gradients[i].data_ptr(),
                                   gradient_at(op.name + ".weight"), gradient_stride, update.side.stream());
        }
        break;
      }
    }
    gradients[i].reset();
    tape.values[i].reset();
    tape.extra[i].reset();
  }
  at::cuda::CUDAEvent done;
  done.record(update.side);
  done.block(main);
}

}  // namespace fedgrab::cuda
