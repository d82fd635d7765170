#include "fedgrab/model/architecture.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "fedgrab/model/model.h"
#include "tests/data/scratch_folder.h"
#include "tests/model/torchvision_reference.h"

namespace fedgrab::architecture_test {

using Shapes = std::map<std::string, std::vector<int64_t>>;

int64_t parameters_of(const std::string& name, ImageShape input, int64_t classes) {
  return make_model(make_architecture(name, input), {Head{}}, classes)->parameter_count();
}

TEST(Architecture, HasThePublishedNumberOfParameters) {
  EXPECT_EQ(parameters_of("resnet18", {3, 32, 32}, 10), 11173962);
  EXPECT_EQ(parameters_of("resnet34", {3, 32, 32}, 100), 21328292);
  EXPECT_EQ(parameters_of("resnet32", {3, 32, 32}, 10), 466906);
  EXPECT_EQ(parameters_of("resnet50", {3, 224, 224}, 1000), 25557032);
  EXPECT_EQ(parameters_of("pfl-cnn", {3, 32, 32}, 10), 1626442);
}

TEST(Architecture, SmallNetworksAreSmall) {
  // Stem, three blocks of two convolutions with their norms and, from the second on, a downsampling, fc.
  EXPECT_EQ(parameters_of("resnet8", {3, 32, 32}, 10),
            (432 + 32) + (2 * 2304 + 64) + (4608 + 9216 + 128 + 512 + 64) + (18432 + 36864 + 256 + 2048 + 128) + 650);
  EXPECT_LT(parameters_of("cnn", {3, 32, 32}, 10), 200000);
}

TEST(Architecture, TakesGreyAndOddlySizedImages) {
  for (const auto& name : architecture_names()) {
    const auto model = make_model(make_architecture(name, {1, 29, 17}), {Head{}}, 3);
    EXPECT_EQ(model->find("conv1.weight").shape[1], 1) << name;
  }
}

TEST(Architecture, NamesAndShapesAreTorchvisions) {
  ASSERT_EQ(torchvision_reference().size(), 3U);
  for (const auto& reference : torchvision_reference()) {
    const auto model = reference_model(reference);
    Shapes ours, theirs;
    for (const auto& p : model->parameters) ours[p.name] = p.shape;
    for (const auto& tensor : reference.at("tensors")) theirs.emplace(tensor.at("name"), tensor.at("shape"));
    EXPECT_EQ(ours, theirs) << reference.at("network");
  }
}

TEST(Architecture, UnknownNameGetsTheNearestKnownOne) {
  expect_error(Fault::usage,
               [] {
                 make_architecture("resnet19", {3, 32, 32});
               },
               {"model.name", "\"resnet19\"", "did you mean resnet18?"});
  expect_error(Fault::usage,
               [] {
                 make_architecture("transformer", {3, 32, 32});
               },
               {"transformer", "cnn, cnn256, resnet8, resnet32"});
}

TEST(Architecture, RefusesImagesTooSmallForTheNetwork) {
  make_architecture("cnn", {3, 8, 8});
  expect_error(Fault::usage, [] { make_architecture("cnn", {3, 32, 7}); }, {"cnn", "8 x 8"});
}

TEST(Model, CountsOneHeadOnly) {
  const auto plain = make_model(make_architecture("cnn", {3, 32, 32}), {Head{}}, 10);
  const auto probed = make_model(make_architecture("cnn", {3, 32, 32}), {Head{}, Head{.name = "probe"}}, 10);
  EXPECT_EQ(probed->parameter_count(), plain->parameter_count());
  EXPECT_EQ(probed->size, plain->size + (plain->architecture.features + 1) * 10);
}

TEST(Model, LaysParametersEndToEndWithBuffersLast) {
  const auto model = make_model(make_architecture("resnet8", {3, 32, 32}), {Head{}, Head{.name = "probe"}}, 10);
  int64_t end = 0;
  bool buffers = false;
  for (const auto& p : model->parameters) {
    EXPECT_EQ(p.offset, end) << p.name;
    end += p.size;
    EXPECT_TRUE(p.buffer() || !buffers) << p.name;
    buffers = p.buffer();
  }
  EXPECT_EQ(end, model->size);
}

TEST(Model, JoinsNeighbouringRanges) {
  const auto model =
      make_model(make_architecture("cnn", {3, 32, 32}), {Head{.role = Role::frozen}, {.name = "probe"}}, 10);
  const int64_t frozen = (model->architecture.features + 1) * 10;
  const auto ranges = model->ranges([](const ParameterInfo& p) { return p.trained(); });
  ASSERT_EQ(ranges.size(), 2U);  // before and after the frozen head
  EXPECT_EQ(ranges[0].offset, 0);
  EXPECT_EQ(ranges[0].size, model->find("fc.weight").offset);
  EXPECT_EQ(ranges[1].offset, model->find("probe.weight").offset);
  EXPECT_EQ(ranges[1].offset, ranges[0].size + frozen);
  EXPECT_EQ(ranges[1].size, frozen);
}

TEST(Model, NamesTheParameterItDoesNotHave) {
  const auto model = make_model(make_architecture("cnn", {3, 32, 32}), {Head{}}, 10);
  expect_error(Fault::other, [&] { model->find("probe.weight"); }, {"probe.weight"});
}

}  // namespace fedgrab::architecture_test
