/// SGB in a training loop of your own: three lines, marked (1), (2) and (3). Everything else is ordinary LibTorch.
///
/// Five clouds of points in the plane, overlapping with their neighbours on a circle; the first has 100 times as many
/// points as the last. Trained as usual, the network gives the overlaps to the frequent classes. The test set has
/// equally many points of each class, so what that costs the rare ones can be seen. It prints the accuracy of each
/// class, the mean over three starts: with SGB the rarest class gains far more than the others pay.
#include <torch/torch.h>

#include <cmath>
#include <cstdio>
#include <vector>

#include "fedgrab/objective/balancer.h"

namespace {

constexpr int64_t classes = 5;

struct Points {
  torch::Tensor x, y;
};

Points draw_points(const std::vector<int64_t>& counts) {
  std::vector<torch::Tensor> x, y;
  for (int64_t c = 0; c < classes; ++c) {
    const double angle = 2 * M_PI * static_cast<double>(c) / classes;
    const auto centre = torch::tensor({std::cos(angle), std::sin(angle)}, torch::kFloat);
    x.push_back(centre + 0.5 * torch::randn({counts[static_cast<size_t>(c)], 2}));
    y.push_back(torch::full({counts[static_cast<size_t>(c)]}, c, torch::kLong));
  }
  return {torch::cat(x), torch::cat(y)};
}

torch::Tensor train_and_test(const Points& train, const Points& test, bool balanced, uint64_t seed) {
  torch::manual_seed(seed);
  torch::nn::Sequential net(torch::nn::Linear(2, 32), torch::nn::ReLU(), torch::nn::Linear(32, classes));
  torch::optim::SGD optimiser(net->parameters(), torch::optim::SGDOptions(0.05).momentum(0.5));
  fedgrab::Balancer balancer(classes);  // (1) one per model; it keeps what each class has accumulated

  for (int epoch = 0; epoch < 10; ++epoch)
    for (const auto& batch : torch::randperm(train.y.size(0)).split(16)) {
      const auto labels = train.y.index_select(0, batch);
      const auto logits = net->forward(train.x.index_select(0, batch));
      optimiser.zero_grad();
      if (balanced) {
        const auto [loss, gradient] = balancer.step(logits, labels);  // (2) instead of a criterion
        logits.backward(gradient);                                    // (3) instead of loss.backward()
      } else {
        torch::nn::functional::cross_entropy(logits, labels).backward();
      }
      optimiser.step();
    }

  const torch::NoGradGuard no_graph;
  const auto right = (net->forward(test.x).argmax(1) == test.y).to(torch::kDouble);
  std::vector<torch::Tensor> accuracy;
  for (int64_t c = 0; c < classes; ++c) accuracy.push_back(right.masked_select(test.y == c).mean());
  return torch::stack(accuracy);
}

void print_row(const char* name, const Points& train, const Points& test, bool balanced) {
  constexpr int starts = 3;
  auto accuracy = torch::zeros({classes}, torch::kDouble);
  for (uint64_t seed = 1; seed <= starts; ++seed) accuracy += train_and_test(train, test, balanced, seed) / starts;
  std::printf("%-14s", name);
  for (int64_t c = 0; c < classes; ++c) std::printf("%8.3f", accuracy[c].item<double>());
  std::printf("%8.3f\n", accuracy.mean().item<double>());
}

}  // namespace

int main() {
  torch::set_num_threads(1);
  torch::manual_seed(0);
  const std::vector<int64_t> counts{2000, 632, 200, 63, 20};
  const Points train = draw_points(counts);
  const Points test = draw_points(std::vector<int64_t>(classes, 1000));
  std::printf("%-14s", "points");
  for (const int64_t count : counts) std::printf("%8d", static_cast<int>(count));
  std::printf("%8s\n", "all");
  print_row("cross-entropy", train, test, false);
  print_row("with SGB", train, test, true);
}
