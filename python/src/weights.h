/// The weights that travel between a server and its clients, as arrays by name.
#pragma once

#include <pybind11/pybind11.h>

#include <string>

#include "fedgrab/experiment/settings.h"
#include "fedgrab/method/composition.h"

namespace fedgrab::python {

namespace py = pybind11;

/// Throws a usage Error where the parts send more than the clients' models up, or more than the global model down.
void require_weights_only(const Composition& method, const std::string& name);

/// Views on the state's buffer, which they keep alive.
py::dict shared_weights(const State& state);
/// Copies them in; wrong names, shapes, types and values are a TypeError or a ValueError.
void assign_weights(const State& state, const py::dict& weights);

}  // namespace fedgrab::python
