/// Convolutions of 3 x 3 taps (stride 1 or 2) and of one tap (stride 2) for compute capability 9.0, beside those of
/// convolution.cu, which are their oracle. bf16 only.
#pragma once

#include "kernels.h"

namespace fedgrab::cuda {

struct Arguments;

/// Tiles are known by number, from 0.
constexpr int patch_tiles = 5;
/// Whether such a tile computes this pass of this convolution on the current device.
bool patch_tile_fits(Pass pass, const ConvolutionShape& shape, int tile);
void launch_patches(Pass pass, const Arguments& args, int tile, cudaStream_t stream);

// By pass; dividers are those of the output's patches.
void patch_forward(const Arguments& args, int tile, cudaStream_t stream);
void patch_input_gradient(const Arguments& args, int tile, cudaStream_t stream);          // stride one
void patch_input_gradient_strided(const Arguments& args, int tile, cudaStream_t stream);  // stride two
void patch_weight_gradient(const Arguments& args, int tile, cudaStream_t stream);

}  // namespace fedgrab::cuda
