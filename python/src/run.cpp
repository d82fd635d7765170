/// A whole experiment, as `fedgrab run` does it.
#include <pybind11/stl.h>
#include <pybind11/stl/filesystem.h>

#include "fedgrab/experiment/new_run_directory.h"
#include "fedgrab/experiment/round_loop.h"
#include "interruptible.h"
#include "module.h"

namespace fedgrab::python {
namespace {

std::filesystem::path run(const PythonConfig& given, const std::string& out, bool resume, bool quiet) {
  RunOptions options{.directory = {out}, .resume = resume, .quiet = quiet};
  const bool known = resume && !out.empty() && options.directory.exists();
  const Config config =
      known ? resumed_config(options.directory.config(), file_of(given), given.assignments) : resolve(given);
  if (!known) options.directory = new_run_directory(out, read_settings(config));
  interruptible([&] { run_experiment(config, options); });
  return options.directory.root;
}

}  // namespace

void bind_run(py::module_& module) {
  using namespace py::literals;
  module.def("run", &run, "config"_a, "out"_a, "resume"_a, "quiet"_a);
}

}  // namespace fedgrab::python
