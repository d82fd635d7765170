#include "fedgrab/part/sums.h"

#include <algorithm>
#include <cmath>

#include "fedgrab/core/error.h"

namespace fedgrab {
namespace {

constexpr double scale = 0x1.0p40;
constexpr double limit = 0x1.0p22;
constexpr auto fixed_limit = static_cast<int64_t>(limit * scale);

[[noreturn]] void throw_not_finite() {
  throw Error(Fault::other, "training", "weights are no longer finite", "lower train.lr or set train.clip");
}

}  // namespace

void OrderFreeSum::add(const torch::Tensor& values, double weight, DeviceAdd device_add) {
  if (values.is_cuda()) return add_on_device(values.flatten(), weight, device_add);
  const auto flat = values.contiguous();
  const auto* data = flat.data_ptr<float>();
  const auto n = static_cast<size_t>(flat.numel());
  bool fits = true;
  const std::lock_guard lock(guard_);
  total_.resize(n);
  for (size_t i = 0; i < n; ++i) {
    const double term = static_cast<double>(data[i]) * weight;
    const int64_t added = std::abs(term) < limit ? std::llrint(term * scale) : fixed_limit;  // NaN goes here too
    // Both stay below 2⁶² before, so that their sum is seen to be too large instead of wrapping around.
    const int64_t sum = total_[i] + added;
    const bool ok = std::abs(added) < fixed_limit && std::abs(sum) < fixed_limit;
    fits &= ok;
    if (ok) total_[i] = sum;
  }
  if (!fits) throw_not_finite();
}

void OrderFreeSum::add_on_device(const torch::Tensor& values, double weight, DeviceAdd device_add) {
  const std::lock_guard lock(guard_);
  if (device_add != nullptr) {
    if (!device_total_.defined()) device_total_ = torch::zeros(values.sizes(), values.options().dtype(torch::kLong));
    if (!device_add(values, weight, device_total_)) throw_not_finite();
    return;
  }
  const auto added = ((values.to(torch::kDouble) * weight) * scale).round_();
  // Not in place: where it does not fit, the sum stays as it was.
  auto sum = added.to(torch::kLong);
  if (device_total_.defined()) sum.add_(device_total_);
  if (!(added.abs() < static_cast<double>(fixed_limit)).logical_and(sum.abs() < fixed_limit).all().item<bool>())
    throw_not_finite();
  device_total_ = sum;
}

torch::Tensor OrderFreeSum::value() const {
  const std::lock_guard lock(guard_);
  if (device_total_.defined()) {  // piece by piece, since the device may lack memory for it in double
    constexpr int64_t piece = int64_t{1} << 22;
    auto values = torch::empty(device_total_.sizes(), torch::kFloat);
    for (int64_t first = 0; first < values.numel(); first += piece) {
      const int64_t size = std::min(piece, values.numel() - first);
      values.narrow(0, first, size).copy_((device_total_.narrow(0, first, size).to(torch::kDouble) / scale));
    }
    return values;
  }
  auto values = torch::empty({static_cast<int64_t>(total_.size())}, torch::kFloat);
  auto* data = values.data_ptr<float>();
  for (size_t i = 0; i < total_.size(); ++i) data[i] = static_cast<float>(static_cast<double>(total_[i]) / scale);
  return values;
}

std::vector<int64_t> OrderFreeSum::fixed_point() const {
  const std::lock_guard lock(guard_);
  if (!device_total_.defined()) return total_;
  const auto host = device_total_.cpu().contiguous();
  return {host.data_ptr<int64_t>(), host.data_ptr<int64_t>() + host.numel()};
}

void OrderFreeSum::set_fixed_point(std::vector<int64_t> total) {
  const std::lock_guard lock(guard_);
  for (const int64_t sum : total)
    if (std::abs(sum) >= fixed_limit) throw_not_finite();
  total_ = std::move(total);
  device_total_ = torch::Tensor();
}

std::vector<std::string> Sums::names() const {
  std::vector<std::string> names;
  for (const auto& [name, sum] : sums_) names.push_back(name);
  return names;
}

void Sums::add(const std::string& name, const torch::Tensor& values, double weight) {
  OrderFreeSum* sum = nullptr;
  {
    const std::lock_guard lock(guard_);
    sum = &sums_[name];
  }
  sum->add(values, weight, device_add_);
}

}  // namespace fedgrab
