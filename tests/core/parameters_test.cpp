#include "fedgrab/core/parameters.h"

#include <gtest/gtest.h>

#include <functional>

#include "fedgrab/core/error.h"

namespace fedgrab::parameters_test {

struct TrainParams {
  double lr = 0.03;
  int64_t epochs = 5;
  bool nesterov = false;
  std::vector<double> steps{0.5, 0.75};
  std::vector<int64_t> sizes;
  std::vector<std::string> tags{"a"};
  std::string note;

  template <class Visitor>
  void describe(Visitor& v) {
    v.param("lr", lr, "learning rate").between(0, 10);
    v.param("epochs", epochs, "local epochs").at_least(1);
    v.param("nesterov", nesterov, "Nesterov momentum");
    v.param("steps", steps, "where the rate drops").between(0, 1);
    v.param("sizes", sizes, "sizes");
    v.param("tags", tags, "tags");
    v.param("note", note, "free text");
  }
};

struct MethodParams {
  std::string name = "fedgrab";
  double mu = 0.01;

  template <class Visitor>
  void describe(Visitor& v) {
    v.param("name", name, "the method").one_of({"fedavg", "fedprox", "fedgrab"});
    v.param("mu", mu, "strength").at_most(1);
  }
};

Config make_config() {
  Schema schema;
  schema.add<TrainParams>("train");
  schema.add<MethodParams>("method");
  return Config(schema);
}

std::string usage_error(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::usage);
    return error.what();
  }
  ADD_FAILURE() << "no error";
  return {};
}

void expect_contains(const std::string& text, std::initializer_list<const char*> parts) {
  for (const char* part : parts) EXPECT_NE(text.find(part), std::string::npos) << part << " is not in: " << text;
}

TEST(Config, StartsFromTheDefaults) {
  const Config config = make_config();
  const auto train = config.read<TrainParams>("train");
  EXPECT_EQ(train.lr, 0.03);
  EXPECT_EQ(train.steps, (std::vector<double>{0.5, 0.75}));
  EXPECT_EQ(config.read<MethodParams>("method").name, "fedgrab");
  EXPECT_FALSE(config.is_set("train.lr"));
}

TEST(Config, WhatIsSetLaterWins) {
  Config config = make_config();
  config.load_toml_text("[train]\nlr = 0.1\nepochs = 2\n", "file");
  config.set_text("train.lr", "0.2");
  const auto train = config.read<TrainParams>("train");
  EXPECT_EQ(train.lr, 0.2);
  EXPECT_EQ(train.epochs, 2);
  EXPECT_TRUE(config.is_set("train.lr"));
  EXPECT_FALSE(config.is_set("method.mu"));
}

TEST(Config, ReadsEveryTypeFromText) {
  Config config = make_config();
  config.set_text("train.lr", "1e-2");
  config.set_text("train.epochs", "7");
  config.set_text("train.nesterov", "yes");
  config.set_text("train.steps", "[0.1, 1]");
  config.set_text("train.sizes", "3,4");
  config.set_text("train.tags", "\"x\", y");
  config.set_text("train.note", "a=b");
  const auto train = config.read<TrainParams>("train");
  EXPECT_EQ(train.lr, 0.01);
  EXPECT_EQ(train.epochs, 7);
  EXPECT_TRUE(train.nesterov);
  EXPECT_EQ(train.steps, (std::vector<double>{0.1, 1.0}));
  EXPECT_EQ(train.sizes, (std::vector<int64_t>{3, 4}));
  EXPECT_EQ(train.tags, (std::vector<std::string>{"x", "y"}));
  EXPECT_EQ(train.note, "a=b");
  config.set_text("train.steps", "[]");
  EXPECT_TRUE(config.read<TrainParams>("train").steps.empty());
}

TEST(Config, AGroupsNameStandsForTheGroup) {
  Config config = make_config();
  config.load_toml_text("method = \"fedavg\"", "file");
  EXPECT_EQ(config.read<MethodParams>("method").name, "fedavg");
  config.set_text("method", "fedprox");
  EXPECT_EQ(std::get<std::string>(config.get("method.name")), "fedprox");
}

TEST(Config, TakesIntegersForNumbersAndScalarsForLists) {
  Config config = make_config();
  config.load_toml_text("[train]\nlr = 1\nsteps = 1\nsizes = 8\ntags = \"a, b\"\n", "file");
  const auto train = config.read<TrainParams>("train");
  EXPECT_EQ(train.lr, 1.0);
  EXPECT_EQ(train.steps, std::vector<double>{1.0});
  EXPECT_EQ(train.sizes, std::vector<int64_t>{8});
  EXPECT_EQ(train.tags, std::vector<std::string>{"a, b"});
}

TEST(Config, AnUnknownKeyNamesTheNearest) {
  Config config = make_config();
  expect_contains(usage_error([&] { config.set_text("train.epocs", "3"); }), {"train.epocs", "train.epochs"});
  expect_contains(usage_error([&] { config.set_text("lr", "3"); }), {"train.lr"});
  expect_contains(usage_error([&] { config.set_text("zzzzzzzz", "3"); }), {"zzzzzzzz", "fedgrab params"});
  expect_contains(usage_error([&] { config.load_toml_text("[trian]\nlr = 1", "my.toml"); }),
                  {"my.toml", "trian.lr", "train.lr"});
}

TEST(Config, KeepsTheListOfAnUnknownKeyAsText) {
  const auto values = make_config().read_toml_text("old.list = [0.1, \"a, b\", [-2]]", "my.toml");
  ASSERT_EQ(values.size(), 1U);
  EXPECT_EQ(values[0].second, Value(std::string("[0.1, \"a, b\", [-2]]")));
}

