/// Sums of client updates that do not depend on the order of arrival: 64-bit fixed point, 40 bits behind the point.
/// Exact addition commutes; float addition does not.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace fedgrab {

/// total += weight · values in one pass on the device, to the same bits; false where a sum does not fit.
using DeviceAdd = bool (*)(const torch::Tensor& values, double weight, torch::Tensor& total);

class OrderFreeSum {
 public:
  /// Adds weight · values; safe from several threads. Throws Error when a value is not finite or too large to be a
  /// trained weight (|Σ| must stay below 2²²). Values on a device are added there, to the same bits, by `device_add` or
  /// else by LibTorch's operators; all of them on one device.
  void add(const torch::Tensor& values, double weight, DeviceAdd device_add = nullptr);
  /// On the CPU.
  torch::Tensor value() const;
  /// The sum itself, for an all-reduce over ranks.
  std::vector<int64_t> fixed_point() const;
  void set_fixed_point(std::vector<int64_t> total);

 private:
  void add_on_device(const torch::Tensor& values, double weight, DeviceAdd device_add);

  mutable std::mutex guard_;
  std::vector<int64_t> total_;
  torch::Tensor device_total_;
};

/// The sums of one round, by name of the payload.
class Sums {
 public:
  /// An engine's own kernel for values on its device.
  void use(DeviceAdd device_add) { device_add_ = device_add; }
  void add(const std::string& name, const torch::Tensor& values, double weight);
  bool contains(const std::string& name) const { return sums_.contains(name); }
  torch::Tensor operator[](const std::string& name) const { return sums_.at(name).value(); }
  std::vector<std::string> names() const;
  std::vector<int64_t> fixed_point(const std::string& name) const { return sums_.at(name).fixed_point(); }
  void set_fixed_point(const std::string& name, std::vector<int64_t> total) {
    sums_[name].set_fixed_point(std::move(total));
  }

 private:
  std::mutex guard_;
  std::map<std::string, OrderFreeSum> sums_;
  DeviceAdd device_add_ = nullptr;
};

}  // namespace fedgrab
