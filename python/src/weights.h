/// The weights that travel between a server and its clients, as arrays by name.
#pragma once

#include <pybind11/pybind11.h>

#include <string>

#include "fedgrab/experiment/settings.h"
#include "fedgrab/method/method.h"

namespace fedgrab::python {

namespace py = pybind11;

/// The global model at the start of a run: a function of the parameters alone.
State first_state(const Settings& settings, const Method& method, ImageShape shape, int64_t classes);

/// Throws a usage Error where a method sends more than its clients' weights up, or more than the shared ones down.
void require_weights_only(const Method& method, const std::string& name, const State& start);

/// Views on the state's buffer, which they keep alive.
py::dict shared_weights(const State& state);
/// Copies them in; wrong names, shapes, types and values are a TypeError or a ValueError.
void assign_weights(const State& state, const py::dict& weights);

}  // namespace fedgrab::python
