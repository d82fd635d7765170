/// The code of tutorial 4, which CMakeLists.txt extracts from the page.
#include <cstdio>

#include "fedgrab/objective/balancer.h"
#include "fedgrab/prior/prior.h"

namespace {

constexpr int64_t classes = 3;

bool three_lines() {
  const auto labels = torch::arange(classes);
  const auto logits = torch::zeros({classes, classes}, torch::requires_grad());
#include "block_1.h"
  return loss.item<double>() > 0 && torch::equal(logits.grad(), gradient);
}

bool parameters() {
  torch::nn::Linear head(4, classes);
#include "block_2.h"
  const auto logits = head(torch::ones({classes, 4}));
  return balancer.step(logits, torch::arange(classes)).gradient.isfinite().all().item<bool>();
}

}  // namespace

int main() {
  const bool passed = three_lines() && parameters();
  std::puts(passed ? "both blocks work" : "FAILED");
  return passed ? 0 : 1;
}
