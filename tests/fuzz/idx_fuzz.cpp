// IDX, the format of MNIST: four files, of which the training images are packed or not.
#include "fedgrab/data/load.h"
#include "fuzz.h"

using namespace fedgrab;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto& folder = fuzz::scratch();
  auto input = fuzz::text_of(data, size);
  const bool packed = input.starts_with('z');
  if (!input.empty()) input.remove_prefix(1);
  const char *plain = "train-images-idx3-ubyte", *gzip = "train-images-idx3-ubyte.gz";
  ::unlink((folder.path() / (packed ? plain : gzip)).c_str());
  folder.write_pieces(
      {packed ? gzip : plain, "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"}, input);
  fuzz::value_or_error([&] {
    const Dataset set = load_dataset({.name = "idx", .path = folder.path().string()}, 1);
    class_counts(set.train.labels, set.classes());
    class_counts(set.test.labels, set.classes());
    if (set.train.count() != set.train.images.count()) std::abort();
    set.train.images.at(set.train.count() - 1);
  });
  return 0;
}
