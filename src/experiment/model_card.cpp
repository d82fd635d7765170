#include "fedgrab/experiment/model_card.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "fedgrab/core/error.h"
#include "fedgrab/core/nesting.h"
#include "fedgrab/record/json_integer.h"

namespace fedgrab {
namespace {

using CardJson = nlohmann::ordered_json;

HeadKind head_kind(const CardJson& kind, const std::string& file) {
  const auto known = enum_named<HeadKind>(kind.get<std::string>());
  if (known) return *known;
  throw Error(Fault::checkpoint, file, fmt::format("{} is no kind of head", kind.dump()));
}

ImageShape shape_from(const CardJson& sizes) {
  return {integer_from_json(sizes.at(0)), integer_from_json(sizes.at(1)), integer_from_json(sizes.at(2))};
}

}  // namespace

std::string to_text(const ModelCard& card) {
  CardJson json{{"architecture", card.architecture},
                {"input", {card.input.channels, card.input.height, card.input.width}},
                {"head_kind", name_of(card.head.kind)},
                {"head_bias", card.head.bias},
                {"head_scale", card.head.scale},
                {"head_projected", card.head.projected},
                {"head_offset", card.head.offset},
                {"head_shift", card.head.shift},
                {"class_names", card.class_names},
                {"mean", card.normalisation.mean},
                {"std", card.normalisation.std},
                {"round", card.round},
                {"config", card.config}};
  if (card.source) json["source"] = {card.source->channels, card.source->height, card.source->width};
  return json.dump();
}

ModelCard card_from_text(const std::string& text, const std::string& file) {
  try {
    const CardJson json = CardJson::parse(shallow_json(text, file, Fault::checkpoint));
    // Member by member: GCC 12 destroys a nested aggregate twice when an initialiser after it throws.
    ModelCard card;
    json.at("architecture").get_to(card.architecture);
    card.input = shape_from(json.at("input"));
    if (json.contains("source")) card.source = shape_from(json["source"]);
    card.head.kind = head_kind(json.at("head_kind"), file);
    json.at("head_bias").get_to(card.head.bias);
    json.at("head_scale").get_to(card.head.scale);
    card.head.projected = json.value("head_projected", false);
    card.head.offset = json.value("head_offset", std::vector<float>());
    card.head.shift = json.value("head_shift", std::vector<float>());
    json.at("class_names").get_to(card.class_names);
    json.at("mean").get_to(card.normalisation.mean);
    json.at("std").get_to(card.normalisation.std);
    card.round = integer_from_json(json.at("round"));
    json.at("config").get_to(card.config);
    const auto channels = static_cast<size_t>(card.input.channels);
    const auto fits = [&](const std::vector<float>& values) {
      return values.empty() || values.size() == card.class_names.size();
    };
    if (!fits(card.head.shift) || !fits(card.head.offset) || card.normalisation.mean.size() != channels ||
        card.normalisation.std.size() != channels || card.class_names.empty() || card.input.height < 1 ||
        card.input.width < 1 || card.round < 0)
      throw Error(Fault::checkpoint, file, "its description contradicts itself");
    return card;
  } catch (const nlohmann::json::exception& error) {
    throw Error(Fault::checkpoint, file, fmt::format("its description cannot be read: {}", error.what()));
  }
}

}  // namespace fedgrab
