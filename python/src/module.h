/// What the parts of the module share.
#pragma once

#include <pybind11/pybind11.h>

#include <string>

#include "fedgrab/experiment/settings.h"

namespace fedgrab::python {

namespace py = pybind11;

/// The parameters of a run as Python hands them over: an optional file and (key, text) pairs on top of it.
struct PythonConfig {
  std::string file;
  Assignments assignments;
};
inline std::optional<std::filesystem::path> file_of(const PythonConfig& config) {
  return config.file.empty() ? std::nullopt : std::optional<std::filesystem::path>(config.file);
}
inline Config resolve(const PythonConfig& config) { return resolve_config(file_of(config), config.assignments); }

void bind_balancer(py::module_& module);
void bind_data(py::module_& module);
void bind_run(py::module_& module);
void bind_client(py::module_& module);
void bind_server(py::module_& module);
void bind_privacy(py::module_& module);

}  // namespace fedgrab::python
