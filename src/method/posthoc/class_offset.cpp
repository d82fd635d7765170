#include "class_offset.h"

#include "fedgrab/objective/objective.h"

namespace fedgrab {

State with_offset(const State& model, const torch::Tensor& offset) {
  State changed = model.clone();
  const Head& head = model.model->heads.front();
  const auto values = offset.to(torch::kFloat).cpu().contiguous();
  if (head.bias && !head.projected) {  // a learned temperature would multiply it with the bias
    auto bias = changed.view(head.name + ".bias");
    bias.add_(values.to(bias.device()), 1 / head.scale);
    return changed;
  }
  auto described = std::make_shared<Model>(*model.model);
  described->heads.front().offset.assign(values.data_ptr<float>(), values.data_ptr<float>() + values.numel());
  changed.model = std::move(described);
  return changed;
}

PosthocNumbers offset_numbers(const TensorMap& server) {
  const auto found = server.find(fitted_offset);
  return found == server.end() ? PosthocNumbers{} : PosthocNumbers{{"bias", to_vector(found->second)}};
}

}  // namespace fedgrab
