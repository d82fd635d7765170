#include "temperature.h"

namespace fedgrab {

State with_temperature(const State& model, double temperature) {
  State changed = model.clone();
  const Head& head = model.model->heads.front();
  if (head.kind == HeadKind::linear && !head.projected && head.offset.empty()) {
    changed.view(head.name + ".weight").div_(temperature);
    if (head.bias) changed.view(head.name + ".bias").div_(temperature);
    return changed;
  }
  auto described = std::make_shared<Model>(*model.model);
  Head& scaled = described->heads.front();
  scaled.scale /= temperature;
  for (float& offset : scaled.offset) offset /= static_cast<float>(temperature);
  changed.model = std::move(described);
  return changed;
}

}  // namespace fedgrab
