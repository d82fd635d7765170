/// Which parts a run is composed of.
#pragma once

#include <string>

#include "fedgrab/core/enums.h"

namespace fedgrab {

struct MethodParams {
  std::string name = "fedgrab+";
  template <class Visitor>
  void describe(Visitor& v) {
    v.param("name", name,
            "preset: a named set of values of the other parameters; `fedgrab run --method help` lists them");
  }
};

enum class Reweight { none, importance };
template <>
inline constexpr auto enum_names<Reweight> = names("none", "importance");

enum class ClassSizes { local, prior };
template <>
inline constexpr auto enum_names<ClassSizes> = names("local", "prior");

struct ObjectiveParams {
  std::string name = "softmax";
  bool collect = false;
  Reweight reweight = Reweight::none;
  ClassSizes class_sizes = ClassSizes::local;
  template <class Visitor>
  void describe(Visitor& v) {
    v.param("name", name, "local loss of the classifier; `fedgrab run --objective help` lists them");
    v.param("collect", collect,
            "record the accumulated positive and negative gradients of each class and their difference, delta, for any "
            "loss (always done with sgb)");
    v.param("reweight", reweight,
            "weight of a sample: 1, or its class share in the federation divided by that at the client (importance: "
            "FedIR; every client reveals its class counts once)");
    v.param("class_sizes", class_sizes,
            "class sizes for losses that use them: the client's own counts, or the prior of prior.source");
  }
};

struct ClientParams {
  std::string algorithm = "sgd";
  template <class Visitor>
  void describe(Visitor& v) {
    v.param("algorithm", algorithm, "client algorithm: sgd, prox, scaffold, dyn or moon");
  }
};

}  // namespace fedgrab
