#include "device_layout.h"

#include "kernels.h"

namespace fedgrab::cuda {
namespace {

bool is_convolution(const ParameterInfo& p) { return p.shape.size() == 4 && p.trained(); }

}  // namespace

int64_t padded(int64_t channels) { return (channels + channel_padding - 1) / channel_padding * channel_padding; }

DeviceLayout::DeviceLayout(const Model& model) {
  std::vector<int32_t> there, back(static_cast<size_t>(model.size));
  const auto padding = static_cast<int32_t>(model.size);
  const auto align = [&] {
    there.resize(static_cast<size_t>(padded(static_cast<int64_t>(there.size()))), padding);
    return static_cast<int64_t>(there.size());
  };
  for (const auto& p : model.parameters)
    if (is_convolution(p)) place(p, there, back);
  convolutions_ = align();
  for (const auto& p : model.parameters)
    if (p.trained() && !is_convolution(p)) place(p, there, back);
  trained_ = align();
  for (const auto& p : model.parameters)
    if (!p.trained()) place(p, there, back);
  size_ = align();
  there_ = torch::tensor(there, torch::kInt).cuda();
  back_ = torch::tensor(back, torch::kInt).cuda();
}

void DeviceLayout::place(const ParameterInfo& p, std::vector<int32_t>& there, std::vector<int32_t>& back) {
  const auto start = static_cast<int64_t>(there.size());
  offsets_[p.name] = start;
  const bool convolution = p.shape.size() == 4;
  const int64_t out = convolution ? p.shape[0] : 1, in = convolution ? p.shape[1] : p.size;
  const int64_t taps = convolution ? p.shape[2] * p.shape[3] : 1, width = convolution ? padded(in) : in;
  there.resize(static_cast<size_t>(start + out * taps * width), static_cast<int32_t>(back.size()));
  for (int64_t o = 0; o < out; ++o)
    for (int64_t i = 0; i < in; ++i)
      for (int64_t t = 0; t < taps; ++t) {
        const int64_t here = p.offset + (o * in + i) * taps + t, new_place = start + (o * taps + t) * width + i;
        there[static_cast<size_t>(new_place)] = static_cast<int32_t>(here);
        back[static_cast<size_t>(here)] = static_cast<int32_t>(new_place);
      }
}

torch::Tensor DeviceLayout::from_state(const torch::Tensor& flat) const {
  return torch::cat({flat, torch::zeros({1}, flat.options())}).index_select(0, there_);
}

}  // namespace fedgrab::cuda
