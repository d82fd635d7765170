#include "device_layout.h"

#include "kernels.h"

namespace fedgrab::cuda {

int64_t padded(int64_t channels) { return (channels + channel_padding - 1) / channel_padding * channel_padding; }

DeviceLayout::DeviceLayout(const Model& model, std::map<std::string, ConvolutionWeight> convolutions)
    : weights_(std::move(convolutions)) {
  const auto is_convolution = [&](const ParameterInfo& p) { return p.trained() && weights_.contains(p.name); };
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
  const auto found = weights_.find(p.name);
  const auto [out, in, taps] = found == weights_.end() ? ConvolutionWeight{1, p.size, 1} : found->second;
  const int64_t width = found == weights_.end() ? in : padded(in);
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
