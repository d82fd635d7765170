#include "fedgrab/method/composition.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <atomic>
#include <numeric>

#include "fedgrab/core/error.h"
#include "fedgrab/data/partition.h"
#include "fedgrab/objective/balancer_params.h"
#include "head/classifier_head.h"
#include "local_loss.h"
#include "posthoc/fitting.h"
#include "posthoc/temperature.h"
#include "server/privacy.h"

namespace fedgrab {
namespace {

std::atomic<uint64_t> last_id{0};
// Names in the server's state.
const std::string average = "ema";  // of the global model
const std::string temperature = "posthoc.temperature";

/// The part that the configuration names under `key`.
template <class Made>
std::unique_ptr<Made> make_part(const std::vector<Choice<Made>>& choices, const Config& config,
                                const std::string& key) {
  const auto name = std::get<std::string>(config.get(key));
  return find_in(choices, key, name, fmt::format("one of {}", fmt::join(names_in(choices), ", "))).make(config);
}

void merge(Needs& all, const Needs& one) {
  for (const auto& head : one.auxiliary)
    if (std::none_of(all.auxiliary.begin(), all.auxiliary.end(), [&](const Head& h) { return h.name == head.name; }))
      all.auxiliary.push_back(head);
  all.broadcast_bytes += one.broadcast_bytes;
  all.broadcast_models += one.broadcast_models;
  all.own_start = std::max(all.own_start, one.own_start);
  all.global_counts |= one.global_counts;
  all.features |= one.features;
  all.logits |= one.logits;
  all.linear_head |= one.linear_head;
  all.plain_head |= one.plain_head;
  if (all.hard_labels.empty()) all.hard_labels = one.hard_labels;
  all.prior |= one.prior;
  all.payloads |= one.payloads;
  all.moves_target |= one.moves_target;
}

/// Weights of the clients in the average.
std::vector<double> client_weights(ClientWeights rule, uint64_t seed, int64_t round,
                                   const std::vector<int64_t>& sizes) {
  const auto total = static_cast<double>(std::accumulate(sizes.begin(), sizes.end(), int64_t{0}));
  std::vector<double> weights;
  if (rule == ClientWeights::uniform) {
    weights.assign(sizes.size(), 1.0 / static_cast<double>(sizes.size()));
  } else if (rule == ClientWeights::shuffled) {
    const auto order = permutation(static_cast<int64_t>(sizes.size()),
                                   Random(seed, Purpose::averaging, 0, static_cast<uint32_t>(round)));
    for (const int64_t other : order) weights.push_back(static_cast<double>(sizes[static_cast<size_t>(other)]) / total);
  } else {
    for (const int64_t size : sizes) weights.push_back(static_cast<double>(size) / total);
  }
  return weights;
}

/// Without auxiliary heads and what does not travel. The first averages are shorter, or they would keep the random
/// start.
void update_average(TensorMap& server, const State& model, double decay, int64_t round) {
  auto& mean = server.try_emplace(average, model.flat.clone()).first->second;
  const auto seen = static_cast<double>(round);
  mean.lerp_(model.flat, 1 - std::min(decay, seen / (seen + 9)));
}

}  // namespace

Composition::Composition(const Config& config)
    : server_(config.read<ServerParams>("server")),
      prior_(make_part(class_priors(), config, "prior.source")),
      loss_(std::make_unique<LocalLoss>(config, prior_.get())),
      head_(std::make_unique<ClassifierHead>(config.read<HeadParams>("head"), loss_->objective().head())),
      client_(make_part(client_algorithms(), config, "client.algorithm")),
      aggregator_(make_part(aggregators(), config, "server.aggregator")),
      optimizer_(make_part(server_optimizers(), config, "server.optimizer")),
      posthoc_params_(config.read<PosthocParams>("posthoc")),
      posthoc_(make_part(posthoc_classifiers(), config, "posthoc.kind")),
      auxiliary_loss_(make_objective("softmax", config)),
      id_(++last_id) {
  central_ = config.schema().contains("partition.kind") &&
             config.read<PartitionParams>("partition").kind == PartitionKind::central;
  for (const Part* part : parts()) merge(needs_, part->needs({}, 0));  // network and classes are not known yet
  check(config);
}

Composition::Composition(Composition&&) noexcept = default;
Composition& Composition::operator=(Composition&&) noexcept = default;
Composition::~Composition() = default;

std::vector<const Part*> Composition::parts() const {
  std::vector<const Part*> all{client_.get(), aggregator_.get(), loss_.get(),
                               head_.get(),   prior_.get(),      posthoc_.get()};
  std::erase(all, nullptr);
  return all;
}

void Composition::check(const Config& config) const {
  const auto text = [&](const char* key) { return std::get<std::string>(config.get(key)); };
  const auto refuse = [](const std::string& key, const std::string& why, const std::string& hint) {
    throw Error(Fault::usage, key, why, hint);
  };
  const char* asks = loss_->objective().head().kind == HeadKind::cosine ? "objective.name" : "head.kind";
  if (needs_.linear_head && head_->head().kind != HeadKind::linear)
    refuse("posthoc.kind",
           fmt::format("\"{}\" changes a linear classifier, and {} = \"{}\" has a cosine head", text("posthoc.kind"),
                       asks, text(asks)),
           fmt::format("choose another {}, or posthoc.kind=none", asks));
  if (needs_.plain_head && head_->head().projected)
    refuse(
        "posthoc.kind",
        fmt::format("\"{}\" trains a classifier on the features, which head.projected changes", text("posthoc.kind")),
        "set head.projected=false, or posthoc.kind=none");
  for (const std::string mixing : {"train.mixup", "train.cutmix"})
    if (!needs_.hard_labels.empty() && config.schema().contains(mixing) && std::get<double>(config.get(mixing)) > 0)
      refuse(mixing, "an image has two labels, and " + needs_.hard_labels,
             fmt::format("set {}=0; softmax, sigmoid, balanced-softmax and fedlc take two labels", mixing));
  if (needs_.prior && prior_ == nullptr)
    refuse("posthoc.kind", fmt::format("\"{}\" needs an estimate of the class prior", text("posthoc.kind")),
           "set prior.source, such as dpa");
  if (needs_.moves_target && (optimizer_ != nullptr || text("server.aggregator") != aggregators().front().name))
    refuse("client.algorithm",
           fmt::format("\"{}\" corrects the mean of the clients' models itself", text("client.algorithm")),
           "use it with server.aggregator=average and server.optimizer=none");
  check_privacy(config);
}

/// Clipping bounds what one client can change, if the mean of the models is all that the clients have a part in.
void Composition::check_privacy(const Config& config) const {
  const auto text = [&](const char* key) { return std::get<std::string>(config.get(key)); };
  const auto refuse = [](const std::string& key, const std::string& why, const std::string& hint) {
    throw Error(Fault::usage, key, why, hint);
  };
  if (server_.clip == 0 && server_.noise > 0)
    refuse("server.noise", "protects a client only if its update is bounded", "set server.clip, such as 1");
  if (server_.clip == 0) return;
  if (server_.weights != ClientWeights::uniform)
    refuse("server.clip", "bounds the weight of a client in the mean, which server.weights would change",
           "set server.weights=uniform");
  const std::pair<const char*, const Part*> named[] = {
      {"client.algorithm", client_.get()}, {"server.aggregator", aggregator_.get()},
      {"objective.reweight", loss_.get()}, {"head.init", head_.get()},
      {"prior.source", prior_.get()},      {"posthoc.kind", posthoc_.get()}};
  for (const auto& [key, part] : named) {
    if (part == nullptr) continue;
    const Needs needs = part->needs({}, 0);
    if (needs.payloads || needs.global_counts)
      refuse(key,
             fmt::format("\"{}\" needs {} of a client, and server.clip bounds its model alone", text(key),
                         needs.global_counts ? "the class counts" : "more than the model"),
             "choose another, or set server.clip=0");
  }
  if (server_.noise > 0 && fitted() && !fits_on_validation(config))
    refuse("posthoc.kind",
           fmt::format("\"{}\" is fitted on the clients' training images, which the noise does not protect",
                       text("posthoc.kind")),
           "set longtail.validation or data.validation, or posthoc.kind=none");
}

bool Composition::fits_on_validation(const Config& config) const {
  if (posthoc_params_.fit_on != FitImages::automatic) return posthoc_params_.fit_on == FitImages::validation;
  const auto set = [&](const char* key) {
    if (!config.schema().contains(key)) return false;
    const Value& value = config.get(key);
    return std::holds_alternative<double>(value) ? std::get<double>(value) > 0 : std::get<int64_t>(value) > 0;
  };
  return set("data.validation") || set("longtail.validation");
}

std::shared_ptr<const Model> Composition::model(Architecture architecture, int64_t classes) {
  needs_ = {};
  for (const Part* part : parts()) merge(needs_, part->needs(architecture, classes));
  std::vector<Head> heads{head_->head()};
  heads.insert(heads.end(), needs_.auxiliary.begin(), needs_.auxiliary.end());
  return make_model(std::move(architecture), std::move(heads), classes);
}

void Composition::initialise(State& global, uint64_t seed) const {
  for (const Part* part : parts()) part->initialise(global, seed);
}

RoundContext Composition::begin_round(int64_t round, uint64_t seed, std::vector<int64_t> cohort,
                                      std::vector<int64_t> sizes, int64_t population, const State& global,
                                      const TensorMap& server) const {
  auto weights = client_weights(server_.weights, seed, round, sizes);
  return {.round = round,
          .seed = seed,
          .cohort = std::move(cohort),
          .sizes = std::move(sizes),
          .weights = std::move(weights),
          .population = population,
          .global = global,
          .server = server,
          .prior = prior_of(global, server),
          .global_counts = global_counts_};
}

State Composition::aggregate(const RoundContext& round, const Sums& sums, TensorMap& server) const {
  State model = aggregator_->target(round, sums);
  if (server_.noise > 0) add_noise(round, server_, model);
  client_->server_step(round, sums, model, server);
  if (optimizer_)
    for (const auto& [offset, size] : optimised_ranges(*model.model)) {
      auto w = model.flat.narrow(0, offset, size);
      const auto before = round.global.flat.narrow(0, offset, size);
      w.copy_(before + optimizer_->step(w - before, "opt." + std::to_string(offset), server));
    }
  for (const Part* part : parts())
    if (part != client_.get()) part->server_step(round, sums, model, server);
  if (server_.ema > 0) update_average(server, model, server_.ema, round.round);
  return model;
}

torch::Tensor Composition::prior_of(const State& global, const TensorMap& server) const {
  return prior_ ? prior_->estimate(global, server, global_counts_) : torch::Tensor();
}

State Composition::undeployed(const State& global, const TensorMap& server) const {
  const auto mean = server.find(average);
  if (mean == server.end() || server_.ema == 0) return global;
  State model = global.clone();
  for (const auto& ranges : {optimised_ranges(*model.model), statistics_ranges(*model.model)})
    for (const auto& [offset, size] : ranges)
      model.flat.narrow(0, offset, size).copy_(mean->second.narrow(0, offset, size));
  return model;
}

void Composition::fit(const LabelledLogits& images, const State& global, TensorMap& server) const {
  if (posthoc_) posthoc_->fit(images, prior_of(global, server), server);
}

void Composition::fit_temperature(const LabelledLogits& images, TensorMap& server) const {
  server[temperature] = torch::tensor(fedgrab::fit_temperature(images.logits, images.labels), torch::kDouble);
}

State Composition::uncalibrated(const State& global, const TensorMap& server) const {
  const State model = undeployed(global, server);
  return posthoc_ ? posthoc_->deploy(model, prior_of(global, server), server) : model;
}

State Composition::deploy(const State& global, const TensorMap& server) const {
  const State model = uncalibrated(global, server);
  const auto found = server.find(temperature);
  return posthoc_params_.temperature && found != server.end() ? with_temperature(model, found->second.item<double>())
                                                              : model;
}

PosthocNumbers Composition::posthoc_numbers(const TensorMap& server) const {
  PosthocNumbers numbers = posthoc_ ? posthoc_->numbers(server) : PosthocNumbers{};
  const auto found = server.find(temperature);
  if (posthoc_params_.temperature && found != server.end()) numbers["temperature"] = {found->second.item<double>()};
  return numbers;
}

torch::Tensor Composition::recorded_prior(const RoundContext& round) const { return loss_->gate(round); }

bool Composition::own_start(int64_t round) const {
  return needs_.own_start == OwnStart::always || (needs_.own_start == OwnStart::first_round && round == 1);
}

void Composition::before_training(const ClientContext& client, State& local, const LabelledFeatures* own) const {
  for (const Part* part : parts()) part->before_training(client, local, own);
}

LocalProblem Composition::configure(const ClientContext& client) const {
  LocalProblem problem;
  problem.heads.assign(client.round.global.model->heads.size(), {auxiliary_loss_.get(), {}});
  for (const Part* part : parts()) part->configure(client, problem);
  return problem;
}

std::vector<Payload> Composition::after_training(const ClientContext& client, const LocalResult& result) const {
  std::vector<Payload> sent{aggregator_->update(client, result)};
  if (clips()) sent.front().values = clipped_update(sent.front().values, client.round.global, server_.clip);
  for (const Part* part : parts())
    for (auto& payload : part->after_training(client, result)) sent.push_back(std::move(payload));
  if (central_)
    for (auto& payload : sent) payload.bytes = 0;
  return sent;
}

State Composition::personalise(const ClientContext& client, const State& local) const {
  return posthoc_ ? posthoc_->personalise(client, local) : local;
}

Diagnostics Composition::diagnose(const ClientContext& client) const {
  return loss_->objective().diagnose(client.state);
}

int64_t Composition::bytes_down(const Model& model) const {
  return central_ ? 0 : shared_bytes(model) + needs_.broadcast_bytes + needs_.broadcast_models * optimised_bytes(model);
}

void declare_parts(Schema& schema) {
  schema.add<MethodParams>("method");
  schema.add<ObjectiveParams>("objective");
  declare_all(objectives(), schema);
  schema.add<PriorParams>("prior");
  declare_all(class_priors(), schema);
  schema.add<HeadParams>("head");
  schema.add<ClientParams>("client");
  declare_all(client_algorithms(), schema);
  schema.add<ServerParams>("server");
  declare_all(aggregators(), schema);
  declare_all(server_optimizers(), schema);
  schema.add<PosthocParams>("posthoc");
  declare_all(posthoc_classifiers(), schema);
}

}  // namespace fedgrab
