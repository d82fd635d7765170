// partition.json, and the partition that is made of it.
#include <numeric>

#include "fedgrab/data/partition.h"
#include "fuzz.h"

using namespace fedgrab;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto file = fuzz::scratch().write("partition.json", fuzz::text_of(data, size));
  std::vector<int64_t> samples(8);
  std::iota(samples.begin(), samples.end(), 0);
  const std::vector<int32_t> labels{0, 1, 0, 1, 0, 1, 0, 1};
  fuzz::value_or_error([&] {
    const auto partition = make_partition({.kind = PartitionKind::file, .file = file.string()}, samples, labels, 2, 1);
    partition_table(partition, labels, 2);
  });
  return 0;
}
