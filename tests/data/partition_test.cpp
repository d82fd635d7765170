#include "fedgrab/data/partition.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "fedgrab/core/file.h"
#include "scratch_folder.h"

namespace fedgrab::partition_test {

struct Labelled {
  std::vector<int32_t> labels;
  std::vector<int64_t> samples;  // every other one: a partition must not touch the rest
  int64_t classes;
};

Labelled labelled(int64_t count, int64_t classes) {
  Labelled data{{}, {}, classes};
  for (int64_t i = 0; i < 2 * count; ++i) data.labels.push_back(static_cast<int32_t>(i / 2 % classes));
  for (int64_t i = 0; i < count; ++i) data.samples.push_back(2 * i + 1);
  return data;
}

PartitionParams params(const std::string& kind, int64_t clients, double alpha = 0.5) {
  PartitionParams result;
  result.kind = enum_named<PartitionKind>(kind).value();
  result.clients = clients;
  result.alpha = alpha;
  return result;
}

Partition split(const PartitionParams& p, const Labelled& data, uint64_t seed = 1) {
  return make_partition(p, data.samples, data.labels, data.classes, seed);
}

void expect_covers_once(const Partition& partition, const Labelled& data, size_t clients) {
  ASSERT_EQ(partition.size(), clients);
  std::vector<int64_t> all;
  for (const auto& client : partition) {
    EXPECT_FALSE(client.empty());
    EXPECT_TRUE(std::is_sorted(client.begin(), client.end()));
    all.insert(all.end(), client.begin(), client.end());
  }
  std::sort(all.begin(), all.end());
  EXPECT_EQ(all, data.samples);
}

struct Setting {
  const char* kind;
  int64_t clients;
  double alpha;
  int64_t samples, classes;
};
/// Without it the test's name would be the bytes of the struct.
void PrintTo(const Setting& s, std::ostream* out) { *out << s.kind << " over " << s.clients << " clients"; }
class EveryPartition : public testing::TestWithParam<Setting> {};
INSTANTIATE_TEST_SUITE_P(Settings, EveryPartition,
                         testing::Values(Setting{"dirichlet", 10, 0.5, 1000, 10}, Setting{"iid", 10, 1, 1000, 10},
                                         Setting{"dirichlet", 1, 0.5, 20, 3}, Setting{"iid", 7, 1, 7, 3},
                                         // no Dirichlet draw fills all of these: empty clients are given samples
                                         Setting{"dirichlet", 50, 0.001, 100, 2}, Setting{"dirichlet", 8, 0.01, 8, 8},
                                         Setting{"dirichlet", 10000, 0.5, 50000, 10},
                                         Setting{"dirichlet", 100, 0.5, 40000, 1000},
                                         Setting{"dirichlet", 20, 1e6, 400, 4}));

TEST_P(EveryPartition, GivesEachSampleToOneClientAndNobodyNothing) {
  const auto [kind, clients, alpha, samples, classes] = GetParam();
  const Labelled data = labelled(samples, classes);
  expect_covers_once(split(params(kind, clients, alpha), data), data, static_cast<size_t>(clients));
}

TEST_P(EveryPartition, DependsOnTheSeedAlone) {
  const auto [kind, clients, alpha, samples, classes] = GetParam();
  const Labelled data = labelled(samples, classes);
  const auto p = params(kind, clients, alpha);
  EXPECT_EQ(split(p, data, 5), split(p, data, 5));
  if (clients > 1) {
    EXPECT_NE(split(p, data, 5), split(p, data, 6));
  }
}

/// Mean over the clients of the share their commonest class has among their samples.
double skew(const Partition& partition, const Labelled& data) {
  double sum = 0;
  for (const auto& row : partition_table(partition, data.labels, data.classes))
    sum += static_cast<double>(*std::max_element(row.begin(), row.end())) /
           static_cast<double>(std::accumulate(row.begin(), row.end(), int64_t{0}));
  return sum / static_cast<double>(partition.size());
}

TEST(Dirichlet, AlphaGoesFromSkewedToIid) {
  const Labelled data = labelled(10000, 10);
  const double small = skew(split(params("dirichlet", 10, 0.05), data), data);
  const double middle = skew(split(params("dirichlet", 10, 0.5), data), data);
  const double large = skew(split(params("dirichlet", 10, 1000), data), data);
  EXPECT_GT(small, 0.5);
  EXPECT_GT(small, middle);
  EXPECT_GT(middle, large + 0.05);
  EXPECT_LT(large, 0.14);
}

TEST(Dirichlet, SharesHaveTheVarianceOfAlpha) {
  // One class, many seeds: the share of client 0 has mean 1/N and variance (N-1)/(N²(Nα+1)), plus multinomial noise.
  const Labelled data = labelled(1000, 1);
  constexpr double clients = 4, alpha = 2;
  double sum = 0, squares = 0;
  constexpr int seeds = 2000;
  for (uint64_t seed = 0; seed < seeds; ++seed) {
    const double share = static_cast<double>(split(params("dirichlet", 4, alpha), data, seed)[0].size()) / 1000;
    sum += share;
    squares += share * share;
  }
  const double mean = sum / seeds;
  EXPECT_NEAR(mean, 1 / clients, 0.02);
  const double variance = (clients - 1) / (clients * clients * (clients * alpha + 1));
  EXPECT_NEAR(squares / seeds - mean * mean, variance, 0.12 * variance);
}

TEST(Iid, DealsOutEvenly) {
  const Labelled data = labelled(1003, 10);
  for (const auto& client : split(params("iid", 10), data)) {
    EXPECT_GE(client.size(), 100U);
    EXPECT_LE(client.size(), 101U);
  }
}

TEST(MakePartition, RefusesMoreClientsThanSamples) {
  const Labelled data = labelled(5, 2);
  for (const char* kind : {"dirichlet", "iid"})
    expect_error(Fault::data, [&] { split(params(kind, 6), data); }, {"partition.clients: 6 clients cannot share 5"});
}

/// Clients that draw their samples.
class DrawnByClients : public testing::TestWithParam<const char*> {
 protected:
  static Partition draw(int64_t clients, double alpha, int64_t samples, const Labelled& data, uint64_t seed = 1) {
    PartitionParams p = params(GetParam(), clients, alpha);
    p.samples = samples;
    return split(p, data, seed);
  }
};
INSTANTIATE_TEST_SUITE_P(Kinds, DrawnByClients, testing::Values("iid", "dirichlet"));

TEST_P(DrawnByClients, HaveSamplesOfTheTrainingSetAndNoneTwice) {
  const Labelled data = labelled(50, 5);
  const Partition partition = draw(2000, 10, 4, data);
  ASSERT_EQ(partition.size(), 2000U);  // far more than there are samples
  for (const auto& client : partition) {
    EXPECT_FALSE(client.empty());
    EXPECT_LE(client.size(), 4U);
    EXPECT_TRUE(std::is_sorted(client.begin(), client.end()));
    EXPECT_EQ(std::adjacent_find(client.begin(), client.end()), client.end());
    for (const int64_t sample : client) EXPECT_TRUE(sample % 2 == 1 && sample < 100) << sample;
  }
  EXPECT_EQ(draw(2000, 10, 4, data), partition);
  EXPECT_NE(draw(2000, 10, 4, data, 2), partition);
}

TEST_P(DrawnByClients, HaveTheClassSharesOfAllDataInTheMean) {
  Labelled data{{}, {}, 3};
  for (const auto& [label, count] : {std::pair(0, 800), std::pair(1, 150), std::pair(2, 50)})
    data.labels.insert(data.labels.end(), static_cast<size_t>(count), label);
  for (int64_t i = 0; i < 1000; ++i) data.samples.push_back(i);
  std::vector<double> counts(3);
  const Partition partition = draw(4000, 1, 5, data);
  double all = 0;
  for (const auto& row : partition_table(partition, data.labels, 3))
    for (size_t c = 0; c < 3; ++c) counts[c] += static_cast<double>(row[c]), all += static_cast<double>(row[c]);
  EXPECT_NEAR(counts[0] / all, 0.8, 0.02);
  EXPECT_NEAR(counts[2] / all, 0.05, 0.01);
}

TEST(DrawnByDirichlet, AlphaSaysHowFewClassesAClientHas) {
  const Labelled data = labelled(1000, 10);
  const auto classes_of = [&](double alpha) {
    PartitionParams p = params("dirichlet", 500, alpha);
    p.samples = 10;
    double seen = 0;
    for (const auto& row : partition_table(split(p, data), data.labels, 10))
      seen += static_cast<double>(std::count_if(row.begin(), row.end(), [](int64_t n) { return n > 0; })) / 500;
    return seen;
  };
  EXPECT_LT(classes_of(0.01), 1.6);
  EXPECT_GT(classes_of(100), 5.5);
}

TEST(PartitionTable, CountsClassesOfEachClient) {
  const std::vector<int32_t> labels{0, 1, 2, 1};
  EXPECT_EQ(partition_table({{0, 1, 3}, {2}}, labels, 3), (std::vector<std::vector<int64_t>>{{1, 2, 0}, {0, 0, 1}}));
}

class PartitionFile : public testing::Test {
 protected:
  std::string file() const { return folder_.path("partition.json"); }
  Partition use(const std::string& text) const {
    folder_.write("partition.json", text);
    PartitionParams p = params("file", 99);
    p.file = file();
    return split(p, data_);
  }
  void expect_refused(const std::string& text, const std::string& why) const {
    expect_error(Fault::data, [&] { use(text); }, {file(), why});
  }

