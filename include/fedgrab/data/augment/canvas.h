/// What an image operation works on and with. An operation is written once: the CPU runs it with one thread per image
/// (OneThread), CUDA with one block of threads per image. Both must give the same bytes: use integers, or the functions
/// below, which round each product and each sum.
///
/// A team of threads has
///   each(n, f)          f(i) for every i in 0 … n − 1, in any order; all have ended when it returns
///   sum(n, f, cell)     Σ f(i), integers, the same for every thread; `cell` is scratch
///   count(bin)          ++bin, also when other threads count in the same bin
#pragma once

#include <cstdint>

#ifdef __CUDACC__
#define FEDGRAB_DEVICE __device__
#else
#define FEDGRAB_DEVICE
#endif

namespace fedgrab {

/// The random words of one operation on one image.
struct OperationWords {
  uint32_t word[4];
};

/// One image, planes of bytes.
struct Canvas {
  int32_t channels, height, width;
  uint8_t* pixels;
  uint8_t* spare;  // as large, for operations that read other pixels than they write; they end with swap()
  uint32_t* bins;  // scratch, [channels][256]

  FEDGRAB_DEVICE int32_t plane() const { return height * width; }
  FEDGRAB_DEVICE int32_t size() const { return channels * height * width; }
  FEDGRAB_DEVICE void swap() {
    uint8_t* const written = spare;
    spare = pixels;
    pixels = written;
  }
};

/// The CPU's team.
struct OneThread {
  template <class F>
  FEDGRAB_DEVICE void each(int32_t n, F&& f) const {
    for (int32_t i = 0; i < n; ++i) f(i);
  }
  template <class F>
  FEDGRAB_DEVICE uint32_t sum(int32_t n, F&& f, uint32_t& /*cell*/) const {
    uint32_t total = 0;
    for (int32_t i = 0; i < n; ++i) total += f(i);
    return total;
  }
  FEDGRAB_DEVICE void count(uint32_t& bin) const { ++bin; }
};

#ifdef __CUDACC__
__device__ inline float multiply(float a, float b) { return __fmul_rn(a, b); }
__device__ inline float add(float a, float b) { return __fadd_rn(a, b); }
__device__ inline float divide(float a, float b) { return __fdiv_rn(a, b); }
__device__ inline double multiply(double a, double b) { return __dmul_rn(a, b); }
#else
inline float multiply(float a, float b) { return a * b; }
inline float add(float a, float b) { return a + b; }
inline float divide(float a, float b) { return a / b; }
inline double multiply(double a, double b) { return a * b; }
#endif

/// As torch casts a clamped float to uint8.
FEDGRAB_DEVICE inline uint8_t to_byte(float value) {
  return static_cast<uint8_t>(value < 0.0F ? 0.0F : value > 255.0F ? 255.0F : value);
}

}  // namespace fedgrab
