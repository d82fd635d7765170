/// A model as a TorchScript file: LibTorch and PyTorch load it without this library.
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "fedgrab/model/state.h"

namespace fedgrab {

/// The file takes images as floats 0..1, [batch, channels, height, width], normalises them and returns the logits of
/// the first head. `notes` are stored as extra files, such as class names.
void save_torchscript(const std::filesystem::path& path, const State& state, const Normalisation& normalisation,
                      const std::map<std::string, std::string>& notes);

}  // namespace fedgrab
