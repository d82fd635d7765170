#include "fedgrab/engine/client_store.h"

#include <gtest/gtest.h>

#include "tests/data/scratch_folder.h"

namespace fedgrab {
namespace {

TEST(ClientStore, KnowsNothingOfAClientThatNeverTrained) {
  const ClientStore store;
  EXPECT_TRUE(store.read(3).empty());
  EXPECT_TRUE(store.all().empty());
}

TEST(ClientStore, KeepsClientsApart) {
  ClientStore store;
  store.write(1, {{"sum", torch::tensor({1.0F, 2.0F})}});
  store.write(12, {{"sum", torch::tensor({3.0F})}});
  EXPECT_TRUE(torch::equal(store.read(1).at("sum"), torch::tensor({1.0F, 2.0F})));
  EXPECT_TRUE(torch::equal(store.read(12).at("sum"), torch::tensor({3.0F})));
  EXPECT_TRUE(store.read(2).empty());
}

TEST(ClientStore, HandsOutCopies) {
  ClientStore store;
  store.write(1, {{"sum", torch::ones({2})}});
  store.read(1).at("sum").fill_(5);
  EXPECT_TRUE(torch::equal(store.read(1).at("sum"), torch::ones({2})));
}

TEST(ClientStore, ForgetsAClientThatKeepsNothing) {
  ClientStore store;
  store.write(1, {{"sum", torch::ones({2})}});
  store.write(1, {});
  EXPECT_TRUE(store.all().empty());
}

TEST(ClientStore, ReplacesTheWholeMemory) {
  ClientStore store;
  store.write(1, {{"old", torch::ones({2})}});
  store.write(1, {{"new", torch::ones({2})}});
  EXPECT_FALSE(store.read(1).contains("old"));
}

TEST(ClientStore, ComesBackFromItsTensors) {
  ClientStore store;
  store.write(0, {{"sgb.error", torch::tensor({0.5F})}, {"head/fc.weight", torch::ones({2, 2})}});
  store.write(10000000, {{"steps", torch::tensor({int64_t{7}})}});
  const auto tensors = store.all();
  EXPECT_TRUE(tensors.contains("client/0/sgb.error"));

  ClientStore restored;
  restored.write(4, {{"gone", torch::ones({1})}});
  restored.restore(tensors, "a.file");
  EXPECT_TRUE(restored.read(4).empty());
  ASSERT_EQ(restored.all().size(), 3U);
  for (const auto& [name, tensor] : restored.all()) {
    EXPECT_TRUE(torch::equal(tensor, tensors.at(name))) << name;
    EXPECT_EQ(tensor.dtype(), tensors.at(name).dtype()) << name;
  }
}

TEST(ClientStore, PassesOverTensorsOfTheModelAndTheServer) {
  ClientStore store;
  store.restore({{"fc.weight", torch::ones({1})}, {"server/momentum", torch::ones({1})}}, "a.file");
  EXPECT_TRUE(store.all().empty());
}

TEST(ClientStore, RefusesNamesThatBelongToNoClient) {
  for (const auto* name : {"client/x/sum", "client/-1/sum", "client/3", "client/99999999999999999999/sum", "client//a"})
    expect_error(Fault::checkpoint,
                 [&] {
                   ClientStore().restore({{name, torch::ones({1})}}, "a.file");
                 },
                 {"a.file", name});
}

}  // namespace
}  // namespace fedgrab
