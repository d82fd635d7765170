/// How the heads of all slots are trained, within a recorded step: in one kernel per head where it knows head and loss,
/// else by LibTorch's operators.
#include <cmath>

#include "fedgrab/model/head.h"
#include "fedgrab/objective/balancer.h"
#include "slot_training.h"

namespace fedgrab::cuda {
torch::Tensor SlotTraining::train_heads(const torch::Tensor& features, torch::Tensor& loss) {
  const auto& model = *federation_.model;
  const auto& layout = network_.layout();
  const auto shared = features.detach().requires_grad_();
  LogitBatch batch{.labels = labels_, .mask = mask_};
  batch.counts = class_counts_;
  batch.uniforms = uniforms_;
  if (share_.defined()) batch.other_labels = other_labels_, batch.share = share_;
  if (key_.class_weights) weigh_by_class(batch, class_weights_);
  std::vector<torch::Tensor> roots, gradients;
  std::vector<std::pair<int64_t, torch::Tensor>> leaves;  // offset in the layout, leaf
  for (size_t i = 0; i < heads_.size(); ++i) {
    const Head& head = model.heads[i];
    const auto parameter = [&](const std::string& suffix) {
      const auto& info = model.find(head.name + suffix);
      const int64_t offset = layout.offset(info.name);
      std::vector<int64_t> shape{slots_};
      shape.insert(shape.end(), info.shape.begin(), info.shape.end());
      auto view = weights_.values.narrow(1, offset, info.size).view(shape).detach();
      if (info.trained()) leaves.emplace_back(offset, view.requires_grad_());
      return view;
    };
    const auto logits = head_logits(head, head.detached ? features.detach() : shared, parameter);
    batch.logits = logits.detach();
    batch.prior = key_.priors[i] ? priors_[i] : torch::Tensor();
    const auto result = (*heads_[i].objective)(batch, state_);
    if (logits.requires_grad()) {
      roots.push_back(logits);
      gradients.push_back(result.gradient);
    }
    if (i == 0) loss = result.loss;
  }
  if (!roots.empty()) torch::autograd::backward(roots, gradients);
  for (const auto& [offset, leaf] : leaves)
    update_.gradient.narrow(1, offset - update_.first, leaf.numel() / slots_)
        .copy_(leaf.grad().reshape({slots_, leaf.numel() / slots_}));
  loss = loss.to(torch::kFloat).contiguous();
  return shared.grad().defined() ? shared.grad().contiguous() : torch::zeros_like(features);
}

bool SlotTraining::heads_fit_kernel() const {
  const auto& model = *federation_.model;
  if (key_.class_weights || !head_fits(static_cast<int>(batch_), static_cast<int>(model.classes))) return false;
  for (size_t i = 0; i < heads_.size(); ++i) {
    const Head& head = model.heads[i];
    if (head.kind != HeadKind::linear || head.projected || !heads_[i].objective->kernel_form()) return false;
  }
  return true;
}

torch::Tensor SlotTraining::train_heads_in_kernel(const torch::Tensor& features, torch::Tensor& loss) {
  const auto& model = *federation_.model;
  auto feature_gradient = torch::empty_like(features);
  loss = torch::empty({slots_}, on_device(torch::kFloat));
  bool started = false;
  for (size_t i = 0; i < heads_.size(); ++i) {
    const Head& head = model.heads[i];
    const KernelForm form = *heads_[i].objective->kernel_form();
    const bool sends_back = !head.detached;
    const bool learns = model.find(head.name + ".weight").trained();
    const auto value_at = [&](const char* suffix) {
      return weights_.values.data_ptr<float>() + network_.layout().offset(head.name + suffix);
    };
    const auto gradient_at = [&](const char* suffix) {
      return update_.gradient.data_ptr<float>() + network_.layout().offset(head.name + suffix) - update_.first;
    };
    HeadTask task{.slots = static_cast<int>(slots_),
                  .batch = static_cast<int>(batch_),
                  .classes = static_cast<int>(model.classes),
                  .features = static_cast<int>(model.architecture.features),
                  .input = features.data_ptr<float>(),
                  .input_gradient = sends_back ? feature_gradient.data_ptr<float>() : nullptr,
                  .accumulate = started,
                  .weight = value_at(".weight"),
                  .bias = head.bias ? value_at(".bias") : nullptr,
                  .weight_stride = network_.layout().size(),
                  .scale = static_cast<float>(head.scale),
                  .gradient_weight = learns ? gradient_at(".weight") : nullptr,
                  .gradient_bias = learns && head.bias ? gradient_at(".bias") : nullptr,
                  .gradient_stride = update_.gradient.size(1),
                  .offset = form.offset ? offsets_[i].data_ptr<float>() : nullptr,
                  .labels = labels_.data_ptr<int64_t>(),
                  .other_labels = share_.defined() ? other_labels_.data_ptr<int64_t>() : nullptr,
                  .share = share_.defined() ? share_.data_ptr<float>() : nullptr,
                  .counts = counts_.data_ptr<int32_t>(),
                  .loss = i == 0 ? loss.data_ptr<float>() : nullptr,
                  .sigmoid = form.sigmoid,
                  .balanced = form.balancer != nullptr};
    if (task.balanced) {
      const BalancerParams& p = *form.balancer;
      const auto state = BalancedObjective::state_in(state_, {slots_, model.classes}, torch::kCUDA);
      const auto doubles = [](const torch::Tensor& t) { return t.data_ptr<double>(); };
      task.gamma = p.gamma, task.zeta = p.zeta, task.log_delta = std::log(p.delta);
      task.kp = p.kp, task.ki = p.ki, task.kd = p.kd;
      task.target = p.target, task.clamp = p.clamp, task.hold = p.conditional_integration;
      task.positive = doubles(state.positive), task.negative = doubles(state.negative);
      task.error = doubles(state.error), task.error_sum = doubles(state.error_sum);
      task.output = doubles(state.output);
      if (key_.priors[i]) task.prior = priors_[i].data_ptr<float>();
      task.uniforms = uniforms_.data_ptr<float>();
      task.uniforms_stride = static_cast<int>(uniforms_.size(1));
    }
    train_head(task, stream());
    started = started || sends_back;
  }
  if (!started) feature_gradient.zero_();
  return feature_gradient;
}

torch::Tensor SlotTraining::compare_features(const torch::Tensor& features, torch::Tensor& loss) {
  std::vector<torch::Tensor> features_of;
  for (size_t i = 0; i < key_.references; ++i)
    features_of.push_back(network_.forward(references_[i], images_, counts_, nullptr));
  LogitBatch batch{.labels = labels_, .mask = mask_};
  const auto [term, gradient] = (*feature_loss_)(features.detach(), features_of, batch);
  loss = loss + term;
  return gradient;
}

}  // namespace fedgrab::cuda
