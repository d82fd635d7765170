/// Parts that contradict each other are refused before the first round, with one line that says why.
#include <gtest/gtest.h>

#include "tests/data/scratch_folder.h"
#include "tests/method/tiny.h"

namespace fedgrab::refusals_test {

struct Refused {
  const char* why;
  Values settings;
  std::vector<std::string> fragments;
};
void PrintTo(const Refused& refused, std::ostream* out) { *out << refused.why; }

class Combination : public testing::TestWithParam<Refused> {};

TEST_P(Combination, IsRefused) {
  const auto& [why, settings, fragments] = GetParam();
  expect_error(
      Fault::usage, [&settings = settings] { compose("fedavg", settings).model(tiny_architecture(4), 3); }, fragments);
}

INSTANTIATE_TEST_SUITE_P(Head, Combination,
                         testing::Values(Refused{"a cosine head of the loss has no weight norms to change",
                                                 {{"posthoc.kind", "tau-norm"}, {"objective.name", "ldam"}},
                                                 {"posthoc.kind", "\"tau-norm\" changes a linear classifier", "cosine",
                                                  "posthoc.kind=none"}},
                                         Refused{
                                             "nor has one that the user asked for",
                                             {{"posthoc.kind", "tau-norm"}, {"head.kind", "cosine"}},
                                             {"posthoc.kind", "\"tau-norm\" changes a linear classifier", "head.kind"}},
                                         Refused{"CReFF re-trains a linear head",
                                                 {{"posthoc.kind", "creff"}, {"objective.name", "ldam"}},
                                                 {"posthoc.kind", "\"creff\"", "cosine"}},
                                         Refused{"FedLoGe aligns linear heads",
                                                 {{"posthoc.kind", "aligned"}, {"objective.name", "ldam"}},
                                                 {"posthoc.kind", "\"aligned\"", "cosine"}},
                                         Refused{"CReFF's classifier reads the features themselves",
                                                 {{"posthoc.kind", "creff"}, {"head.projected", "true"}},
                                                 {"posthoc.kind", "\"creff\"", "head.projected"}},
                                         Refused{"so do FedLoGe's",
                                                 {{"posthoc.kind", "aligned"}, {"head.projected", "true"}},
                                                 {"posthoc.kind", "\"aligned\"", "head.projected"}},
                                         Refused{"a loss on cosines has no linear head",
                                                 {{"head.kind", "linear"}, {"objective.name", "ldam"}},
                                                 {"head.kind", "cosines", "head.kind=cosine"}}));

INSTANTIATE_TEST_SUITE_P(
    Prior, Combination,
    testing::Values(Refused{"logit adjustment subtracts a prior",
                            {{"posthoc.kind", "logit-adjustment"}},
                            {"posthoc.kind", "\"logit-adjustment\" needs an estimate of the class prior",
                             "prior.source"}},
                    Refused{"the gate reads a prior",
                            {{"objective.name", "sgb"}, {"objective.sgb.gate", "prior"}},
                            {"objective.sgb.gate", "needs an estimate of the class prior", "prior.source"}},
                    Refused{"the stalled gate too",
                            {{"objective.name", "sgb"}, {"objective.sgb.gate", "stalled"}},
                            {"objective.sgb.gate", "needs an estimate of the class prior", "prior.source"}},
                    Refused{"class sizes by the prior",
                            {{"objective.name", "ldam"}, {"objective.class_sizes", "prior"}},
                            {"objective.class_sizes", "needs an estimate of the class prior", "prior.source"}},
                    Refused{"a prior by hand has a value per class",
                            {{"prior.source", "fixed"}, {"prior.fixed", "0.2,0.9"}},
                            {"prior.fixed", "2 values for 3 classes", "one per class"}}));

INSTANTIATE_TEST_SUITE_P(Server, Combination,
                         testing::Values(Refused{"FedDyn's drift is that of the clients' mean",
                                                 {{"client.algorithm", "dyn"}, {"server.optimizer", "momentum"}},
                                                 {"client.algorithm",
                                                  "\"dyn\" corrects the mean of the clients' models itself",
                                                  "server.optimizer=none"}},
                                         Refused{"for any optimiser",
                                                 {{"client.algorithm", "dyn"}, {"server.optimizer", "yogi"}},
                                                 {"client.algorithm", "\"dyn\"", "server.optimizer=none"}},
                                         Refused{"nor with FedNova",
                                                 {{"client.algorithm", "dyn"}, {"server.aggregator", "nova"}},
                                                 {"client.algorithm", "\"dyn\"", "server.aggregator=average"}}));

INSTANTIATE_TEST_SUITE_P(TwoLabels, Combination,
                         testing::Values(Refused{"balancers tell labels apart by the sign of the gradient",
                                                 {{"train.mixup", "0.2"}, {"objective.name", "sgb"}},
                                                 {"train.mixup", "two labels", "objective.name = \"sgb\"",
                                                  "set train.mixup=0"}},
                                         Refused{"so does whoever accumulates",
                                                 {{"train.cutmix", "1"}, {"objective.collect", "true"}},
                                                 {"train.cutmix", "two labels", "objective.collect"}},
                                         Refused{"MOON compares whole images",
                                                 {{"train.mixup", "0.2"}, {"client.algorithm", "moon"}},
                                                 {"train.mixup", "client.algorithm = \"moon\""}}));

INSTANTIATE_TEST_SUITE_P(
    Names, Combination,
    testing::Values(Refused{"loss", {{"objective.name", "sotfmax"}}, {"objective.name", "did you mean softmax?"}},
                    Refused{"prior", {{"prior.source", "count"}}, {"prior.source", "did you mean counts?"}},
                    Refused{"algorithm", {{"client.algorithm", "scafold"}}, {"client.algorithm", "mean scaffold?"}},
                    Refused{"aggregator", {{"server.aggregator", "avrage"}}, {"server.aggregator", "mean average?"}},
                    Refused{"optimiser",
                            {{"server.optimizer", "sgdm-nesterov"}},
                            {"server.optimizer", "none, momentum, adagrad, adam, yogi"}},
                    Refused{"post-hoc", {{"posthoc.kind", "tau-nrm"}}, {"posthoc.kind", "did you mean tau-norm?"}}));

TEST(CreffModel, IsRefusedWhereItsGradientsAreTooLargeToSend) {
  const auto model = [](int64_t features) {
    return compose("creff").model({"wide", {1, 1, 1}, {Layer{LayerKind::flatten, "", -1}}, features}, 1024);
  };
  EXPECT_NO_THROW(model(63));  // 1024² · 64 numbers is the limit
  expect_error(Fault::usage, [&] { model(64); }, {"creff", "68157440", "67108864"});
}

}  // namespace fedgrab::refusals_test
