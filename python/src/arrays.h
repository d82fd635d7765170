/// Between numpy and LibTorch, without copying where that can be helped.
#pragma once

#include <pybind11/numpy.h>
#include <torch/torch.h>

#include <string>
#include <utility>
#include <vector>

#include "fedgrab/model/tensor_map.h"

namespace fedgrab::python {

namespace py = pybind11;

/// "[3, 10]", for messages.
std::string shape_text(const std::vector<int64_t>& shape);

/// A tensor on the array's own memory, which must outlive it. `name` is what a TypeError or ValueError calls it. Takes
/// float32 and float64; refuses values that are not finite.
torch::Tensor float_tensor(const py::array& array, const char* name);
/// Any integers, as int64; copied where they are of another size.
torch::Tensor integer_tensor(const py::array& array, const char* name);
/// Whatever numpy makes an array of; its own errors come through.
py::array as_array(const py::handle& object);

/// An array on the tensor's memory, which it keeps alive.
py::array to_numpy(const torch::Tensor& tensor);
/// The same for memory of any owner; read-only.
template <class T, class Owner>
py::array_t<T> read_only(std::vector<py::ssize_t> shape, const T* data, Owner owner) {
  py::capsule keeper(new Owner(std::move(owner)), [](void* held) { delete static_cast<Owner*>(held); });
  py::array_t<T> array(std::move(shape), data, keeper);
  array.attr("setflags")(py::arg("write") = false);
  return array;
}

py::dict to_dict(const TensorMap& tensors);
/// Copies of the arrays, of any number type.
TensorMap to_tensors(const py::dict& arrays);

}  // namespace fedgrab::python
