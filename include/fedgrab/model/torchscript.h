/// A model as a TorchScript file: what LibTorch, PyTorch or a phone loads without this library.
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "fedgrab/model/state.h"

namespace fedgrab {

/// The file takes images as floats 0..1, [batch, channels, height, width], normalises them and returns the logits of
/// the first head. `notes` travel along as extra files (class names, say).
void save_torchscript(const std::filesystem::path& path, const State& state, const Normalisation& normalisation,
                      const std::map<std::string, std::string>& notes);

}  // namespace fedgrab
