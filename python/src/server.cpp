/// The server of a federation: where it starts, and what its method does beyond averaging.
#include <fmt/format.h>
#include <pybind11/stl.h>

#include <algorithm>

#include "arrays.h"
#include "fedgrab/experiment/federation_run.h"
#include "module.h"
#include "weights.h"

namespace fedgrab::python {
namespace {

class Server {
 public:
  Server(const PythonConfig& given, int64_t classes, const std::vector<int64_t>& shape) {
    if (classes < 2) throw py::value_error(fmt::format("classes: expected 2 or more, got {}", classes));
    if (shape.size() != 3 || *std::min_element(shape.begin(), shape.end()) < 1)
      throw py::value_error("shape: expected (channels, height, width), got " + shape_text(shape));
    const auto config = resolve(given);
    const auto settings = read_settings(config);
    method_ = std::make_unique<Composition>(config);
    require_weights_only(*method_, settings.method);
    global_ = initial_model(settings, *method_, {shape[0], shape[1], shape[2]}, classes);
    seed_ = settings.seed();
  }

  py::dict weights() const { return shared_weights(global_.clone()); }

  py::dict finish(const py::dict& average, int64_t round) {
    if (round < 1) throw py::value_error(fmt::format("round: expected 1 or more, got {}", round));
    const State averaged = global_.clone();
    assign_weights(averaged, average);
    Sums sums;
    sums.add("state", averaged.flat, 1);
    const auto context = method_->begin_round(round, seed_, {}, {}, 1, global_, state_);
    global_ = method_->aggregate(context, sums, state_);
    return weights();
  }

 private:
  std::unique_ptr<Composition> method_;
  State global_;
  TensorMap state_;
  uint64_t seed_ = 0;
};

}  // namespace

void bind_server(py::module_& module) {
  using namespace py::literals;
  py::class_<Server>(module, "Server")
      .def(py::init<const PythonConfig&, int64_t, const std::vector<int64_t>&>(), "config"_a, "classes"_a, "shape"_a)
      .def("weights", &Server::weights)
      .def("finish", &Server::finish, "average"_a, "round"_a);
}

}  // namespace fedgrab::python
