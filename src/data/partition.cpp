#include "fedgrab/data/partition.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <queue>
#include <unordered_map>

#include "fedgrab/core/error.h"
#include "fedgrab/core/file.h"
#include "fedgrab/core/nesting.h"
#include "fedgrab/core/random.h"

namespace fedgrab {
namespace {

constexpr uint32_t max_draws = 1000;
// With so many clients empty in one draw, a thousand more would not help: the chance that none is empty is e^-16.
constexpr int64_t hopeless = 16;
constexpr uint32_t own_draws = UINT32_MAX;  // a stream apart from those of the classes

double open_uniform(Random& random) { return (static_cast<double>(random.bits64() >> 11) + 0.5) * 0x1.0p-53; }

/// Cumulative unnormalised Dirichlet weights. In logarithms: at small alpha all gamma draws may underflow to zero.
std::vector<double> cumulative_dirichlet(Random& random, const std::vector<double>& alpha) {
  std::vector<double> weights(alpha.size());
  for (size_t i = 0; i < alpha.size(); ++i) {
    const double boosted = random.gamma(alpha[i] + 1.0);
    weights[i] = std::log(boosted) + std::log(open_uniform(random)) / alpha[i];
  }
  const double largest = *std::max_element(weights.begin(), weights.end());
  double sum = 0.0;
  for (auto& weight : weights) weight = sum += std::exp(weight - largest);
  return weights;
}

/// Where a point drawn uniformly falls.
size_t drawn(const std::vector<double>& cumulative, Random& random) {
  const double point = open_uniform(random) * cumulative.back();
  return static_cast<size_t>(std::upper_bound(cumulative.begin(), cumulative.end() - 1, point) - cumulative.begin());
}

using ByClass = std::vector<std::vector<int64_t>>;  // samples

ByClass by_class_of(std::span<const int64_t> samples, std::span<const int32_t> labels, int64_t classes) {
  ByClass by_class(static_cast<size_t>(classes));
  for (const int64_t sample : samples)
    by_class.at(static_cast<size_t>(labels[static_cast<size_t>(sample)])).push_back(sample);
  return by_class;
}

/// Which client gets each sample, in the order of `by_class`.
Partition draw_dirichlet(const ByClass& by_class, const PartitionParams& params, uint64_t seed, uint32_t attempt) {
  Partition partition(static_cast<size_t>(params.clients));
  for (size_t c = 0; c < by_class.size(); ++c) {
    if (by_class[c].empty()) continue;
    Random random(seed, Purpose::partition, static_cast<uint32_t>(c), attempt);
    const auto cumulative = cumulative_dirichlet(random, std::vector<double>(partition.size(), params.alpha));
    for (const int64_t sample : by_class[c]) partition[drawn(cumulative, random)].push_back(sample);
  }
  return partition;
}

int64_t count_empty(const Partition& partition) {
  return std::count_if(partition.begin(), partition.end(), [](const auto& client) { return client.empty(); });
}

/// Each empty client takes a random sample from whoever is largest at that moment.
void fill_empty(Partition& partition, uint64_t seed) {
  using Donor = std::pair<size_t, size_t>;  // samples, client
  std::priority_queue<Donor> donors;
  for (size_t k = 0; k < partition.size(); ++k) donors.emplace(partition[k].size(), k);
  for (size_t k = 0; k < partition.size(); ++k) {
    if (!partition[k].empty()) continue;
    const auto [size, donor] = donors.top();
    donors.pop();
    auto& from = partition[donor];
    Random random(seed, Purpose::partition, UINT32_MAX, static_cast<uint32_t>(k));
    std::swap(from[random.below(size)], from.back());
    partition[k].push_back(from.back());
    from.pop_back();
    donors.emplace(from.size(), donor);
  }
}

/// Repeats a draw that leaves clients empty. `draw` gives the partition of an attempt.
template <class Draw>
Partition draw_until_none_is_empty(const Draw& draw, uint64_t seed) {
  Partition partition;
  for (uint32_t attempt = 0; attempt < max_draws; ++attempt) {
    partition = draw(attempt);
    const int64_t empty = count_empty(partition);
    if (empty == 0) return partition;
    if (empty > hopeless) break;
  }
  fill_empty(partition, seed);
  return partition;
}

Partition dirichlet(const PartitionParams& params, std::span<const int64_t> samples, std::span<const int32_t> labels,
                    int64_t classes, uint64_t seed) {
  const ByClass by_class = by_class_of(samples, labels, classes);
  return draw_until_none_is_empty([&](uint32_t attempt) { return draw_dirichlet(by_class, params, seed, attempt); },
                                  seed);
}

Partition iid(int64_t clients, std::span<const int64_t> samples, uint64_t seed) {
  Partition partition(static_cast<size_t>(clients));
  size_t next = 0;
  for (const int64_t k : permutation(static_cast<int64_t>(samples.size()), Random(seed, Purpose::partition)))
    partition[next++ % partition.size()].push_back(samples[static_cast<size_t>(k)]);
  return partition;
}

using Members = std::vector<std::vector<int64_t>>;  // samples of each group

Members members_of(std::span<const int64_t> samples, std::span<const int32_t> groups) {
  Members members;
  std::unordered_map<int32_t, size_t> place;  // a long tail that was cut leaves groups without samples
  for (const int64_t sample : samples) {
    const auto found = place.try_emplace(groups[static_cast<size_t>(sample)], members.size()).first;
    if (found->second == members.size()) members.emplace_back();
    members[found->second].push_back(sample);
  }
  return members;
}

/// Groups by client: the next of a random order goes to whoever has the fewest samples.
Partition iid_groups(int64_t clients, const Members& members, uint64_t seed) {
  using Load = std::pair<size_t, size_t>;  // samples, client
  std::priority_queue<Load, std::vector<Load>, std::greater<>> loads;
  Partition of_groups(static_cast<size_t>(clients));
  for (size_t k = 0; k < of_groups.size(); ++k) loads.emplace(0, k);
  for (const int64_t group : permutation(static_cast<int64_t>(members.size()), Random(seed, Purpose::partition))) {
    const auto [load, client] = loads.top();
    loads.pop();
    of_groups[client].push_back(group);
    loads.emplace(load + members[static_cast<size_t>(group)].size(), client);
  }
  return of_groups;
}

/// Groups by client. The class shares of the clients are drawn as for single samples, and the client of a group by the
/// shares of the class of a random one of its samples.
Partition dirichlet_groups(const PartitionParams& params, const Members& members, std::span<const int32_t> labels,
                           int64_t classes, uint64_t seed) {
  return draw_until_none_is_empty(
      [&](uint32_t attempt) {
        Partition of_groups(static_cast<size_t>(params.clients));
        std::vector<std::vector<double>> shares;
        for (int64_t c = 0; c < classes; ++c) {
          Random random(seed, Purpose::partition, static_cast<uint32_t>(c), attempt);
          shares.push_back(cumulative_dirichlet(random, std::vector<double>(of_groups.size(), params.alpha)));
        }
        Random random(seed, Purpose::partition, own_draws, attempt);
        for (size_t group = 0; group < members.size(); ++group) {
          const int64_t sample = members[group][random.below(members[group].size())];
          const auto& of_class = shares[static_cast<size_t>(labels[static_cast<size_t>(sample)])];
          of_groups[drawn(of_class, random)].push_back(static_cast<int64_t>(group));
        }
        return of_groups;
      },
      seed);
}

Partition by_group(const PartitionParams& params, std::span<const int64_t> samples, std::span<const int32_t> labels,
                   int64_t classes, uint64_t seed, std::span<const int32_t> groups) {
  const Members members = members_of(samples, groups);
  if (static_cast<int64_t>(members.size()) < params.clients)
    throw Error(Fault::data, "partition.clients",
                fmt::format("{} clients cannot share {} groups of training samples", params.clients, members.size()),
                "a group, such as a patient, stays with one client: use fewer clients or more data");
  const Partition of_groups = params.kind == PartitionKind::iid
                                  ? iid_groups(params.clients, members, seed)
                                  : dirichlet_groups(params, members, labels, classes, seed);
  Partition partition;
  for (const auto& client : of_groups) {
    auto& own = partition.emplace_back();
    for (const int64_t group : client) {
      const auto& all = members[static_cast<size_t>(group)];
      own.insert(own.end(), all.begin(), all.end());
    }
  }
  return partition;
}

/// For partitions that come from elsewhere.
void refuse_shared_groups(const Partition& partition, std::span<const int32_t> groups, const std::string& key) {
  std::unordered_map<int32_t, std::pair<size_t, int64_t>> seen;  // client and sample
  for (size_t k = 0; k < partition.size(); ++k)
    for (const int64_t sample : partition[k]) {
      const auto [at, first] = seen.try_emplace(groups[static_cast<size_t>(sample)], k, sample);
      if (!first && at->second.first != k)
        throw Error(Fault::data, key,
                    fmt::format("gives training samples {} and {} to clients {} and {}, but they are of one group",
                                at->second.second, sample, at->second.first, k),
                    "a group, such as a patient, stays with one client: correct the list, or leave out its column of "
                    "groups");
    }
}

/// Each client draws its own samples; another one may draw the same. Dirichlet: class shares around those of all data.
Partition drawn_by_clients(const PartitionParams& params, std::span<const int64_t> samples,
                           std::span<const int32_t> labels, int64_t classes, uint64_t seed) {
  ByClass pools{{samples.begin(), samples.end()}};
  if (params.kind == PartitionKind::dirichlet) pools = by_class_of(samples, labels, classes);
  std::erase_if(pools, [](const auto& pool) { return pool.empty(); });
  std::vector<double> alpha;
  for (const auto& pool : pools)
    alpha.push_back(params.alpha * static_cast<double>(classes) * static_cast<double>(pool.size()) /
                    static_cast<double>(samples.size()));
  Partition partition(static_cast<size_t>(params.clients));
  for (size_t k = 0; k < partition.size(); ++k) {
    Random random(seed, Purpose::partition, static_cast<uint32_t>(k), own_draws);
    const auto cumulative = cumulative_dirichlet(random, alpha);
    auto& own = partition[k];
    own.reserve(static_cast<size_t>(params.samples));
    for (int64_t draw = 0; draw < params.samples; ++draw) {
      const auto& pool = pools[drawn(cumulative, random)];
      const int64_t sample = pool[random.below(pool.size())];
      // A class that a client has drawn completely gives no more: the client then has fewer samples.
      if (std::find(own.begin(), own.end(), sample) == own.end()) own.push_back(sample);
    }
  }
  return partition;
}

/// Users without a sample, after a long tail was cut, are no clients.
Partition by_user(std::span<const int64_t> samples, std::span<const int32_t> users) {
  if (users.empty())
    throw Error(Fault::data, "partition.kind", "is \"user\", but the data set does not say who holds which image",
                "lists need a column client, user or user_id; or choose dirichlet");
  Partition partition(static_cast<size_t>(*std::max_element(users.begin(), users.end())) + 1);
  for (const int64_t sample : samples)
    partition[static_cast<size_t>(users[static_cast<size_t>(sample)])].push_back(sample);
  std::erase_if(partition, [](const auto& client) { return client.empty(); });
  return partition;
}

Partition from_file(const std::string& file, std::span<const int64_t> samples) {
  if (file.empty())
    throw Error(Fault::usage, "partition.file", "is empty, but partition.kind is \"file\"",
                "name a partition.json of an earlier run");
  const std::string hint = "the file must come from the same data, longtail.* and seed";
  Partition partition = load_partition(file);
  std::vector<bool> taken(samples.empty() ? 0
                                          : static_cast<size_t>(*std::max_element(samples.begin(), samples.end())) + 1);
  std::vector<bool> chosen(taken.size());
  for (const int64_t sample : samples) chosen[static_cast<size_t>(sample)] = true;
  size_t covered = 0;
  for (size_t k = 0; k < partition.size(); ++k) {
    if (partition[k].empty()) throw Error(Fault::data, file, fmt::format("client {} has no sample", k));
    for (const int64_t sample : partition[k]) {
      const auto at = static_cast<size_t>(sample);
      if (sample < 0 || at >= chosen.size() || !chosen[at])
        throw Error(Fault::data, file, fmt::format("client {}: sample {} is not in the training set", k, sample), hint);
      if (taken[at]) throw Error(Fault::data, file, fmt::format("client {}: sample {} is given twice", k, sample));
      taken[at] = true;
      ++covered;
    }
  }
  if (covered != samples.size())
    throw Error(Fault::data, file, fmt::format("{} training samples belong to no client", samples.size() - covered),
                hint);
  return partition;
}

}  // namespace

Partition make_partition(const PartitionParams& params, std::span<const int64_t> samples,
                         std::span<const int32_t> labels, int64_t classes, uint64_t seed,
                         std::span<const int32_t> users, std::span<const int32_t> groups) {
  Partition partition;
  if (params.kind == PartitionKind::central) {
    partition = {{samples.begin(), samples.end()}};
  } else if (params.kind == PartitionKind::file) {
    partition = from_file(params.file, samples);
  } else if (params.kind == PartitionKind::user) {
    partition = by_user(samples, users);
  } else if (params.samples > 0) {
    if (!groups.empty())
      throw Error(Fault::usage, "partition.samples", "lets clients share images, but the data set has groups",
                  "a group, such as a patient, stays with one client: set it to 0, or leave out the column of groups");
    if (samples.empty()) throw Error(Fault::data, "partition.samples", "there are no training images to draw from");
    partition = drawn_by_clients(params, samples, labels, classes, seed);
  } else if (!groups.empty()) {
    partition = by_group(params, samples, labels, classes, seed, groups);
  } else {
    if (static_cast<int64_t>(samples.size()) < params.clients)
      throw Error(Fault::data, "partition.clients",
                  fmt::format("{} clients cannot share {} training samples", params.clients, samples.size()),
                  "use fewer clients or more data, or let each draw partition.samples of them");
    partition = params.kind == PartitionKind::iid ? iid(params.clients, samples, seed)
                                                  : dirichlet(params, samples, labels, classes, seed);
  }
  if (!groups.empty()) refuse_shared_groups(partition, groups, fmt::format("partition.kind {}", name_of(params.kind)));
  for (auto& client : partition) std::sort(client.begin(), client.end());
  return partition;
}

void save_partition(const std::filesystem::path& path, const Partition& partition) {
  std::string text = "{\"clients\": [";
  for (size_t k = 0; k < partition.size(); ++k)
    text += fmt::format("{}\n[{}]", k == 0 ? "" : ",", fmt::join(partition[k], ", "));
  write_atomically(path, text + "\n]}\n");
}

Partition load_partition(const std::filesystem::path& path) {
  const auto refuse = [&](const std::string& why) -> Error {
    return {Fault::data, path.string(), why, "expected {\"clients\": [[sample, ...], ...]}"};
  };
  nlohmann::json json;
  try {
    const std::string text = read_text(path);
    json = nlohmann::json::parse(shallow_json(text, path.string()));
  } catch (const nlohmann::json::parse_error& error) {
    throw refuse(fmt::format("not valid JSON near byte {}", error.byte));
  } catch (const nlohmann::json::exception&) {  // 1e999, say
    throw refuse("holds a number that is out of range");
  }
  const auto clients = json.find("clients");
  if (clients == json.end() || !clients->is_array() || clients->empty()) throw refuse("no list of clients");
  Partition partition;
  for (const auto& client : *clients) {
    if (!client.is_array()) throw refuse(fmt::format("client {} is not a list", partition.size()));
    auto& samples = partition.emplace_back();
    for (const auto& sample : client) {
      const bool too_large = sample.is_number_unsigned() && sample.get<uint64_t>() > static_cast<uint64_t>(INT64_MAX);
      if (!sample.is_number_integer() || too_large)
        throw refuse(fmt::format("client {}: {} is not a sample index", partition.size() - 1,
                                 sample.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)));
      samples.push_back(sample.get<int64_t>());
    }
  }
  return partition;
}

std::vector<std::vector<int64_t>> partition_table(const Partition& partition, std::span<const int32_t> labels,
                                                  int64_t classes) {
  std::vector<std::vector<int64_t>> table(partition.size(), std::vector<int64_t>(static_cast<size_t>(classes)));
  for (size_t k = 0; k < partition.size(); ++k)
    for (const int64_t sample : partition[k]) ++table[k].at(static_cast<size_t>(labels[static_cast<size_t>(sample)]));
  return table;
}

}  // namespace fedgrab
