/// What clients contribute, added up so that the order of arrival leaves no trace: 64-bit fixed point, 40 bits behind
/// the point. Exact addition commutes; float addition does not.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace fedgrab {

class OrderFreeSum {
 public:
  /// Adds weight · values; safe from several threads. Throws Error when a value is not finite or too large to be a
  /// trained weight (|Σ| must stay below 2²²). Values on a device are added there, to the same bits; all of them on
  /// one.
  void add(const torch::Tensor& values, double weight);
  /// On the CPU.
  torch::Tensor value() const;
  /// The sum itself, for whoever adds it to others.
  std::vector<int64_t> fixed_point() const;
  void set_fixed_point(std::vector<int64_t> total);

 private:
  void add_on_device(const torch::Tensor& values, double weight);

  mutable std::mutex guard_;
  std::vector<int64_t> total_;
  torch::Tensor device_total_;
};

/// total += weight · values in one pass on the device, to the same bits; false where a sum does not fit. An engine that
/// has such a kernel sets it; without, LibTorch's operators do the same in many passes.
using DeviceAdd = bool (*)(const torch::Tensor& values, double weight, torch::Tensor& total);
void use_device_add(DeviceAdd add);

/// The sums of one round, by name of the contribution.
class Sums {
 public:
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
};

}  // namespace fedgrab
