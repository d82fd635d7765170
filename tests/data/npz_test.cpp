#include <fmt/format.h>
#include <zlib.h>

#include "data/zip_archive.h"
#include "fedgrab/core/file.h"
#include "fedgrab/data/load.h"
#include "scratch_folder.h"

namespace fedgrab::npz_test {

// Written by numpy.savez_compressed: 6, 2 and 3 colour images of 4 x 5, whose bytes count up from 0, 1 and 2.
const std::string colour = FEDGRAB_TEST_DATA "/data/reference/medmnist.npz";
// Written by numpy.savez: 3 and 1 grey images of 2 x 2, labels of 64 bits in one dimension.
const std::string grey = FEDGRAB_TEST_DATA "/data/reference/grey.npz";

std::string number(uint64_t value, int bytes) {
  std::string text;
  for (int i = 0; i < bytes; ++i) text += static_cast<char>(value >> (8 * i) & 0xFFU);
  return text;
}

/// A ZIP archive of stored files.
std::string zip(const std::vector<std::pair<std::string, std::string>>& files) {
  std::string whole, directory;
  for (const auto& [name, content] : files) {
    const auto checksum = crc32(0, reinterpret_cast<const Bytef*>(content.data()), static_cast<uInt>(content.size()));
    const std::string facts = number(20, 2) + number(0, 8) + number(checksum, 4) + number(content.size(), 4) +
                              number(content.size(), 4) + number(name.size(), 2) + number(0, 2);
    directory += "PK\x01\x02" + number(20, 2) + facts + number(0, 10) + number(whole.size(), 4) + name;
    whole += "PK\x03\x04" + facts + name + content;
  }
  return whole + directory + "PK\x05\x06" + number(0, 4) + number(files.size(), 2) + number(files.size(), 2) +
         number(directory.size(), 4) + number(whole.size(), 4) + number(0, 2);
}

std::string npy(const std::string& type, const std::string& shape, const std::string& elements) {
  std::string header = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}", type, shape) +
                       std::string(10, ' ') + "\n";
  return "\x93NUMPY" + number(1, 1) + number(0, 1) + number(header.size(), 2) + header + elements;
}

using Files = std::vector<std::pair<std::string, std::string>>;

Files small() {
  return {{"train_images.npy", npy("|u1", "2, 1, 2", "abcd")},
          {"train_labels.npy", npy("|u1", "2, 1", std::string("\0\1", 2))},
          {"test_images.npy", npy("|u1", "1, 1, 2", "ef")},
          {"test_labels.npy", npy("|u1", "1, 1", std::string("\1", 1))}};
}

void expect_refused(const Files& files, const std::vector<std::string>& fragments) {
  const ScratchFolder folder;
  const auto path = folder.write("set.npz", zip(files));
  auto all = fragments;
  all.push_back(path);
  expect_error(
      Fault::data, [&] { read_npz(path); }, all);
}

TEST(Npz, ReadsColourAndTheValidationSplit) {
  const Dataset data = read_npz(colour);
  EXPECT_EQ(data.shape(), (ImageShape{3, 4, 5}));
  EXPECT_EQ(data.class_names, (std::vector<std::string>{"0", "1", "2"}));
  EXPECT_EQ(data.train.labels, (std::vector<int32_t>{0, 1, 2, 0, 0, 1}));
  EXPECT_EQ(data.validation.labels, (std::vector<int32_t>{2, 0}));
  EXPECT_EQ(data.test.labels, (std::vector<int32_t>{1, 1, 0}));
  const std::array<const Split*, 3> splits{&data.train, &data.validation, &data.test};
  for (size_t s = 0; s < splits.size(); ++s)
    for (int64_t i = 0; i < splits[s]->count(); ++i)
      for (size_t channel = 0; channel < 3; ++channel)
        for (size_t pixel = 0; pixel < 20; ++pixel)
          ASSERT_EQ(splits[s]->images.at(i)[channel * 20 + pixel],
                    (static_cast<size_t>(i) * 60 + pixel * 3 + channel) % 251 + s);
  EXPECT_FALSE(data.balanced);
}

TEST(Npz, ReadsGreyImagesAndWideLabels) {
  const Dataset data = read_npz(grey);
  EXPECT_EQ(data.shape(), (ImageShape{1, 2, 2}));
  EXPECT_EQ(data.train.labels, (std::vector<int32_t>{0, 1, 1}));
  EXPECT_EQ(data.validation.count(), 0);
  EXPECT_EQ(std::vector<uint8_t>(data.train.images.bytes.begin(), data.train.images.bytes.end()),
            (std::vector<uint8_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}));
}

