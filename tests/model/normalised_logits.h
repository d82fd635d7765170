/// What an exported model, which normalises its images itself, must give.
#pragma once

#include "fedgrab/core/random.h"
#include "fedgrab/data/dataset.h"
#include "fedgrab/model/network.h"

namespace fedgrab {

inline torch::Tensor uniform_numbers(at::IntArrayRef shape, uint32_t stream) {
  auto values = torch::empty(shape);
  Random random(1, Purpose::synthetic, stream);
  for (int64_t i = 0; i < values.numel(); ++i) values.data_ptr<float>()[i] = random.uniform();
  return values;
}

/// For images of so many channels.
inline Normalisation some_normalisation(int64_t channels) {
  Normalisation normalisation{{0.4F, 0.5F, 0.6F}, {0.2F, 0.25F, 0.3F}};
  normalisation.mean.resize(static_cast<size_t>(channels));
  normalisation.std.resize(static_cast<size_t>(channels));
  return normalisation;
}

/// Of our own network for images from 0 to 1.
inline torch::Tensor logits_of(const State& state, const Normalisation& normalisation, const torch::Tensor& images) {
  auto normalised = images.clone();
  for (int64_t c = 0; c < images.size(1); ++c)
    normalised.select(1, c)
        .sub_(normalisation.mean[static_cast<size_t>(c)])
        .div_(normalisation.std[static_cast<size_t>(c)]);
  Network network(state.model);
  network.load(state);
  return network.forward(normalised).logits.front();
}

}  // namespace fedgrab
