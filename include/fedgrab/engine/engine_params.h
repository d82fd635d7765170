/// How an engine uses the machine.
#pragma once

#include <cstdint>

#include "fedgrab/core/enums.h"

namespace fedgrab {

enum class Device { automatic, cpu, cuda };
template <>
inline constexpr auto enum_names<Device> = names("auto", "cpu", "cuda");

enum class Precision { fp32, tf32, bf16 };
template <>
inline constexpr auto enum_names<Precision> = names("fp32", "tf32", "bf16");

enum class DeviceData { automatic, resident, streamed };
template <>
inline constexpr auto enum_names<DeviceData> = names("auto", "resident", "streamed");

struct EngineParams {
  Device device = Device::automatic;
  int64_t workers = 0;
  Precision precision = Precision::bf16;
  int64_t slots = 40, groups = 8;
  double memory = 0;
  DeviceData data = DeviceData::automatic;
  bool deterministic = false;
  double client_memory = 4;

  template <class Visitor>
  void describe(Visitor& v) {
    v.param("device", device, "where clients are trained; auto: cuda where there is one");
    v.param("workers", workers, "cpu: clients trained at once, one thread each (0: one per core)").between(0, 1024);
    v.param("precision", precision,
            "cuda: activations and operands of convolutions; weights, momentum and sums are always float");
    v.param("slots", slots, "cuda: clients trained at once, at most").between(1, 4096);
    v.param("groups", groups, "cuda: streams that share the slots, so that one computes while another waits for memory")
        .between(1, 64);
    v.param("memory", memory,
            "cuda: GiB of device memory for the slots; data and evaluation come on top (0: what is free)")
        .between(0, 100000);
    v.param("data", data,
            "cuda: images on the device, or streamed to it from memory as they are used; auto: on the device where "
            "they take at most half of what is free");
    v.param(
        "deterministic", deterministic,
        "cuda: bit-identical reruns on the same machine: the usual tiles instead of the fastest by measurement, never "
        "fewer slots than asked for, and no other slots, groups or precision on resume (the cpu always is)");
    v.param("client_memory", client_memory,
            "GiB of RAM for persistent client state; the rest goes to files in the run directory")
        .between(0, 100000);
  }
};

}  // namespace fedgrab
