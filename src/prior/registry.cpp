#include "entries.h"

namespace fedgrab {

const std::vector<Choice<ClassPrior>>& class_priors() {
  static const std::vector<Choice<ClassPrior>> entries{
      {"none", "no estimate", [](const Config&) { return std::unique_ptr<ClassPrior>(); }},
      dpa_entry(),
      bias_probe_entry(),
      counts_entry(),
      fixed_entry(),
  };
  return entries;
}

}  // namespace fedgrab
