#include "fedgrab/engine/client_store.h"

#include <gtest/gtest.h>

#include <fstream>

#include "tests/data/scratch_folder.h"

namespace fedgrab::client_store_test {

TEST(ClientStore, KnowsNothingOfAClientThatNeverTrained) {
  const ClientStore store;
  EXPECT_TRUE(store.read(3).empty());
  EXPECT_TRUE(store.in_memory().empty());
}

TEST(ClientStore, KeepsClientsApart) {
  ClientStore store;
  store.write(1, {{"sum", torch::tensor({1.0F, 2.0F})}});
  store.write(12, {{"sum", torch::tensor({3.0F})}});
  store.commit();
  EXPECT_TRUE(torch::equal(store.read(1).at("sum"), torch::tensor({1.0F, 2.0F})));
  EXPECT_TRUE(torch::equal(store.read(12).at("sum"), torch::tensor({3.0F})));
  EXPECT_TRUE(store.read(2).empty());
}

TEST(ClientStore, GivesCopies) {
  ClientStore store;
  store.write(1, {{"sum", torch::ones({2})}});
  store.commit();
  store.read(1).at("sum").fill_(5);
  EXPECT_TRUE(torch::equal(store.read(1).at("sum"), torch::ones({2})));
}

/// Clients of two kinds, some of which keep nothing.
TEST(ClientStore, ComesBackFromItsStacks) {
  ClientStore store;
  for (int64_t client = 0; client < 50; ++client) {
    TensorMap state{{"sgb.error", torch::full({3}, client, torch::kDouble)}, {"steps", torch::tensor(client)}};
    if (client % 7 == 3) state = {{"head/fc.weight", torch::full({2, 2}, static_cast<float>(client))}};
    if (client % 5 != 1) store.write(client * 20000, state);
  }
  store.commit();
  const auto stacks = store.stacked();
  EXPECT_EQ(stacks.size(), 5U);  // the clients of each kind, and their tensors
  ClientStore restored;
  restored.restore(stacks, {}, "a.file");
  const auto expected = store.in_memory(), found = restored.in_memory();
  ASSERT_EQ(found.size(), expected.size());
  for (const auto& [name, tensor] : expected) {
    EXPECT_TRUE(torch::equal(found.at(name), tensor)) << name;
    EXPECT_EQ(found.at(name).dtype(), tensor.dtype()) << name;
  }
}

TEST(ClientStore, RefusesStacksThatBelongToNoClients) {
  const auto two = torch::arange(2), rows = torch::zeros({2, 3});
  for (const TensorMap& damaged :
       {TensorMap{{"clients/0/sum", rows}}, TensorMap{{"clients/0", two}, {"clients/0/sum", torch::zeros({3, 3})}},
        TensorMap{{"clients/0", two}, {"clients/0/sum", torch::tensor(1.0F)}},
        TensorMap{{"clients/0", two.to(torch::kFloat)}, {"clients/0/sum", rows}},
        TensorMap{{"clients/0", two - 1}, {"clients/0/sum", rows}},
        TensorMap{{"clients/0", two * 0}, {"clients/0/sum", rows}},
        TensorMap{{"clients/0", two}, {"clients/0/sum", rows}, {"client/1/sum", rows[0]}}})
    expect_error(Fault::checkpoint, [&] { ClientStore().restore(damaged, {}, "a.file"); }, {"a.file", "clients/0"});
}

/// A checkpoint holds what it was given while training goes on.
TEST(ClientStore, GivesCheckpointsWhatStays) {
  ClientStore store;
  store.write(1, {{"sum", torch::ones({2})}});
  store.commit();
  const auto kept = store.in_memory();
  store.write(1, {{"sum", torch::zeros({2})}});
  store.commit();
  store.keep_only([](int64_t) { return false; });
  EXPECT_TRUE(torch::equal(kept.at("client/1/sum"), torch::ones({2})));
}

/// Values of every type, of no and of several dimensions, of a tensor that is not contiguous, and none at all.
TEST(PackedTensors, AreTheTensors) {
  const TensorMap tensors{{"doubles", torch::rand({3, 5}, torch::kDouble).t()},
                          {"flag", torch::tensor(true)},
                          {"integers", torch::arange(7)},
                          {"none", torch::zeros({0, 4})},
                          {"scalar", torch::tensor(0.5F)}};
  std::shared_ptr<const TensorLayout> layout;
  const PackedTensors packed(tensors, layout);
  const auto* const first = layout.get();
  EXPECT_EQ(packed.bytes(), 15 * 8 + 1 + 7 * 8 + 4);
  for (const auto& unpacked : {packed.views(), packed.copies()}) {
    ASSERT_EQ(unpacked.size(), tensors.size());
    for (const auto& [name, tensor] : tensors) {
      EXPECT_EQ(unpacked.at(name).dtype(), tensor.dtype()) << name;
      EXPECT_TRUE(torch::equal(unpacked.at(name), tensor)) << name;
    }
  }
  const PackedTensors alike(tensors, layout);
  EXPECT_EQ(layout.get(), first) << "clients share what they have in common";
  const PackedTensors other({{"integers", torch::arange(8)}}, layout);
  EXPECT_NE(layout.get(), first);
  EXPECT_TRUE(torch::equal(alike.views().at("integers"), torch::arange(7)));
}

TEST(ClientStore, ForgetsAClientThatKeepsNothing) {
  ClientStore store;
  store.write(1, {{"sum", torch::ones({2})}});
  store.commit();
  store.write(1, {});
  store.commit();
  EXPECT_TRUE(store.in_memory().empty());
}

TEST(ClientStore, ReplacesTheWholeState) {
  ClientStore store;
  store.write(1, {{"old", torch::ones({2})}});
  store.commit();
  store.write(1, {{"new", torch::ones({2})}});
  store.commit();
  EXPECT_FALSE(store.read(1).contains("old"));
}

TEST(ClientStore, ComesBackFromItsTensors) {
  ClientStore store;
  store.write(0, {{"sgb.error", torch::tensor({0.5F})}, {"head/fc.weight", torch::ones({2, 2})}});
  store.write(10000000, {{"steps", torch::tensor({int64_t{7}})}});
  store.commit();
  const auto tensors = store.in_memory();
  EXPECT_TRUE(tensors.contains("client/0/sgb.error"));

  ClientStore restored;
  restored.write(4, {{"gone", torch::ones({1})}});
  restored.commit();
  restored.restore(tensors, {}, "a.file");
  EXPECT_TRUE(restored.read(4).empty());
  ASSERT_EQ(restored.in_memory().size(), 3U);
  for (const auto& [name, tensor] : restored.in_memory()) {
    EXPECT_TRUE(torch::equal(tensor, tensors.at(name))) << name;
    EXPECT_EQ(tensor.dtype(), tensors.at(name).dtype()) << name;
  }
}

TEST(ClientStore, AnUncommittedRoundLeavesNoTrace) {
  ClientStore store;
  store.write(1, {{"sum", torch::ones({2})}});
  EXPECT_TRUE(store.read(1).empty());
  store.commit();
  store.write(1, {{"sum", torch::zeros({2})}});
  store.write(2, {{"sum", torch::zeros({2})}});
  store.discard();
  store.commit();
  EXPECT_TRUE(torch::equal(store.read(1).at("sum"), torch::ones({2})));
  EXPECT_TRUE(store.read(2).empty());
}

namespace fs = std::filesystem;

int64_t files_in(const fs::path& folder) {
  return fs::exists(folder) ? std::distance(fs::directory_iterator(folder), fs::directory_iterator()) : 0;
}

class Spilling : public testing::Test {
 protected:
  fs::path folder() const { return scratch_.path(); }
  fs::path spilled() const { return folder() / "clients"; }

