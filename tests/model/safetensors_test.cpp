#include "fedgrab/model/safetensors.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "fedgrab/core/error.h"
#include "fedgrab/core/file.h"

namespace fedgrab::safetensors_test {

namespace fs = std::filesystem;

// Written by safetensors 0.8.0 for Python: a rank-0, an empty, a bfloat16 and a bool tensor among them.
constexpr std::string_view from_python =
    "60010000000000007b225f5f6d657461646174615f5f223a7b22666f726d6174223a227074222c22726f756e64223a223132227d2c22632e"
    "636f756e74223a7b226474797065223a22493634222c227368617065223a5b5d2c22646174615f6f666673657473223a5b302c385d7d2c22"
    "612e776569676874223a7b226474797065223a22463332222c227368617065223a5b312c335d2c22646174615f6f666673657473223a5b38"
    "2c32305d7d2c22652e6e6f6e65223a7b226474797065223a22463332222c227368617065223a5b302c345d2c22646174615f6f6666736574"
    "73223a5b32302c32305d7d2c22622e68616c66223a7b226474797065223a2242463136222c227368617065223a5b325d2c22646174615f6f"
    "666673657473223a5b32302c32345d7d2c22642e6d61736b223a7b226474797065223a22424f4f4c222c227368617065223a5b335d2c2264"
    "6174615f6f666673657473223a5b32342c32375d7d7d202007000000000000000000c03f000000c000005040003f80bf010001";

std::string unhex(std::string_view hex) {
  std::string bytes;
  for (size_t i = 0; i < hex.size(); i += 2)
    bytes += static_cast<char>(std::stoi(std::string(hex.substr(i, 2)), nullptr, 16));
  return bytes;
}

std::string framed(const std::string& header, const std::string& data = {}) {
  std::string bytes;
  for (size_t i = 0; i < 8; ++i) bytes += static_cast<char>(header.size() >> (8 * i) & 0xFF);
  return bytes + header + data;
}

class Safetensors : public testing::Test {
 protected:
  void SetUp() override { fs::create_directories(folder_); }
  void TearDown() override { fs::remove_all(folder_); }

