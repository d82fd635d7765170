// A list of images, as CSV or as lines.
#include "data/image_list.h"
#include "fuzz.h"

using namespace fedgrab;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto file = fuzz::scratch().write("list.csv", fuzz::text_of(data, size));
  fuzz::value_or_error([&] {
    for (const auto& image : read_image_list(file))
      if (image.path.empty() || image.label.empty()) std::abort();
  });
  return 0;
}
