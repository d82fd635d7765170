#include "fedgrab/method/moved_parameters.h"

#include <algorithm>
#include <functional>
#include <map>

namespace fedgrab {
namespace {

using Values = std::vector<std::pair<std::string, std::string>>;
using Choices = std::map<std::string, Values>;
using Presets = std::vector<std::string>;

struct Moved {
  Presets presets{};       // it belongs to; empty: any
  std::string name{};      // today's name; empty: by value
  Choices choices{};       // by value
  std::string fallback{};  // removed parameters: the default of version 0.1
};
using Table = std::map<std::string, Moved>;

void add_fedgrab(Table& table) {
  const Presets family{"fedgrab", "fedgrab-published", "fedgrab-paper"};
  const std::string prefix = "method.fedgrab.";
  Choices head;
  head["frozen"] = Values{{"head.frozen", "true"}, {"head.init", "etf"}};  // as head_init = auto meant
  head["frozen-mean"] = Values{{"head.frozen", "true"}, {"head.init", "client-mean"}};
  head["trained"] = Values{{"head.frozen", "false"}, {"head.init", "random"}};
  table[prefix + "head"] = {family, "", head};
  Choices init;
  init["auto"] = Values{};
  init["random"] = Values{{"head.init", "random"}};
  init["etf"] = Values{{"head.init", "etf"}};
  table[prefix + "head_init"] = {family, "", init};
  Choices prior;
  prior["probe"] = Values{{"prior.source", "dpa"}, {"prior.dpa.head", "auxiliary"}};
  prior["head"] = Values{{"prior.source", "dpa"}, {"prior.dpa.head", "classifier"}};
  prior["fixed"] = Values{{"prior.source", "fixed"}};
  prior["published"] = Values{{"prior.source", "fixed"}, {"objective.sgb.gate", "stalled"}};
  prior["local"] = Values{{"prior.source", "none"}, {"objective.sgb.gate", "local"}};
  prior["none"] = Values{{"prior.source", "none"}, {"objective.sgb.gate", "off"}};
  table[prefix + "prior"] = {family, "", prior};
  Choices weights;
  weights["true"] = Values{{"server.weights", "shuffled"}};
  weights["false"] = Values{};
  table[prefix + "shuffled_weights"] = {family, "", weights};
  const Values renamed{{"head_scale", "head.norm"},
                       {"prior_scale", "prior.scale"},
                       {"span_min", "prior.span_min"},
                       {"probe_keep", "prior.dpa.decay"},
                       {"fixed_prior", "prior.fixed"}};
  for (const auto& [name, now] : renamed) table[prefix + name] = {family, now};
  const Values removed{{"head_bias", "[]"},
                       {"head_kind", "linear"},
                       {"head_gradient", "balanced"},
                       {"warmup_rounds", "0"},
                       {"shift", "-1"}};
  for (const auto& [name, fallback] : removed) table[prefix + name] = {family, "", {}, fallback};
}

Table make_table() {
  Table table;
  const auto rename = [&](const std::string& method, const Values& names) {
    for (const auto& [name, now] : names) table["method." + method + "." + name] = {{method}, now};
  };
  rename("fedprox", {{"mu", "client.prox.mu"}});
  rename("feddyn", {{"alpha", "client.dyn.alpha"}});
  rename("moon", {{"mu", "client.moon.mu"}, {"tau", "client.moon.tau"}});
  rename("fedavgm", {{"lr", "server.lr"}, {"beta", "server.beta1"}});
  for (const char* method : {"fedadagrad", "fedadam", "fedyogi"})
    rename(method, {{"lr", "server.lr"}, {"beta1", "server.beta1"}, {"beta2", "server.beta2"}, {"tau", "server.tau"}});
  rename("tau-norm", {{"tau", "posthoc.tau-norm.tau"}, {"drop_bias", "posthoc.tau-norm.drop_bias"}});
  rename("fedetf", {{"scale", "head.scale"}});
  rename("fedloge", {{"sparsity", "head.sparsity"},
                     {"length", "head.norm"},
                     {"steps", "head.steps"},
                     {"aligned", "posthoc.aligned.norm"}});
  for (const char* name : {"features", "match_steps", "feature_lr", "retrain_epochs", "retrain_batch", "net_lr"})
    table[std::string("method.creff.") + name] = {{"creff"}, std::string("posthoc.creff.") + name};
  add_fedgrab(table);
  table["method.dpa-shift.shift"] = {{"dpa-shift"}, "", {}, "-1"};
  table["objective.sgb.hold"].name = "objective.sgb.conditional_integration";
  table["objective.sgb.mount_tail"].fallback = "0";
  table["objective.sgb.reset"].fallback = "false";
  // These keys are still there, but not these values.
  table["objective.name"].choices["auto"] = Values{};
  table["prior.source"].choices["local"] = Values{{"objective.class_sizes", "local"}};
  table["prior.source"].choices["truth"] = Values{{"prior.source", "counts"}, {"objective.class_sizes", "prior"}};
  return table;
}

const Moved* find_moved(const std::string& key, const std::string& value) {
  static const Table table = make_table();
  const auto found = table.find(key);
  if (found == table.end()) return nullptr;
  const bool kept_key = key == "objective.name" || key == "prior.source";
  return kept_key && !found->second.choices.contains(value) ? nullptr : &found->second;
}

}  // namespace

bool is_moved(const std::string& key, const std::string& value) { return find_moved(key, value) != nullptr; }

MovedValue translate_moved(const std::string& key, const std::string& value, const std::string& preset) {
  const Moved& moved = *find_moved(key, value);
  const auto& owners = moved.presets;
  if (!owners.empty() && std::find(owners.begin(), owners.end(), preset) == owners.end()) return {.applies = false};
  if (!moved.name.empty()) return {.now = {{moved.name, value}}};
  if (const auto found = moved.choices.find(value); found != moved.choices.end()) return {.now = found->second};
  return {.removed = value != moved.fallback};
}

}  // namespace fedgrab