  ScratchFolder folder_;
  Labelled data_ = labelled(4, 2);  // samples 1 3 5 7
};

TEST_F(PartitionFile, ReadsWhatWasSaved) {
  const Labelled data = labelled(100, 5);
  const auto made = split(params("dirichlet", 6), data);
  save_partition(file(), made);
  EXPECT_EQ(load_partition(file()), made);
  PartitionParams p = params("file", 99);  // the file decides how many clients there are
  p.file = file();
  EXPECT_EQ(split(p, data), made);
  const std::string text = read_text(file());
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 8) << "one client a line";
}

TEST_F(PartitionFile, MayListSamplesInAnyOrder) {
  EXPECT_EQ(use(R"({"clients": [[7, 1], [3, 5]], "comment": "by hand"})"), (Partition{{1, 7}, {3, 5}}));
}

TEST_F(PartitionFile, MustFitTheSamples) {
  expect_refused(R"({"clients": [[1, 3], [5, 8]]})", "client 1: sample 8 is not");
  expect_refused(R"({"clients": [[1, 3], [2, 5, 7]]})", "client 1: sample 2 is not");
  expect_refused(R"({"clients": [[1, -3], [5, 7]]})", "client 0: sample -3 is not");
  expect_refused(R"({"clients": [[1, 3], [5, 7, 3]]})", "client 1: sample 3 is given twice");
  expect_refused(R"({"clients": [[1, 3, 5, 7], []]})", "client 1 has no sample");
  expect_refused(R"({"clients": [[1, 3]]})", "2 training samples belong to no client");
}