 private:
  ScratchFolder scratch_;
};

TEST_F(Spilling, WhatDoesNotFitIsKeptOnDisk) {
  ClientStore store(spilled(), 16);  // one client of two floats in each version
  for (int round = 0; round < 3; ++round) {
    for (int64_t client = 0; client < 5; ++client)
      store.write(client, {{"sum", torch::full({2}, static_cast<float>(10 * round + client))}});
    store.commit();
    for (int64_t client = 0; client < 5; ++client)
      EXPECT_EQ(store.read(client).at("sum")[1].item<float>(), static_cast<float>(10 * round + client));
  }
  EXPECT_GE(files_in(spilled()), 3);
  EXPECT_LE(files_in(spilled()), 5);  // old versions are gone
  EXPECT_LE(store.in_memory().size(), 2U);
  store.write(0, {{"sum", torch::zeros({2})}});
  store.discard();
  EXPECT_LE(files_in(spilled()), 5);
}

TEST_F(Spilling, ACheckpointKeepsItsOwnVersion) {
  const auto linked = folder() / "round-000001.clients";
  TensorMap in_memory;
  {
    ClientStore store(spilled(), 8);
    for (int64_t client = 0; client < 3; ++client) store.write(client, {{"sum", torch::full({2}, client)}});
    store.commit();
    in_memory = store.in_memory();
    store.link_files(linked);
    for (int64_t client = 0; client < 3; ++client) store.write(client, {{"sum", torch::full({2}, -1)}});
    store.commit();
  }
  EXPECT_EQ(files_in(spilled()), 0);  // gone with the store
  ClientStore restored(spilled(), 8);
  restored.restore(in_memory, linked, "a.file");
  for (int64_t client = 0; client < 3; ++client)
    EXPECT_EQ(restored.read(client).at("sum")[0].item<float>(), static_cast<float>(client));
  restored.write(1, {{"sum", torch::full({2}, 7)}});
  restored.commit();
  EXPECT_EQ(restored.read(1).at("sum")[0].item<float>(), 7);
  EXPECT_EQ(restored.read(2).at("sum")[0].item<float>(), 2);
}

TEST_F(Spilling, AFileThatChangedIsRefused) {
  ClientStore store(spilled(), 0);
  store.write(1, {{"sum", torch::ones({2})}});
  store.commit();
  const auto file = fs::directory_iterator(spilled())->path();
  std::fstream damaged(file, std::ios::in | std::ios::out | std::ios::binary);
  damaged.seekp(-1, std::ios::end);
  damaged.put('\x42');
  damaged.close();
  expect_error(Fault::checkpoint, [&] { store.read(1); }, {file.string(), "checksum"});
}

TEST(ClientStore, PassesOverTensorsOfTheModelAndTheServer) {
  ClientStore store;
  store.restore({{"fc.weight", torch::ones({1})}, {"server/momentum", torch::ones({1})}}, {}, "a.file");
  EXPECT_TRUE(store.in_memory().empty());
}

TEST(ClientStore, RefusesNamesThatBelongToNoClient) {
  for (const auto* name : {"client/x/sum", "client/-1/sum", "client/3", "client/99999999999999999999/sum", "client//a"})
    expect_error(Fault::checkpoint,
                 [&] {
                   ClientStore().restore({{name, torch::ones({1})}}, {}, "a.file");
                 },
                 {"a.file", name});
}

}  // namespace fedgrab::client_store_test
