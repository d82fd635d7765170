#include <filesystem>

#include "fedgrab/data/load.h"
#include "scratch_folder.h"

namespace fedgrab::cifar_test {

/// An image whose planes are filled with `red`, red + 1 and red + 2.
std::string pixels(int red) {
  std::string planes;
  for (int channel = 0; channel < 3; ++channel) planes += std::string(1024, static_cast<char>(red + channel));
  return planes;
}

std::string record(int label, int red) { return static_cast<char>(label) + pixels(red); }
std::string record(int coarse, int fine, int red) { return static_cast<char>(coarse) + record(fine, red); }

TEST(Cifar, ReadsTheFolderLayout) {
  const ScratchFolder folder;
  folder.write("train.bin", record(3, 10) + record(9, 20));
  folder.write("test.bin", record(0, 30));
  const Dataset data = read_cifar(folder.path(), 10);

  EXPECT_EQ(data.name, "cifar10");
  EXPECT_EQ(data.shape(), (ImageShape{3, 32, 32}));
  EXPECT_EQ(data.train.labels, (std::vector<int32_t>{3, 9}));
  EXPECT_EQ(data.test.labels, (std::vector<int32_t>{0}));
  EXPECT_EQ(data.train.images.count(), 2);
  EXPECT_EQ(data.train.images.at(1)[0], 20);
  EXPECT_EQ(data.train.images.at(1)[1024], 21);
  EXPECT_EQ(data.train.images.at(1)[3071], 22);
  EXPECT_EQ(data.test.images.at(0)[0], 30);
  EXPECT_EQ(data.classes(), 10);
  EXPECT_EQ(data.class_names[3], "cat");
  EXPECT_TRUE(data.balanced);
  EXPECT_EQ(data.augmentation.operations.to_text(), "crop,flip");
  EXPECT_EQ(leading_crop_and_flip(data.augmentation.operations).crop_padding, 4);
  EXPECT_FLOAT_EQ(data.normalisation.mean[0], 0.485F);
}

TEST(Cifar, ReadsTheOriginalBatchesInOrder) {
  const ScratchFolder folder;
  for (int batch = 1; batch <= 5; ++batch)
    folder.write("cifar-10-batches-bin/data_batch_" + std::to_string(batch) + ".bin", record(batch, batch));
  folder.write("cifar-10-batches-bin/test_batch.bin", record(7, 0));
  folder.write("cifar-10-batches-bin/batches.meta.txt", "a\nb\nc\nd\r\ne\nf\ng\nh\ni\nj\n\n");
  for (const auto& path : {folder.path(), folder.path("cifar-10-batches-bin")}) {
    const Dataset data = read_cifar(path, 10);
    EXPECT_EQ(data.train.labels, (std::vector<int32_t>{1, 2, 3, 4, 5}));
    EXPECT_EQ(data.train.images.at(4)[0], 5);
    EXPECT_EQ(data.test.labels, (std::vector<int32_t>{7}));
    EXPECT_EQ(data.class_names[3], "d");
  }
}

TEST(Cifar, UsesTheFineLabelOfCifar100) {
  const ScratchFolder folder;
  folder.write("cifar-100-lt/train.bin", record(11, 98, 1) + record(4, 0, 2));
  folder.write("cifar-100-lt/test.bin", record(19, 99, 3));
  const Dataset data = read_cifar(folder.path(), 100);
  EXPECT_EQ(data.train.labels, (std::vector<int32_t>{98, 0}));
  EXPECT_EQ(data.test.labels, (std::vector<int32_t>{99}));
  EXPECT_EQ(data.train.images.at(1)[0], 2);
  EXPECT_EQ(data.classes(), 100);
  EXPECT_EQ(data.class_names[0], "apple");
  EXPECT_EQ(data.class_names[47], "maple_tree");
  EXPECT_EQ(data.class_names[99], "worm");
}

TEST(Cifar, TakesOneFileForTrainingAndItsNeighbourForTesting) {
  const ScratchFolder folder;
  const auto train = folder.write("mine.bin", record(1, 1));
  expect_error(Fault::data, [&] { read_cifar(train, 10); }, {folder.path(), "test.bin"});
  const auto test = folder.write("test_batch.bin", record(2, 2));
  EXPECT_EQ(read_cifar(train, 10).test.labels, (std::vector<int32_t>{2}));
  expect_error(Fault::data, [&] { read_cifar(test, 10); }, {test, "is the test file"});
}

TEST(Cifar, NamesFileAndSizesWhenARecordIsIncomplete) {
  const ScratchFolder folder;
  folder.write("test.bin", record(0, 0));
  for (const size_t size : {size_t{0}, size_t{3072}, size_t{3074}, size_t{6145}}) {
    const auto file = folder.write("train.bin", std::string(size, '\0'));
    expect_error(Fault::data, [&] { read_cifar(folder.path(), 10); }, {file, std::to_string(size), "3073"});
  }
  folder.write("train.bin", record(1, 1));
  expect_error(Fault::data, [&] { read_cifar(folder.path(), 100); }, {"train.bin", "3073", "3074"});
}

TEST(Cifar, NamesRecordAndLabelOutOfRange) {
  const ScratchFolder folder;
  const auto train = folder.write("train.bin", record(9, 0) + record(10, 0));
  const auto test = folder.write("test.bin", record(0, 0));
  expect_error(Fault::data, [&] { read_cifar(folder.path(), 10); }, {train, "record 2 of 2", "label 10"});
  folder.write("train.bin", record(0, 99, 0));
  folder.write("test.bin", record(0, 100, 0));
  expect_error(Fault::data, [&] { read_cifar(folder.path(), 100); }, {test, "record 1 of 1", "label 100"});
}

TEST(Cifar, SaysWhatIsMissing) {
  const ScratchFolder folder;
  expect_error(Fault::data, [&] { read_cifar(folder.path("nowhere"), 10); }, {folder.path("nowhere"), "no such"});
  expect_error(Fault::data, [&] { read_cifar(folder.path(), 10); }, {folder.path(), "train.bin", "data_batch_1.bin"});
  folder.write("data_batch_1.bin", record(0, 0));
  expect_error(Fault::data, [&] { read_cifar(folder.path(), 10); }, {folder.path(), "test_batch.bin"});
  folder.write("test_batch.bin", record(0, 0));
  expect_error(Fault::data, [&] { read_cifar(folder.path(), 10); }, {"data_batch_2.bin"});
}

TEST(Cifar, RefusesAnIncompleteListOfNames) {
  const ScratchFolder folder;
  folder.write("train.bin", record(0, 0));
  folder.write("test.bin", record(0, 0));
  const auto names = folder.write("batches.meta.txt", "cat\ndog\n");
  expect_error(Fault::data, [&] { read_cifar(folder.path(), 10); }, {names, "2 class names"});
}

}  // namespace fedgrab::cifar_test
