/// Parameters of SGB, the self-adjusting gradient balancer.
#pragma once

#include <cstdint>
#include <vector>

#include "fedgrab/core/enums.h"

namespace fedgrab {

enum class BaseLoss { sigmoid, softmax };
template <>
inline constexpr auto enum_names<BaseLoss> = names("sigmoid", "softmax");

enum class Gate { automatic, prior, local, stalled, off };
template <>
inline constexpr auto enum_names<Gate> = names("auto", "prior", "local", "stalled", "off");

enum class Mount { all, list };
template <>
inline constexpr auto enum_names<Mount> = names("all", "list");

struct BalancerParams {
  BaseLoss form = BaseLoss::sigmoid;
  Gate gate = Gate::automatic;
  double kp = 10, ki = 0.01, kd = 0.1;
  double gamma = 10, delta = 9, zeta = 0.5;
  double target = 0;
  double clamp = 100;
  bool conditional_integration = true;
  Mount mount = Mount::all;
  std::vector<int64_t> mount_classes;

  template <class Visitor>
  void describe(Visitor& v) {
    v.param("form", form, "base loss whose gradient is re-weighted");
    v.param("gate", gate,
            "probability that a class is exempt in a step: the global prior by prior.scale, the client's own class "
            "counts on the same scale (local), the prior as the published code applies it (stalled), or 0 (off); auto: "
            "the prior if there is one, else off");
    v.param("kp", kp, "K_P, gain on the error").between(0, 1e6);
    v.param("ki", ki, "K_I, gain on the sum of errors").between(0, 1e6);
    v.param("kd", kd, "K_D, gain on the change of the error").between(0, 1e6);
    v.param("gamma", gamma, "largest weight of a gradient: phi(x) = gamma / (1 + delta exp(-zeta x))")
        .between(1e-6, 1e6);
    v.param("delta", delta, "delta of phi; with gamma = 1 + delta a balanced class has weight 1").between(0, 1e6);
    v.param("zeta", zeta, "slope of phi").between(0, 1e6);
    v.param("target", target, "z, target of the difference between accumulated positive and negative gradient");
    v.param("clamp", clamp, "bound of the controller's output, where integration stops (0: none)").between(0, 1e12);
    v.param("conditional_integration", conditional_integration,
            "the controller of an exempt class is not advanced (anti-windup); false: it integrates an error that the "
            "exempt class cannot change, as the published code does");
    v.param("mount", mount, "classes that have a balancer: all, or the list mount_classes");
    v.param("mount_classes", mount_classes, "class indices for mount = list").at_least(0);
  }
};

}  // namespace fedgrab
