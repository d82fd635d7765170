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

int64_t narrow(int64_t size, int64_t kernel, int64_t stride, int64_t padding) {
  return (size + 2 * padding - kernel) / stride + 1;
}

}  // namespace

SlotWeights::SlotWeights(int64_t slots, int64_t size, Precision precision, bool trained)
    : values(torch::zeros({slots, size}, on_device(torch::kFloat))) {
  if (trained) {
    velocity = torch::zeros_like(values);
    tickets = torch::zeros({slots, ticket_room}, on_device(torch::kInt));
  }
  if (precision == Precision::bf16) copy = torch::zeros({slots, size}, on_device(torch::kBFloat16));
}

void SlotWeights::restart() {
  if (velocity.defined()) velocity.zero_();
  if (copy.defined()) copy_to_bf16(floats(values), copy.data_ptr(), values.numel(), stream());
}

SlotNetwork::SlotNetwork(std::shared_ptr<const Model> model, Precision precision, TileChoice& tiles)
    : model_(std::move(model)),
      precision_(precision),
      operations_(compile(model_->architecture)),
      layout_(*model_, convolution_weights()),
      tiles_(tiles) {
  for (const auto& op : operations_)
    if (op.out / channel_padding > ticket_room || op.out % channel_padding != 0 ||
        model_->architecture.input.channels > channel_padding)
      throw Error(Fault::other, "model", "a width that is no multiple of 8, or above 2,048, does not run on cuda",
                  "choose --device cpu");
}

std::map<std::string, ConvolutionWeight> SlotNetwork::convolution_weights() const {
  std::map<std::string, ConvolutionWeight> weights;
  for (const auto& op : operations_)
    if (op.kind == Kind::convolution)
      weights[op.name + ".weight"] = {op.out, op.in, op.linear ? op.height * op.width : op.kernel * op.kernel};
  return weights;
}

std::vector<SlotNetwork::Operation> SlotNetwork::compile(const Architecture& architecture) {
  std::vector<Operation> operations;
  const auto& layers = architecture.layers;
  const auto& input = architecture.input;
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
  operations.reserve(layers.size());
  const auto producer = [&](int layer) { return layer < 0 ? -1 : made_by[static_cast<size_t>(layer)]; };
  const auto emit = [&](Operation op) {
    operations.push_back(std::move(op));
    return static_cast<int>(operations.size()) - 1;
  };
  for (size_t i = 0; i < layers.size(); ++i) {
    const Layer& layer = layers[i];
    Operation op{.kind = Kind::convolution,
                 .input = producer(layer.input),
                 .layer = static_cast<int>(i),
                 .rate = layer.rate,
                 .name = layer.name};
    if (op.input >= 0) {
      const Operation& before = operations[static_cast<size_t>(op.input)];
      op.in = before.out, op.height = before.out_height, op.width = before.out_width;
    } else {
      op.in = input.channels, op.height = input.height, op.width = input.width;
    }
    op.out = op.in, op.out_height = op.height, op.out_width = op.width;
    op.kernel = layer.kernel, op.stride = layer.stride, op.padding = layer.padding;
    switch (layer.kind) {
      case LayerKind::linear:
      case LayerKind::convolution:
      case LayerKind::max_pool:
        op.kind = layer.kind == LayerKind::max_pool ? Kind::max_pool : Kind::convolution;
        op.linear = layer.kind == LayerKind::linear;
        if (op.kind == Kind::convolution) op.out = layer.out;
        op.out_height = op.linear ? 1 : narrow(op.height, op.kernel, op.stride, op.padding);
        op.out_width = op.linear ? 1 : narrow(op.width, op.kernel, op.stride, op.padding);
        made_by[i] = emit(op);
        if (layer.bias || op.linear)
          made_by[i] = emit({.kind = Kind::bias,
                             .input = made_by[i],
                             .relu = only_reader_is(i, LayerKind::relu),
                             .in = op.out,
                             .out = op.out,
                             .height = op.out_height,
                             .width = op.out_width,
                             .out_height = op.out_height,
                             .out_width = op.out_width,
                             .name = layer.name});
        break;
      case LayerKind::dropout:
        op.kind = Kind::dropout;
        made_by[i] = emit(op);
        break;
      case LayerKind::flatten: made_by[i] = op.input; break;
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
        if (op.input < 0 || !operations[static_cast<size_t>(op.input)].relu)
          throw Error(Fault::other, "model", "a ReLU without a norm or bias before it does not run on cuda yet");
        made_by[i] = op.input;
        break;
      case LayerKind::global_average:
        op.kind = Kind::global_average;
        made_by[i] = emit(op);
        break;
    }
  }
  if (const Operation last = operations.back(); last.kind != Kind::global_average)  // the features: one pixel each
    emit({.kind = Kind::global_average,
          .input = static_cast<int>(operations.size()) - 1,
          .in = last.out,
          .out = last.out,
          .height = last.out_height,
          .width = last.out_width,
          .out_height = 1,
          .out_width = 1});
  // Backwards through the list: what reads an operation first is the last to add to its gradient.
  for (size_t i = operations.size(); i-- > 0;) {
    const Operation& op = operations[i];
    for (const int source : {op.input, op.residual})
      if (source >= 0) operations[static_cast<size_t>(source)].completed_by = static_cast<int>(i);
    if (op.kind != Kind::norm) continue;
    if (op.input < 0 || operations[static_cast<size_t>(op.input)].kind != Kind::convolution)
      throw Error(Fault::other, op.name, "a norm without a convolution before it does not run on cuda yet");
    operations[static_cast<size_t>(op.input)].norm = static_cast<int>(i);
  }
  // Only convolutions add to a gradient that is there already.
  for (auto op = operations.begin(); op != operations.end(); ++op)
    for (const int source : {op->input, op->residual})
      if (source >= 0 && op->kind != Kind::convolution &&
          std::any_of(op + 1, operations.end(),
                      [&](const Operation& later) { return later.input == source || later.residual == source; }))
        throw Error(Fault::other, "model", "a branch that begins with no convolution does not run on cuda yet");
  return operations;
}

