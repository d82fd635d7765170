#include "arrays.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace fedgrab::python {
namespace {

std::string dtype_text(const py::array& array) { return py::str(array.dtype()); }

torch::ScalarType scalar_type(const py::array& array, const std::string& name) {
  const char kind = array.dtype().kind();
  const auto size = array.dtype().itemsize();
  if (kind == 'f' && size == 4) return torch::kFloat;
  if (kind == 'f' && size == 8) return torch::kDouble;
  if (kind == 'i' && size == 8) return torch::kLong;
  if (kind == 'i' && size == 4) return torch::kInt;
  if (kind == 'u' && size == 1) return torch::kByte;
  if (kind == 'b') return torch::kBool;
  throw py::type_error(fmt::format("{}: dtype {} is not supported", name, dtype_text(array)));
}

/// On the array's memory where LibTorch can read its strides, else on that of a contiguous copy, which is then kept.
torch::Tensor view_of(const py::array& given, torch::ScalarType type) {
  py::array array = given;
  const auto item = array.itemsize();
  const auto readable = [&] {
    for (py::ssize_t i = 0; i < array.ndim(); ++i)
      if (array.strides(i) < 0 || array.strides(i) % item != 0) return false;
    return array.dtype().byteorder() != '>';
  };
  if (!readable())
    array = py::module_::import("numpy").attr("ascontiguousarray")(array, array.dtype().attr("newbyteorder")("="));
  std::vector<int64_t> sizes, strides;
  for (py::ssize_t i = 0; i < array.ndim(); ++i) {
    sizes.push_back(array.shape(i));
    strides.push_back(array.strides(i) / item);
  }
  // LibTorch does not write to what it is given here, so a read-only array will do.
  auto* data = const_cast<void*>(array.data());
  auto* kept = new py::array(std::move(array));
  const auto release = [kept](void* /*data*/) {
    const py::gil_scoped_acquire acquired;
    delete kept;
  };
  return torch::from_blob(data, sizes, strides, release, torch::TensorOptions().dtype(type));
}

}  // namespace

std::string shape_text(const std::vector<int64_t>& shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

py::array as_array(const py::handle& object) { return py::module_::import("numpy").attr("asarray")(object); }

torch::Tensor float_tensor(const py::array& array, const char* name) {
  if (array.dtype().kind() != 'f' || array.itemsize() < 4 || array.itemsize() > 8)
    throw py::type_error(fmt::format("{}: expected float32 or float64, got {}", name, dtype_text(array)));
  auto tensor = view_of(array, scalar_type(array, name));
  if (!tensor.isfinite().all().item<bool>()) throw py::value_error(fmt::format("{}: NaN or infinity", name));
  return tensor;
}

torch::Tensor integer_tensor(const py::array& array, const char* name) {
  const char kind = array.dtype().kind();
  if (kind != 'i' && kind != 'u')
    throw py::type_error(fmt::format("{}: expected integers, got {}", name, dtype_text(array)));
  if (kind == 'i' && array.itemsize() == 8) return view_of(array, torch::kLong);
  return view_of(array.attr("astype")("int64"), torch::kLong);
}

py::array to_numpy(const torch::Tensor& tensor) {
  const auto held = tensor.detach().cpu();
  const auto dtype = [&]() -> py::dtype {
    switch (held.scalar_type()) {
      case torch::kFloat: return py::dtype::of<float>();
      case torch::kDouble: return py::dtype::of<double>();
      case torch::kLong: return py::dtype::of<int64_t>();
      case torch::kInt: return py::dtype::of<int32_t>();
      case torch::kByte: return py::dtype::of<uint8_t>();
      case torch::kBool: return py::dtype::of<bool>();
      default: throw py::type_error(fmt::format("a tensor of {} cannot leave", torch::toString(held.scalar_type())));
    }
  }();
  std::vector<py::ssize_t> shape(held.sizes().begin(), held.sizes().end()), strides;
  for (const int64_t stride : held.strides()) strides.push_back(stride * static_cast<py::ssize_t>(held.element_size()));
  const py::capsule keeper(new torch::Tensor(held), [](void* kept) { delete static_cast<torch::Tensor*>(kept); });
  return py::array(dtype, shape, strides, held.data_ptr(), keeper);
}

py::dict to_dict(const TensorMap& tensors) {
  py::dict arrays;
  for (const auto& [name, tensor] : tensors) arrays[py::str(name)] = to_numpy(tensor.clone());
  return arrays;
}

TensorMap to_tensors(const py::dict& arrays) {
  TensorMap tensors;
  for (const auto& [name, value] : arrays) {
    const py::array array = as_array(value);
    const std::string text = py::str(name);
    tensors[text] = view_of(array, scalar_type(array, text)).clone();
  }
  return tensors;
}

}  // namespace fedgrab::python
