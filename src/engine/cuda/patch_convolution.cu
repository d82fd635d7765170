#include <stdexcept>

#include "patch_convolution.h"
#include "patches.cuh"

namespace fedgrab::cuda {
namespace {

bool on_hopper() {
  int device = 0, major = 0, minor = 0;
  cudaGetDevice(&device);
  cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
  cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device);
  return major == 9 && minor == 0 && encoder() != nullptr;
}

}  // namespace

bool patch_tile_fits(Pass pass, const ConvolutionShape& s, int tile) {
  if (tile < 0 || tile >= patch_tiles || !on_hopper()) return false;
  const bool narrow = s.out_height == 4 && s.out_width == 4;
  if (!narrow && (s.out_height % 8 != 0 || s.out_width % 8 != 0)) return false;
  if (s.in % slice != 0 || s.out % slice != 0 || s.height != s.out_height * s.stride ||
      s.width != s.out_width * s.stride)
    return false;
  const bool outer = s.kernel == 3 && s.padding == 1, inner = s.kernel == 1 && s.padding == 0;
  if (!(outer && (s.stride == 1 || s.stride == 2)) && !(inner && s.stride == 2)) return false;
  if (pass == Pass::weight_gradient) return tile == 0 || (tile == 1 && s.kernel == 3 && s.stride == 1);
  const int columns = pass == Pass::forward ? s.out : s.in;
  if (pass == Pass::input_gradient && s.stride == 2) return tile == 0 || (tile == 1 && columns % 128 == 0);
  return (tile == 0 || tile == 2 || columns % 128 == 0) && !(narrow && tile == 3);
}

void launch_patches(Pass pass, const Arguments& given, int tile, cudaStream_t stream) {
  Arguments args = given;
  const int height = args.shape.out_height, width = args.shape.out_width;
  args.by_pixels = Divider(std::max(1, height / 8 * (width / 8)));
  args.by_width = Divider(std::max(1, width / 8));
  switch (pass) {
    case Pass::forward: return patch_forward(args, tile, stream);
    case Pass::input_gradient:
      return args.shape.stride == 1 ? patch_input_gradient(args, tile, stream)
                                    : patch_input_gradient_strided(args, tile, stream);
    case Pass::weight_gradient: return patch_weight_gradient(args, tile, stream);
  }
}

}  // namespace fedgrab::cuda
