/// Data sets and partitions, as a run sees them.
#include <fmt/format.h>
#include <pybind11/stl.h>

#include <limits>

#include "arrays.h"
#include "fedgrab/experiment/preparation.h"
#include "interruptible.h"
#include "module.h"

namespace fedgrab::python {
namespace {

py::array indices(std::vector<int64_t> values) {
  const auto owner = std::make_shared<const std::vector<int64_t>>(std::move(values));
  return read_only({static_cast<py::ssize_t>(owner->size())}, owner->data(), owner);
}

py::dict split_dict(const Split& split) {
  const auto shape = split.images.stored();  // with the margin that crops move in
  const auto labels = std::make_shared<const std::vector<int32_t>>(split.labels);
  const std::vector<py::ssize_t> size{split.images.count(), shape.channels, shape.height, shape.width};
  py::dict dict;
  dict["images"] = read_only(size, split.images.bytes.data(), split.images.owner);
  dict["labels"] = read_only({static_cast<py::ssize_t>(labels->size())}, labels->data(), labels);
  return dict;
}

py::dict load_data(const PythonConfig& config) {
  const auto settings = read_settings(resolve(config));
  const auto prepared = interruptible([&] { return prepare(settings); });
  py::dict dict;
  dict["name"] = prepared.data.name;
  dict["train"] = split_dict(prepared.data.train);
  dict["test"] = split_dict(prepared.data.test);
  dict["validation"] = split_dict(prepared.validation);
  dict["samples"] = indices(prepared.samples);
  dict["class_names"] = prepared.data.class_names;
  dict["mean"] = prepared.data.normalisation.mean;
  dict["std"] = prepared.data.normalisation.std;
  return dict;
}

py::list to_list(const Partition& partition) {
  py::list clients;
  for (const auto& samples : partition) clients.append(indices(samples));
  return clients;
}

py::list partition(const PythonConfig& config) {
  const auto settings = read_settings(resolve(config));
  return to_list(interruptible([&] { return partition_samples(settings, prepare(settings)); }));
}

/// The same draw for labels of one's own.
py::list partition_labels(const PythonConfig& config, const py::object& labels_given) {
  const auto settings = read_settings(resolve(config));
  const auto labels = integer_tensor(as_array(labels_given), "labels");
  if (labels.dim() != 1 || labels.numel() == 0)
    throw py::value_error("labels: expected shape [samples], got " + shape_text(labels.sizes().vec()));
  if (labels.min().item<int64_t>() < 0 || labels.max().item<int64_t>() >= std::numeric_limits<int32_t>::max())
    throw py::value_error("labels: not all within 0 … 2147483646");
  const auto narrow = labels.to(torch::kInt).contiguous();
  const std::span<const int32_t> values(narrow.data_ptr<int32_t>(), static_cast<size_t>(narrow.numel()));
  std::vector<int64_t> samples(values.size());
  for (size_t i = 0; i < samples.size(); ++i) samples[i] = static_cast<int64_t>(i);
  return to_list(
      make_partition(settings.partition, samples, values, labels.max().item<int64_t>() + 1, settings.seed()));
}

}  // namespace

void bind_data(py::module_& module) {
  using namespace py::literals;
  py::class_<PythonConfig>(module, "Config")
      .def(py::init([](std::string file, Assignments assignments) {
             return PythonConfig{std::move(file), std::move(assignments)};
           }),
           "file"_a, "assignments"_a);
  module.def("load_data", &load_data, "config"_a);
  module.def("partition", &partition, "config"_a);
  module.def("partition_labels", &partition_labels, "config"_a, "labels"_a);
}

}  // namespace fedgrab::python