ConvolutionShape SlotNetwork::convolution_shape(const Operation& op, int64_t slots, int64_t batch) const {
  const auto i = [](int64_t n) { return static_cast<int>(n); };
  if (op.linear)
    return {i(slots), i(batch), 1, 1, i(op.height * op.width * padded(op.in)), 1, 1, i(padded(op.out)), 1, 1, 0};
  return {i(slots),        i(batch),          i(op.height), i(op.width),  i(padded(op.in)), i(op.out_height),
          i(op.out_width), i(padded(op.out)), i(op.kernel), i(op.stride), i(op.padding)};
}

NormShape SlotNetwork::norm_shape(const Operation& op, int64_t slots, int64_t batch) const {
  return {static_cast<int>(slots), static_cast<int>(batch), static_cast<int>(op.height * op.width),
          static_cast<int>(op.in)};
}

NormTensors SlotNetwork::norm_tensors(const Operation& op, const SlotWeights& weights) const {
  const auto at = [&](const char* suffix) { return floats(weights.values, layout_.offset(op.name + suffix)); };
  if (op.kind == Kind::bias) return {nullptr, at(".bias"), nullptr, nullptr, layout_.size()};
  return {at(".weight"), at(".bias"), at(".running_mean"), at(".running_var"), layout_.size()};
}