TEST(Npz, IsChosenByItsName) {
  DataParams params;
  params.name = "npz";
  params.path = colour;
  EXPECT_EQ(load_dataset(params, 1).name, "npz");
  EXPECT_EQ(load_dataset(params, 1).augmentation.operations.to_text(), "crop,flip");
}

TEST(Npz, RefusesWhatIsNoSetOfImages) {
  const auto with = [](size_t place, const std::string& content) {
    Files files = small();
    files[place].second = content;
    return files;
  };
  const ScratchFolder folder;
  EXPECT_EQ(read_npz(folder.write("good.npz", zip(small()))).train.count(), 2);
  Files unnamed = small();
  unnamed[2].first = "x_test.npy";
  expect_refused(unnamed, {"holds no test_images", "x_test.npy", "MedMNIST"});
  expect_refused(with(0, npy("<f4", "2, 1, 2", std::string(16, 'a'))), {"train_images", "<f4", "uint8"});
  expect_refused(with(0, npy("|u1", "2, 1, 2, 2", "abcdefgh")), {"2 x 1 x 2 x 2", "volumes"});
  expect_refused(with(0, npy("|u1", "2, 1, 3", "abcd")), {"4 bytes", "2 x 1 x 3"});
  expect_refused(with(0, npy("|u1", "4, 9223372036854775807, 4", "abcd")), {"4 bytes"});
  expect_refused(with(0, npy("|u1", "1, 1, 4", "abcd")), {"holds 1 train_images and 2 train_labels"});
  expect_refused(with(0, npy("|O", "2, 1, 2", "abcd")), {"train_images"});
  expect_refused(with(0, "PNG"), {"no NumPy array"});
  expect_refused(with(1, npy("|u1", "2, 2", std::string(4, '\0'))), {"2 x 2, not one label", "ChestMNIST"});
  expect_refused(with(1, npy("|i1", "2, 1", std::string("\0\xFF", 2))), {"train_labels 1 is no class"});
  expect_refused(with(1, npy("<f8", "2", std::string(16, '\0'))), {"<f8", "whole numbers"});
  expect_refused(with(2, npy("|u1", "1, 2, 1", "ef")), {"test_images and train_images differ"});
  expect_refused(with(3, npy("|u1", "1", "\x07")), {"test_labels has a class"});
  std::string by_column = npy("|u1", "2, 1, 2", "abcd");
  by_column.replace(by_column.find("False"), 5, "True ");
  expect_refused(with(0, by_column), {"column by column"});
}

TEST(Npz, NamesTheMissingFile) {
  expect_error(Fault::data, [] { read_npz("/nowhere/set.npz"); }, {"/nowhere/set.npz", "is not a file"});
}

TEST(ZipArchive, DamageIsNoticed) {
  const ScratchFolder folder;
  for (const auto& path : {colour, grey}) {
    const auto bytes = read_bytes(path);
    const std::string whole(bytes.begin(), bytes.end());
    const auto attempt = [&](const std::string& content) {
      try {
        read_npz(folder.write("damaged.npz", content));
      } catch (const Error& error) {
        EXPECT_EQ(error.fault(), Fault::data) << error.what();
      }
    };
    for (size_t at = 0; at < whole.size(); at += 5) {
      std::string damaged = whole;
      damaged[at] = static_cast<char>(damaged[at] ^ 0xFF);
      attempt(damaged);
      const auto cut = folder.write("cut.npz", whole.substr(0, at));
      expect_error(Fault::data, [&] { read_npz(cut); }, {cut});
    }
  }
}

TEST(ZipArchive, ABombIsRefused) {
  Files files = small();
  std::string archive = zip(files);
  // The unpacked size of the first file, in the directory.
  const size_t directory = archive.find("PK\x01\x02");
  archive.replace(directory + 10, 2, number(8, 2));
  archive.replace(directory + 24, 4, number(4'000'000'000, 4));
  const ScratchFolder folder;
  const auto path = folder.write("bomb.npz", archive);
  expect_error(Fault::data, [&] { read_npz(path); }, {path, "damaged"});
}

}  // namespace fedgrab::npz_test
