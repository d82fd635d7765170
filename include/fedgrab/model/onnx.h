/// A model as an ONNX file: ONNX Runtime and other programs run it without this library.
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "fedgrab/model/state.h"

namespace fedgrab {

/// The file takes "images" as floats 0..1, [batch, channels, height, width], with any batch, normalises them and gives
/// the "logits" of the first head and their softmax, "probabilities". `metadata` is stored by key. Operator set 17,
/// checked by ONNX Runtime in the tests.
void save_onnx(const std::filesystem::path& path, const State& state, const Normalisation& normalisation,
               const std::map<std::string, std::string>& metadata);

}  // namespace fedgrab
