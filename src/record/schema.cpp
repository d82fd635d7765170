#include "fedgrab/record/schema.h"

#include <cmath>

#include "fedgrab/core/version.h"
#include "fedgrab/record/json_integer.h"

namespace fedgrab {
namespace {

Json optional(const std::optional<double>& value) { return value ? Json(*value) : Json(nullptr); }

/// JSON has no infinity.
Json epsilon_json(double epsilon) { return std::isinf(epsilon) ? Json(nullptr) : Json(epsilon); }

int64_t integer_or_zero(const Json& json, const char* key) {
  return json.contains(key) ? integer_from_json(json[key]) : 0;
}

std::optional<double> optional_number(const Json& json, const char* key) {
  const auto found = json.find(key);
  return found == json.end() || found->is_null() ? std::nullopt : std::optional(found->get<double>());
}

Accuracy accuracy_from_json(const Json& json) {
  Accuracy a;
  a.all = json.at("all");
  a.many = optional_number(json, "many");
  a.med = optional_number(json, "med");
  a.few = optional_number(json, "few");
  a.per_class = json.value("per_class", std::vector<double>{});
  a.f1 = json.value("f1", 0.0);
  return a;
}

Json to_json(const Groups& groups) {
  Json json{{"many", groups.many}, {"med", groups.med}, {"few", groups.few}};
  if (groups.thirds) json["thirds"] = true;
  return json;
}

/// In a summary, where they have no line of their own.
Json with_measures(const Accuracy& accuracy) {
  Json json = to_json(accuracy);
  if (!accuracy.measures.empty()) json["measures"] = to_json(accuracy.measures);
  return json;
}

}  // namespace

Json to_json(const Population& p) {
  Json json{{"class_names", p.class_names}, {"class_counts", p.class_counts}, {"groups", to_json(p.groups)}};
  Json& clients = json["clients"] = Json::array();
  for (const auto& client : p.clients) {
    Json& pairs = clients.emplace_back(Json::array());
    for (const auto& [label, count] : client) pairs.push_back({label, count});
  }
  return json;
}

Population population_from_json(const Json& json) {
  const Json& groups = json.at("groups");
  Population p;
  p.class_names = json.at("class_names");
  p.class_counts = integers_from_json(json.at("class_counts"));
  p.groups.many = integers_from_json(groups.at("many"));
  p.groups.med = integers_from_json(groups.at("med"));
  p.groups.few = integers_from_json(groups.at("few"));
  p.groups.thirds = groups.value("thirds", false);
  for (const Json& client : json.value("clients", Json::array())) {
    auto& counts = p.clients.emplace_back();
    for (const Json& pair : client) counts[integer_from_json(pair.at(0))] = integer_from_json(pair.at(1));
  }
  return p;
}

Json to_json(const Accuracy& a) {
  Json json{{"all", a.all}, {"many", optional(a.many)}, {"med", optional(a.med)}, {"few", optional(a.few)}};
  if (!a.per_class.empty()) json["per_class"] = a.per_class;
  json["f1"] = a.f1;
  return json;
}

std::optional<double> value_of(const Accuracy& accuracy, Measure measure) {
  if (measure == Measure::accuracy) return accuracy.all;
  if (measure == Measure::macro_f1) return accuracy.f1;
  const auto found = accuracy.measures.find(measure);
  return found == accuracy.measures.end() ? std::nullopt : std::optional(found->second);
}

Json to_json(const RoundRecord& r) {
  Json json{{"round", r.round}};
  if (r.accuracy) {
    json["acc"] = to_json(*r.accuracy);
    json["f1"] = r.accuracy->f1;
    if (!r.accuracy->measures.empty()) json["measures"] = to_json(r.accuracy->measures);
  }
  if (r.validation) {
    json["validation"] = to_json(*r.validation);
    if (!r.validation->measures.empty()) json["validation_measures"] = to_json(r.validation->measures);
  }
  json["loss"] = r.loss;
  if (r.test_loss) json["test_loss"] = *r.test_loss;
  json["lr"] = r.lr;
  json["clients"] = r.clients;
  json["steps"] = r.steps;
  json["samples"] = r.samples;
  json["bytes_up"] = r.bytes_up;
  json["bytes_down"] = r.bytes_down;
  if (const auto delta = r.diagnostics.find("delta"); delta != r.diagnostics.end())
    json["delta"] = {{"mean", delta->second.mean}, {"std", delta->second.std}};
  if (r.diagnostics.contains("beta_pos"))
    json["beta"] = {{"pos", r.diagnostics.at("beta_pos").mean},
                    {"neg", r.diagnostics.at("beta_neg").mean},
                    {"pos_std", r.diagnostics.at("beta_pos").std},
                    {"neg_std", r.diagnostics.at("beta_neg").std}};
  if (r.prior) json["prior"] = {{"p", r.prior->p}, {"l2", r.prior->l2}, {"tail_hit", r.prior->tail_hit}};
  if (!r.client_accuracy.empty()) json["client_acc"] = r.client_accuracy;
  if (r.personal) json["personal"] = *r.personal;
  if (r.epsilon) json["epsilon"] = epsilon_json(*r.epsilon);
  json["seconds"] = r.seconds;
  for (const auto& [phase, seconds] : r.phase_seconds) json["phase_seconds"][phase] = seconds;
  return json;
}

RoundRecord round_from_json(const Json& json) {
  RoundRecord r;
  r.round = integer_from_json(json.at("round"));
  if (json.contains("acc")) r.accuracy = accuracy_from_json(json["acc"]);
  if (r.accuracy && json.contains("measures")) r.accuracy->measures = measures_from_json(json["measures"]);
  if (json.contains("validation")) r.validation = accuracy_from_json(json["validation"]);
  if (r.validation && json.contains("validation_measures"))
    r.validation->measures = measures_from_json(json["validation_measures"]);
  r.loss = json.value("loss", 0.0);
  r.test_loss = optional_number(json, "test_loss");
  r.lr = json.value("lr", 0.0);
  r.clients = integer_or_zero(json, "clients");
  r.steps = integer_or_zero(json, "steps");
  r.samples = integer_or_zero(json, "samples");
  r.bytes_up = integer_or_zero(json, "bytes_up");
  r.bytes_down = integer_or_zero(json, "bytes_down");
  if (json.contains("delta")) r.diagnostics["delta"] = {json["delta"].at("mean"), json["delta"].at("std")};
  if (json.contains("beta")) {  // the deviations are an addition; the contract has the means alone
    const Json& beta = json["beta"];
    r.diagnostics["beta_pos"] = {beta.at("pos"), beta.value("pos_std", std::vector<double>{})};
    r.diagnostics["beta_neg"] = {beta.at("neg"), beta.value("neg_std", std::vector<double>{})};
  }
  if (json.contains("prior")) {
    const Json& prior = json["prior"];
    r.prior = PriorRecord{prior.at("p"), prior.at("l2"), prior.at("tail_hit")};
  }
  r.client_accuracy = json.value("client_acc", r.client_accuracy);
  if (json.contains("personal") && json["personal"].is_number()) r.personal = json["personal"].get<double>();
  if (json.contains("epsilon"))
    r.epsilon = optional_number(json, "epsilon").value_or(std::numeric_limits<double>::infinity());
  r.seconds = json.value("seconds", 0.0);
  r.phase_seconds = json.value("phase_seconds", r.phase_seconds);
  return r;
}

Json to_json(const PosthocRecord& record) {
  Json json{{"kind", record.kind}};
  if (!record.fitted_on.empty()) json["fitted_on"] = record.fitted_on;
  for (const auto& [name, values] : record.numbers)
    json[name] = values.size() == 1 ? Json(values.front()) : Json(values);
  return json;
}

Json to_json(const PrivacyRecord& p) {
  return {{"epsilon", epsilon_json(p.epsilon)},
          {"delta", p.delta},
          {"clip", p.clip},
          {"noise", p.noise},
          {"clients", p.clients},
          {"per_round", p.per_round},
          {"sampling", "fixed"},
          {"neighbours", "replace one client"},
          {"simulated", true}};
}

Json to_json(const Summary& s) {
  Json json{{"rounds", s.rounds}, {"last", with_measures(s.last)}, {"mean_last_10", with_measures(s.mean_last_10)}};
  json["mean_last_10"]["evaluations"] = s.averaged;
  json["best"] = with_measures(s.best);
  json["best"]["round"] = s.best_round;
  json["best"]["chosen_on"] = s.best_by_validation ? "validation" : "test set";
  json["best"]["criterion"] = s.criterion;
  json["few_reached_0.55"] = s.few_round ? Json(*s.few_round) : Json(nullptr);
  json["groups"] = to_json(s.groups);
  json["class_names"] = s.class_names;
  json["class_counts"] = s.class_counts;
  json["posthoc"] = to_json(s.posthoc);
  if (s.privacy) json["privacy"] = to_json(*s.privacy);
  if (!s.confusion.empty()) json["confusion"] = s.confusion;
  if (s.last_measures) json["measures"]["last"] = to_json(*s.last_measures);
  if (s.best_measures) json["measures"]["best"] = to_json(*s.best_measures);
  json["seconds"] = s.seconds;
  json["peak_memory_bytes"] = s.peak_memory_bytes;
  json["version"] = version();
  json["revision"] = revision();
  return json;
}

}  // namespace fedgrab
