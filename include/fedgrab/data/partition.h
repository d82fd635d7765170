/// Which client has which training sample.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "fedgrab/core/enums.h"

namespace fedgrab {

enum class PartitionKind { dirichlet, iid, user, file, central };
template <>
inline constexpr auto enum_names<PartitionKind> = names("dirichlet", "iid", "user", "file", "central");

struct PartitionParams {
  PartitionKind kind = PartitionKind::dirichlet;
  int64_t clients = 10;
  double alpha = 1.0;
  int64_t samples = 0;
  std::string file;

  template <class Visitor>
  void describe(Visitor& v) {
    v.param("kind", kind,
            "distribution of the training samples over clients; user: by the owner that the data set states; file: as "
            "in partition.file; central: one client with all samples");
    v.param("clients", clients, "number of clients (not used with kind user and file, which define the clients)")
        .between(1, 10000000);
    v.param("alpha", alpha, "Dirichlet concentration; smaller is more heterogeneous").between(1e-3, 1e6);
    v.param("samples", samples,
            "kind dirichlet, iid: samples that each client draws from all training images, so that clients share "
            "images and their number is not limited (0: each image belongs to one client)")
        .between(0, 1000000);
    v.param("file", file, "partition.json of an earlier run");
  }
};

/// Sample indices by client, each ascending; together they cover the chosen samples once, unless clients draw them.
using Partition = std::vector<std::vector<int64_t>>;

/// For each class a symmetric Dirichlet(alpha) over the clients, then a multinomial draw. A draw that leaves a client
/// without any sample is repeated; after 1,000 draws, or one so sparse that repeating is hopeless, each empty client
/// takes a sample from the largest. Where clients draw their samples, kind dirichlet draws the class shares of a client
/// around those of all data (Hsu et al. 2019), and a client has no sample twice. `users` is the owner of each sample,
/// for kind user. With `groups`, one for each sample, all samples of a group go to one client: kind iid gives the next
/// group of a random order to the smallest client, kind dirichlet draws the client of a group by the class of a random
/// one of its samples. Throws Error(Fault::data) when there are fewer samples or groups than clients, or a file does
/// not give each of the samples to one client, or a file or `users` give one group to two.
Partition make_partition(const PartitionParams& params, std::span<const int64_t> samples,
                         std::span<const int32_t> labels, int64_t classes, uint64_t seed,
                         std::span<const int32_t> users = {}, std::span<const int32_t> groups = {});

/// {"clients": [[…], …]}, one client a line.
void save_partition(const std::filesystem::path& path, const Partition& partition);
Partition load_partition(const std::filesystem::path& path);

/// counts[client][class].
std::vector<std::vector<int64_t>> partition_table(const Partition& partition, std::span<const int32_t> labels,
                                                  int64_t classes);

/// The picture of the paper's Figure 2: the global distribution as bars on top, a circle or cell per client and class
/// below, as SVG. `of` names the data in its title.
std::string partition_picture(const std::vector<std::vector<int64_t>>& table,
                              const std::vector<std::string>& class_names, const std::string& of = "");

}  // namespace fedgrab
