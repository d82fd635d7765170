// The binary version of CIFAR: the training file, the test file and the names of the classes.
#include "fedgrab/data/load.h"
#include "fuzz.h"

using namespace fedgrab;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto& folder = fuzz::scratch();
  folder.write_pieces({"batches.meta.txt", "train.bin", "test.bin"}, fuzz::text_of(data, size));
  for (const char* name : {"cifar10", "cifar100"})
    fuzz::value_or_error([&] {
      const Dataset set = load_dataset({.name = name, .path = folder.path().string()}, 1);
      class_counts(set.train.labels, set.classes());
      if (set.train.count() != set.train.images.count()) std::abort();
    });
  return 0;
}
