#include "fedgrab/method/moved_parameters.h"

#include <gtest/gtest.h>

#include <array>

#include "tests/method/tiny.h"

namespace fedgrab::moved_parameters_test {

/// Today's values of a parameter of version 0.1.
Values now(const std::string& key, const std::string& value, const std::string& preset) {
  EXPECT_TRUE(is_moved(key, value)) << key;
  const auto moved = translate_moved(key, value, preset);
  EXPECT_TRUE(moved.applies && !moved.removed) << key;
  return moved.now;
}

TEST(MovedParameters, OfAMethodHaveNamesOfParts) {
  const std::vector<std::array<std::string, 3>> renamed{
      {"fedprox", "mu", "client.prox.mu"},
      {"feddyn", "alpha", "client.dyn.alpha"},
      {"moon", "mu", "client.moon.mu"},
      {"moon", "tau", "client.moon.tau"},
      {"fedavgm", "lr", "server.lr"},
      {"fedavgm", "beta", "server.beta1"},
      {"fedadam", "beta1", "server.beta1"},
      {"fedyogi", "beta2", "server.beta2"},
      {"fedadagrad", "tau", "server.tau"},
      {"tau-norm", "tau", "posthoc.tau-norm.tau"},
      {"tau-norm", "drop_bias", "posthoc.tau-norm.drop_bias"},
      {"fedetf", "scale", "head.scale"},
      {"fedloge", "sparsity", "head.sparsity"},
      {"fedloge", "length", "head.norm"},
      {"fedloge", "steps", "head.steps"},
      {"fedloge", "aligned", "posthoc.aligned.norm"},
      {"creff", "features", "posthoc.creff.features"},
      {"creff", "net_lr", "posthoc.creff.net_lr"},
      {"fedgrab", "head_scale", "head.norm"},
      {"fedgrab", "prior_scale", "prior.scale"},
      {"fedgrab", "span_min", "prior.span_min"},
      {"fedgrab", "probe_keep", "prior.dpa.decay"},
      {"fedgrab", "fixed_prior", "prior.fixed"},
  };
  const Config config = config_of("fedavg");
  for (const auto& [method, name, key] : renamed) {
    EXPECT_EQ(now("method." + method + "." + name, "0.5", method), (Values{{key, "0.5"}}));
    EXPECT_TRUE(config.schema().contains(key)) << key;
  }
  EXPECT_EQ(now("objective.sgb.hold", "false", "fedavg"), (Values{{"objective.sgb.conditional_integration", "false"}}));
}

TEST(MovedParameters, OfFedGrabAreValuesOfSeveralParts) {
  using V = Values;
  const auto fedgrab = [](const std::string& name, const std::string& value) {
    return now("method.fedgrab." + name, value, "fedgrab");
  };
  EXPECT_EQ(fedgrab("head", "frozen"), (V{{"head.frozen", "true"}, {"head.init", "etf"}}));
  EXPECT_EQ(fedgrab("head", "frozen-mean"), (V{{"head.frozen", "true"}, {"head.init", "client-mean"}}));
  EXPECT_EQ(fedgrab("head", "trained"), (V{{"head.frozen", "false"}, {"head.init", "random"}}));
  EXPECT_EQ(fedgrab("head_init", "etf"), (V{{"head.init", "etf"}}));
  EXPECT_EQ(fedgrab("prior", "probe"), (V{{"prior.source", "dpa"}, {"prior.dpa.head", "auxiliary"}}));
  EXPECT_EQ(fedgrab("prior", "head"), (V{{"prior.source", "dpa"}, {"prior.dpa.head", "classifier"}}));
  EXPECT_EQ(fedgrab("prior", "published"), (V{{"prior.source", "fixed"}, {"objective.sgb.gate", "stalled"}}));
  EXPECT_EQ(fedgrab("prior", "local"), (V{{"prior.source", "none"}, {"objective.sgb.gate", "local"}}));
  EXPECT_EQ(fedgrab("prior", "none"), (V{{"prior.source", "none"}, {"objective.sgb.gate", "off"}}));
  EXPECT_EQ(fedgrab("shuffled_weights", "true"), (V{{"server.weights", "shuffled"}}));
  EXPECT_EQ(fedgrab("shuffled_weights", "false"), V{});
  // All of them are values that the parts take.
  for (const auto& [name, value] : V{{"head", "frozen"},
                                     {"head", "frozen-mean"},
                                     {"head", "trained"},
                                     {"prior", "probe"},
                                     {"prior", "head"},
                                     {"prior", "fixed"},
                                     {"prior", "published"},
                                     {"prior", "local"},
                                     {"prior", "none"}})
    EXPECT_NO_THROW(compose("fedgrab", fedgrab(name, value)).model(tiny_architecture(4), 3)) << name << " " << value;
}

TEST(MovedParameters, OfAnotherMethodHaveNoEffect) {
  // A resolved config.toml of version 0.1 has every key of every method, and four of them would be server.lr.
  for (const char* key : {"method.fedadam.lr", "method.fedgrab.head", "method.fedprox.mu", "method.fedetf.scale"}) {
    const auto moved = translate_moved(key, "0.1", "fedavgm");
    EXPECT_FALSE(moved.applies) << key;
    EXPECT_TRUE(moved.now.empty()) << key;
  }
  for (const char* preset : {"fedgrab-published", "fedgrab-paper"})
    EXPECT_TRUE(translate_moved("method.fedgrab.head", "frozen", preset).applies) << preset;
}

TEST(MovedParameters, ThatWereRemovedSaySoUnlessTheyHadTheirDefault) {
  for (const auto& [name, fallback, other] :
       std::vector<std::array<std::string, 3>>{{"warmup_rounds", "0", "5"},
                                               {"head_gradient", "balanced", "plain"},
                                               {"head_kind", "linear", "cosine"},
                                               {"head_bias", "[]", "[-3.0]"},
                                               {"shift", "-1", "0.4"}}) {
    const std::string key = "method.fedgrab." + name;
    EXPECT_FALSE(translate_moved(key, fallback, "fedgrab").removed) << key;
    EXPECT_TRUE(translate_moved(key, other, "fedgrab").removed) << key;
    EXPECT_TRUE(translate_moved(key, other, "fedgrab").now.empty()) << key;
  }
  EXPECT_TRUE(translate_moved("method.fedgrab.head", "follow", "fedgrab").removed);
  EXPECT_TRUE(translate_moved("method.dpa-shift.shift", "2", "dpa-shift").removed);
  EXPECT_TRUE(translate_moved("objective.sgb.reset", "true", "fedavg").removed);
  EXPECT_FALSE(translate_moved("objective.sgb.reset", "false", "fedavg").removed);
}

TEST(MovedParameters, KeepTheirKeyWhereOnlyAValueIsGone) {
  EXPECT_FALSE(is_moved("objective.name", "softmax"));
  EXPECT_EQ(now("objective.name", "auto", "fedavg"), Values{});
  EXPECT_FALSE(is_moved("prior.source", "dpa"));
  EXPECT_EQ(now("prior.source", "local", "fedavg"), (Values{{"objective.class_sizes", "local"}}));
  EXPECT_EQ(now("prior.source", "truth", "fedavg"),
            (Values{{"prior.source", "counts"}, {"objective.class_sizes", "prior"}}));
}

TEST(MovedParameters, AreNoParametersOfToday) {
  for (const char* key : {"train.lr", "server.lr", "prior.scale", "objective.sgb.kp", "method.name"})
    EXPECT_FALSE(is_moved(key, "0")) << key;
}

}  // namespace fedgrab::moved_parameters_test
