// The description inside a model file, and the architecture that it names.
#include "fedgrab/experiment/model_card.h"
#include "fedgrab/model/architecture.h"
#include "fuzz.h"

using namespace fedgrab;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  fuzz::value_or_error([&] {
    const ModelCard card = card_from_text(std::string(fuzz::text_of(data, size)), "input.safetensors");
    const std::string text = to_text(card);
    if (to_text(card_from_text(text, "written.safetensors")) != text) std::abort();
    make_model(make_architecture(card.architecture, card.input), {card.head},
               static_cast<int64_t>(card.class_names.size()));
  });
  return 0;
}