TEST(Config, RefusesValuesOutOfBounds) {
  Config config = make_config();
  expect_contains(usage_error([&] { config.set_text("train.lr", "11"); }), {"train.lr", "11", "0 to 10"});
  expect_contains(usage_error([&] { config.set_text("train.lr", "nan"); }), {"train.lr", "nan"});
  expect_contains(usage_error([&] { config.set_text("train.epochs", "0"); }), {"train.epochs", "at least 1"});
  expect_contains(usage_error([&] { config.set_text("method.mu", "2"); }), {"method.mu", "at most 1"});
  expect_contains(usage_error([&] { config.set_text("train.steps", "0.5,1.5"); }), {"train.steps", "1.5"});
  expect_contains(usage_error([&] { config.set_text("method", "fedavgg"); }),
                  {"method.name", "fedavgg", "did you mean \"fedavg\"", "fedprox"});
  EXPECT_EQ(config.read<TrainParams>("train").lr, 0.03);
}

TEST(Config, RefusesAnIntegerThatIsNoChoice) {
  Parameter parameter{"data.channels", Value(int64_t{0}), "channels"};
  parameter.one_of({"0", "1", "3"});
  EXPECT_NO_THROW(parameter.check(Value(int64_t{3})));
  const std::string text = usage_error([&] { parameter.check(Value(int64_t{2})); });
  EXPECT_NE(text.find("one of 0, 1, 3"), std::string::npos) << text;
  EXPECT_EQ(text.find("did you mean"), std::string::npos) << text;
}

TEST(Config, RefusesTheWrongType) {
  Config config = make_config();
  expect_contains(usage_error([&] { config.set_text("train.epochs", "2.5"); }), {"train.epochs", "2.5", "integer"});
  expect_contains(usage_error([&] { config.set_text("train.lr", "fast"); }), {"train.lr", "fast", "number"});
  expect_contains(usage_error([&] { config.set_text("train.nesterov", "maybe"); }), {"true or false"});
  expect_contains(usage_error([&] { config.set_text("train.sizes", "1,x"); }), {"train.sizes", "list of integers"});
  for (const char* line :
       {"lr = true", "lr = \"0.1\"", "epochs = 2.0", "epochs = [1, 2]", "epochs = [2.0]", "epochs = []", "nesterov = 1",
        "note = 3", "steps = [true]", "sizes = [1.0]", "sizes = true", "tags = [1]"}) {
    SCOPED_TRACE(line);
    expect_contains(usage_error([&] { config.load_toml_text(std::string("[train]\n") + line, "my.toml"); }),
                    {"my.toml", "train.", "expected"});
  }
}

TEST(Config, TakesAListOfOneForItsValueAndAValueForAListOfOne) {  // a parameter may have changed from one to the other
  Config config = make_config();
  config.load_toml_text("[train]\nepochs = [3]\nsizes = 4", "my.toml");
  EXPECT_EQ(std::get<int64_t>(config.get("train.epochs")), 3);
  EXPECT_EQ(std::get<std::vector<int64_t>>(config.get("train.sizes")), std::vector<int64_t>{4});
}

TEST(Config, PointsAtTheLineOfBadToml) {
  Config config = make_config();
  expect_contains(usage_error([&] { config.load_toml_text("[train]\nlr = \n", "my.toml"); }), {"my.toml:2"});
}

TEST(Config, SurvivesTheRoundTripThroughToml) {
  Config config = make_config();
  config.set("train.lr", 0.1 + 0.2 - 0.2);
  config.set("train.steps", std::vector<double>{1.0 / 3, 1.0, 1e-300});
  config.set("train.sizes", std::vector<int64_t>{-1, INT64_MAX});
  config.set("train.tags", std::vector<std::string>{"", "a,b", "\"quoted\"", "back\\slash"});
  config.set("train.note", std::string("tab\tline\nbell\a delete\x7f ümlaut 'x'"));
  config.set("method", std::string("fedprox"));
  Config copy = make_config();
  copy.load_toml_text(config.to_toml(), "copy");
  for (const auto& parameter : config.schema().all())
    EXPECT_EQ(copy.get(parameter.key), config.get(parameter.key)) << config.to_toml();
}

TEST(Config, TheCommentedFileChangesNothing) {
  const std::string text = make_config().to_toml(true);
  expect_contains(text, {"[train]", "# learning rate (0 to 10)\n# lr = 0.03", "# name = \"fedgrab\""});
  Config config = make_config();
  config.load_toml_text(text, "template");
  EXPECT_FALSE(config.is_set("train.lr"));
}

TEST(EditDistance, CountsSwapsOfNeighboursOnce) {
  EXPECT_EQ(edit_distance("", "abc"), 3U);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3U);
  EXPECT_EQ(edit_distance("trian", "train"), 1U);
  EXPECT_EQ(edit_distance("same", "same"), 0U);
}

TEST(Nearest, IsEmptyWhenNothingIsNear) {
  EXPECT_EQ(nearest("fedavgg", {"fedprox", "fedavg"}), "fedavg");
  EXPECT_EQ(nearest("resnet", {"fedprox", "fedavg"}), "");
}

TEST(ErrorText, StaysOnOneLine) {
  const Error error(Fault::data, "file", "first\nsecond", "do\r\nthis");
  EXPECT_STREQ(error.what(), "file: first second (do  this)");
  EXPECT_EQ(error.exit_code(), 3);
}

}  // namespace fedgrab::parameters_test