  TensorFile load(std::string_view bytes) const {
    fs::remove(path_);  // some file systems sync a file that is overwritten, and there are thousands
    std::ofstream(path_, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    return load_safetensors(path_);
  }

  /// The complaint, or empty when the bytes load.
  std::string complaint(std::string_view bytes) const {
    try {
      load(bytes);
    } catch (const Error& error) {
      EXPECT_EQ(error.fault(), Fault::checkpoint);
      EXPECT_TRUE(std::string_view(error.what()).starts_with(path_.string())) << error.what();
      return error.what();
    }
    return {};
  }

  fs::path folder_ = fs::path(testing::TempDir()) / ("safetensors_" + std::to_string(::getpid()));
  fs::path path_ = folder_ / "file.safetensors";
};

void expect_same(const TensorMap& expected, const TensorMap& actual) {
  ASSERT_EQ(expected.size(), actual.size());
  for (const auto& [name, tensor] : expected) {
    ASSERT_TRUE(actual.contains(name)) << name;
    EXPECT_EQ(tensor.scalar_type(), actual.at(name).scalar_type()) << name;
    EXPECT_TRUE(torch::equal(tensor, actual.at(name))) << name;
  }
}

TEST_F(Safetensors, ReadsWhatPythonWrote) {
  const TensorFile file = load(unhex(from_python));
  const TensorMap expected{{"a.weight", torch::tensor({{1.5F, -2.0F, 3.25F}})},
                           {"b.half", torch::tensor({0.5F, -1.0F}).to(torch::kBFloat16)},
                           {"c.count", torch::tensor(int64_t{7}).reshape({})},
                           {"d.mask", torch::tensor({true, false, true})},
                           {"e.none", torch::zeros({0, 4})}};
  expect_same(expected, file.tensors);
  EXPECT_EQ(file.metadata, (std::map<std::string, std::string>{{"format", "pt"}, {"round", "12"}}));
}

TEST_F(Safetensors, KeepsEveryTypeAndShape) {
  TensorFile file;
  for (const auto type : {torch::kFloat32, torch::kFloat64, torch::kFloat16, torch::kBFloat16, torch::kInt64,
                          torch::kInt32, torch::kInt16, torch::kInt8, torch::kUInt8, torch::kBool}) {
    const std::string name = c10::toString(type);
    file.tensors[name] = torch::tensor({0, 1, 1, 0, 1}).to(type);
    file.tensors[name + ".scalar"] = torch::ones({}, type);
    file.tensors[name + ".empty"] = torch::ones({3, 0, 2}, type);
  }
  file.tensors["transposed"] = torch::arange(6.0).reshape({2, 3}).t();
  file.tensors["channels last"] =
      torch::arange(24.0).reshape({1, 2, 3, 4}).contiguous(torch::MemoryFormat::ChannelsLast);
  file.tensors["trained"] = torch::ones({2}).requires_grad_();
  file.tensors["δ \"quoted\""] = torch::full({2}, -0.5);
  file.metadata = {{"note", "two\nlines, ±"}, {"", ""}};
  save_safetensors(path_, file);
  const TensorFile back = load_safetensors(path_);
  expect_same(file.tensors, back.tensors);
  EXPECT_EQ(file.metadata, back.metadata);
}

TEST_F(Safetensors, KeepsNothing) {
  save_safetensors(path_, {});
  EXPECT_TRUE(load_safetensors(path_).tensors.empty());
}

TEST_F(Safetensors, AlignsEveryTensor) {
  save_safetensors(
      path_,
      {.tensors = {{"a", torch::ones({3}, torch::kUInt8)}, {"b", torch::ones({1}, torch::kFloat64)}}, .metadata = {}});
  const std::string bytes = read_text(path_);
  EXPECT_EQ(bytes.size() % 8, 3U);
  EXPECT_NE(bytes.find(R"("b":{"data_offsets":[0,8])"), std::string::npos);
}

TEST_F(Safetensors, RefusesToSaveWhatTheFormatCannotHold) {
  const auto save = [&](const std::string& name, const torch::Tensor& tensor) {
    save_safetensors(path_, {.tensors = {{name, tensor}}, .metadata = {}});
  };
  EXPECT_THROW(save("a", torch::ones({1}, torch::kComplexFloat)), Error);
  EXPECT_THROW(save("a", torch::Tensor()), Error);
  EXPECT_THROW(save("__metadata__", torch::ones({1})), Error);
  EXPECT_THROW(save("\xff", torch::ones({1})), Error);
  EXPECT_TRUE(fs::is_empty(folder_));
}

TEST_F(Safetensors, RefusesWhatTheFormatForbids) {
  const auto entry = [](const std::string& type, const std::string& shape, const std::string& offsets) {
    return R"({"dtype":")" + type + R"(","shape":)" + shape + R"(,"data_offsets":)" + offsets + "}";
  };
  const std::string four(4, '\0');
  const auto one = [&](const std::string& info) { return framed("{\"a\":" + info + "}", four); };
  ASSERT_EQ(complaint(one(entry("U8", "[4]", "[0,4]"))), "");

  EXPECT_NE(complaint(""), "");
  EXPECT_NE(complaint("1234567"), "");
  EXPECT_NE(complaint(framed("")), "");
  EXPECT_NE(complaint(framed("[]")), "");
  EXPECT_NE(complaint(framed(" {}")), "");
  EXPECT_NE(complaint(framed("{} {}")), "");
  EXPECT_NE(complaint(framed(std::string("{}\0x", 4))), "");
  EXPECT_NE(complaint(framed("{\"\xff\":1}")), "");
  EXPECT_NE(complaint(framed("{}", "more")), "");
  EXPECT_NE(complaint(framed(std::string(100'000, '['))), "");
  EXPECT_NE(complaint(framed("{\"a\":" + std::string(100'000, '['))), "");
  EXPECT_NE(complaint(std::string(8, '\xff') + "{}"), "");
  EXPECT_NE(complaint(std::string("\xff\xe0\xf5\x05\0\0\0\0{}", 10)), "");  // just below the largest header allowed

  EXPECT_NE(complaint(one("7")), "");
  EXPECT_NE(complaint(one("{}")), "");
  EXPECT_NE(complaint(one(entry("U9", "[4]", "[0,4]"))), "");
  EXPECT_NE(complaint(one(entry("U8", "4", "[0,4]"))), "");
  EXPECT_NE(complaint(one(entry("U8", "[-4]", "[0,4]"))), "");
  EXPECT_NE(complaint(one(entry("U8", "[4.0]", "[0,4]"))), "");
  EXPECT_NE(complaint(one(entry("U8", "[1e999]", "[0,4]"))), "");
  EXPECT_NE(complaint(one(entry("U8", "[5]", "[0,4]"))), "");
  EXPECT_NE(complaint(one(entry("F32", "[4]", "[0,4]"))), "");
  EXPECT_NE(complaint(one(entry("U8", "[4]", "[0,4,4]"))), "");
  EXPECT_NE(complaint(one(entry("U8", "[4]", "[4,0]"))), "");
  EXPECT_NE(complaint(one(entry("U8", "[3]", "[0,3]"))), "");
  EXPECT_NE(complaint(one(entry("U8", "[3]", "[1,4]"))), "");
  EXPECT_NE(complaint(one(entry("U8", "[8]", "[0,8]"))), "");
  // Products that wrap around to 4 or to nothing.
  EXPECT_NE(complaint(one(entry("U8", "[4294967296,4294967296,4]", "[0,4]"))), "");
  EXPECT_NE(complaint(one(entry("F32", "[4611686018427387905]", "[0,4]"))), "");
  EXPECT_NE(complaint(framed("{\"a\":" + entry("F32", "[4294967296,4294967296,0]", "[0,0]") + "}")), "");
  EXPECT_NE(complaint(framed("{\"a\":" + entry("U8", "[9223372036854775807]", "[0,9223372036854775807]") + "}")), "");

  const std::string first = "{\"a\":" + entry("U8", "[2]", "[0,2]");
  EXPECT_EQ(complaint(framed(first + ",\"b\":" + entry("U8", "[2]", "[2,4]") + "}", four)), "");
  EXPECT_NE(complaint(framed(first + ",\"b\":" + entry("U8", "[3]", "[1,4]") + "}", four)), "") << "overlap";
  EXPECT_NE(complaint(framed(first + ",\"b\":" + entry("U8", "[1]", "[3,4]") + "}", four)), "") << "hole";
  EXPECT_NE(complaint(framed(first + ",\"a\":" + entry("U8", "[2]", "[2,4]") + "}", four)), "") << "same name";
  EXPECT_NE(complaint(framed(R"({"__metadata__":{"a":1}})")), "");
  EXPECT_NE(complaint(framed(R"({"__metadata__":[]})")), "");
  EXPECT_NE(complaint(framed(R"({"__metadata__":{"a":"","a":""}})")), "");

  EXPECT_NE(complaint(framed(R"({"a":)" + entry("BOOL", "[1]", "[0,1]") + "}", "\x02")), "");
}

TEST_F(Safetensors, RefusesWhatIsNoFile) {
  for (const fs::path& path : {folder_, folder_ / "missing"}) {
    try {
      load_safetensors(path);
      ADD_FAILURE() << path;
    } catch (const Error& error) {
      EXPECT_EQ(error.fault(), Fault::checkpoint);
    }
  }
}

TEST_F(Safetensors, SurvivesDamage) {
  const std::string whole = unhex(from_python);
  for (size_t length = 0; length < whole.size(); ++length) EXPECT_NE(complaint(whole.substr(0, length)), "") << length;
  size_t refused = 0;
  for (size_t bit = 0; bit < whole.size() * 8; ++bit) {
    std::string damaged = whole;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << bit % 8));
    refused += complaint(damaged).empty() ? 0 : 1;
  }
  EXPECT_GT(refused, whole.size() * 4);  // the rest changes a name, a text or a number
}

}  // namespace fedgrab::safetensors_test
