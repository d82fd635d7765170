#include <fedgrab/objective/balancer.h>

int main() {
  fedgrab::Balancer balancer(10);
  const auto logits = torch::zeros({4, 10}, torch::requires_grad());
  const auto [loss, gradient] = balancer.step(logits, torch::arange(4));
  logits.backward(gradient);
  return logits.grad().isfinite().all().item<bool>() ? 0 : 1;
}