torch::Tensor SlotNetwork::row_sums(const NormShape& shape) const {
  return torch::empty({row_sums_room(shape.slots, shape.batch, shape.pixels, shape.channels), 2},
                      on_device(torch::kFloat));
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
        const auto shape = convolution_shape(op, slots, batch);
        NormForward norm{};
        torch::Tensor partial;
        if (tape != nullptr && op.norm >= 0) {
          const Operation& behind = operations_[static_cast<size_t>(op.norm)];
          auto& statistics = extra[static_cast<size_t>(op.norm)];
          statistics = torch::empty({slots, op.out, 2}, on_device(torch::kFloat));
          partial = row_sums(norm_shape(behind, slots, batch));
          norm = {
              {pairs(partial), weights.tickets.data_ptr<int32_t>()}, norm_tensors(behind, weights), pairs(statistics)};
        }
        const int64_t offset = layout_.offset(op.name + ".weight");
        const auto& read = weights.copy.defined() ? weights.copy : weights.values;
        convolve(precision_, shape, samples, input.data_ptr(),
                 static_cast<const char*>(read.data_ptr()) + offset * static_cast<int64_t>(read.element_size()),
                 layout_.size(), values[i].data_ptr(), partial.defined() ? &norm : nullptr,
                 tape != nullptr ? tiles_(Pass::forward, shape) : usual_tile(Pass::forward, shape), stream());
        break;
      }
      case Kind::norm: {
        values[i] = output();
        const auto shape = norm_shape(op, slots, batch);
        const auto tensors = norm_tensors(op, weights);
        if (tape == nullptr) {
          extra[i] = torch::empty({slots, op.out, 2}, on_device(torch::kFloat));
          norm_running_statistics(shape, tensors, pairs(extra[i]), stream());
        }
        const void* residual = op.residual < 0 ? nullptr : values[static_cast<size_t>(op.residual)].data_ptr();
        norm_apply(precision_, shape, samples, input.data_ptr(), pairs(extra[i]), tensors, residual, op.relu,
                   values[i].data_ptr(), stream());
        break;
      }
      case Kind::bias:
        values[i] = output();
        norm_apply(precision_, norm_shape(op, slots, batch), samples, input.data_ptr(), nullptr,
                   norm_tensors(op, weights), nullptr, op.relu, values[i].data_ptr(), stream());
        break;
      case Kind::dropout:
        values[i] = input;
        if (tape == nullptr) break;
        values[i] = output();
        dropout(precision_, norm_shape(op, slots, batch), samples, tape->plan, op.layer, static_cast<float>(op.rate),
                input.data_ptr(), values[i].data_ptr(), stream());
        break;
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
  if (tape != nullptr) *tape = {tape->plan, std::move(values), std::move(extra)};
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
  // Hands out the first half of a norm's backward pass, to whoever holds its output's gradient.
  std::vector<torch::Tensor> means(operations_.size());
  const auto with_norm_task = [&](size_t index, auto&& use) {
    const Operation& norm = operations_[index];
    const auto partial = row_sums(norm_shape(norm, slots, batch));
    NormBackward task{.sums = {pairs(partial), weights.tickets.data_ptr<int32_t>()},
                      .output = norm.relu ? tape.values[index].data_ptr() : nullptr,
                      .gradient_bias = gradient_at(norm.name + ".bias"),
                      .gradient_stride = gradient_stride};
    if (norm.kind == Kind::norm) {
      means[index] = torch::empty({slots, norm.out, 2}, on_device(torch::kFloat));
      task.input = tape.values[static_cast<size_t>(norm.input)].data_ptr();
      task.statistics = pairs(tape.extra[index]);
      task.means = pairs(means[index]);
      task.gradient_weight = gradient_at(norm.name + ".weight");
    }
    use(task);
  };
  const auto has_sums = [](const Operation& op) { return op.kind == Kind::norm || op.kind == Kind::bias; };
  const auto sums_in_passing = [](const Operation& op) { return op.kind == Kind::convolution && !op.linear; };
  const auto complete_sums = [&](size_t index) {  // where no convolution did
    const Operation& op = operations_[index];
    if (sums_in_passing(operations_[static_cast<size_t>(op.completed_by)])) return;
    with_norm_task(index, [&](const NormBackward& norm) {
      norm_backward_sums(precision_, norm_shape(op, slots, batch), samples, gradients[index].data_ptr(), norm,
                         stream());
    });
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
      case Kind::dropout:
        dropout(precision_, norm_shape(op, slots, batch), samples, tape.plan, op.layer, static_cast<float>(op.rate),
                gradients[i].data_ptr(), gradients[i].data_ptr(), stream());
        *below = gradients[i];
        break;
      case Kind::bias:
        complete_sums(i);
        *below = gradients[i];
        break;
      case Kind::norm: {
        complete_sums(i);
        *below = torch::empty_like(input);
        norm_backward(precision_, norm_shape(op, slots, batch), samples, input.data_ptr(), pairs(tape.extra[i]),
                      norm_tensors(op, weights), pairs(means[i]), gradients[i].data_ptr(), below->data_ptr(), stream());
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
          const auto launch = [&](const NormBackward* norm) {
            convolve_input_gradient(
                precision_, shape, samples, gradients[i].data_ptr(),
                static_cast<const char*>(read.data_ptr()) + offset * static_cast<int64_t>(read.element_size()),
                layout_.size(), below->data_ptr(), add, norm, tiles_(Pass::input_gradient, shape), stream());
          };
          const auto source = static_cast<size_t>(op.input);
          if (has_sums(operations_[source]) && operations_[source].completed_by == static_cast<int>(i) &&
              sums_in_passing(op))
            with_norm_task(source, [&](const NormBackward& norm) { launch(&norm); });
          else
            launch(nullptr);
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
                            tiles_(Pass::weight_gradient, shape), update.side.stream());
        } else {
          convolve_weight_gradient(precision_, shape, samples, input.data_ptr(), gradients[i].data_ptr(),
                                   gradient_at(op.name + ".weight"), gradient_stride,
                                   tiles_(Pass::weight_gradient, shape), update.side.stream());
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