TEST_F(PartitionFile, MustBeAPartition) {
  expect_refused(R"({"clients": [[1, 3], )", "not valid JSON");
  expect_refused("", "not valid JSON");
  expect_refused(R"({"client": []})", "no list of clients");
  expect_refused(R"([[1, 3, 5, 7]])", "no list of clients");
  expect_refused("7", "no list of clients");
  expect_refused(R"({"clients": []})", "no list of clients");
  expect_refused(R"({"clients": [[1, 3], 5]})", "client 1 is not a list");
  expect_refused(R"({"clients": [[1, 3], [5.5, 7]]})", "client 1: 5.5 is not");
  expect_refused(R"({"clients": [[1, "3"]]})", "client 0: \"3\" is not");
  expect_refused(R"({"clients": [[18446744073709551615]]})", "client 0: 18446744073709551615 is not");
  expect_refused(R"({"clients": [[1e999]]})", "out of range");
  expect_refused("{\"clients\": [[\"\xff\"]]}", "not valid JSON");
  expect_refused("{\"clients\": " + std::string(20000, '[') + std::string(20000, ']') + "}", "nested");
}

TEST_F(PartitionFile, MustExistAndBeNamed) {
  PartitionParams p = params("file", 2);
  expect_error(Fault::usage, [&] { split(p, data_); }, {"partition.file"});
  p.file = file();
  expect_error(Fault::data, [&] { split(p, data_); }, {file()});
}

size_t occurrences(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST(PartitionPicture, ShowsTotalsCountsAndNames) {
  const std::string svg = partition_picture({{12, 0}, {5, 3}}, {"cat", "dog"});
  for (const char* part :
       {"<svg ", "</svg>", "20 training samples over 2 clients", ">cat<", ">dog<", ">17<", ">12<", ">5<"})
    EXPECT_NE(svg.find(part), std::string::npos) << part;
  EXPECT_EQ(occurrences(svg, "h1v1h-1z"), 3U) << "one cell for each count above zero";
  EXPECT_EQ(svg.find("sums"), std::string::npos);
}

TEST(PartitionPicture, EscapesNames) {
  const std::string svg = partition_picture({{1, 1}}, {"a<b>&c", "x\x01y"});
  EXPECT_NE(svg.find("a&lt;b&gt;&amp;c"), std::string::npos);
  EXPECT_EQ(svg.find('\x01'), std::string::npos);
}

TEST(PartitionPicture, StaysSmallAndSaysWhatItSums) {
  const std::vector<std::vector<int64_t>> full(100, std::vector<int64_t>(100, 3));
  EXPECT_LT(partition_picture(full, std::vector<std::string>(100, "name")).size(), 300000U);
  const std::vector<std::vector<int64_t>> many(1000, std::vector<int64_t>(500, 1));
  const std::string svg = partition_picture(many, std::vector<std::string>(500, "name"));
  EXPECT_NE(svg.find("each row sums 5 clients"), std::string::npos);
  EXPECT_NE(svg.find("each column sums 3 classes"), std::string::npos);
  EXPECT_NE(svg.find("500000 training samples over 1000 clients"), std::string::npos);
}

TEST(PartitionByUser, GivesEachUserTheirSamples) {
  PartitionParams by_user;
  by_user.kind = PartitionKind::user;
  const std::vector<int64_t> samples{0, 2, 3, 4};
  const std::vector<int32_t> labels(6), users{2, 1, 0, 2, 3, 0};
  EXPECT_EQ(make_partition(by_user, samples, labels, 1, 0, users), (Partition{{2}, {0, 3}, {4}}));
  expect_error(Fault::data, [&] { make_partition(by_user, samples, labels, 1, 0); }, {"partition.kind", "user_id"});
}

}  // namespace fedgrab::partition_test
