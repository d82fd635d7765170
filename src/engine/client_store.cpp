#include "fedgrab/engine/client_store.h"

#include <string>

namespace fedgrab {
namespace {

const std::string prefix = "client/";

}  // namespace

TensorMap ClientStore::read(int64_t client) const {
  const std::lock_guard lock(guard_);
  TensorMap copy;
  const auto found = memories_.find(client);
  if (found == memories_.end()) return copy;
  for (const auto& [name, tensor] : found->second) copy.emplace(name, tensor.clone());
  return copy;
}

void ClientStore::write(int64_t client, TensorMap memory) {
  const std::lock_guard lock(guard_);
  if (memory.empty())
    memories_.erase(client);
  else
    memories_[client] = std::move(memory);
}

TensorMap ClientStore::all() const {
  const std::lock_guard lock(guard_);
  TensorMap tensors;
  for (const auto& [client, memory] : memories_)
    for (const auto& [name, tensor] : memory) tensors.emplace(prefix + std::to_string(client) + "/" + name, tensor);
  return tensors;
}

void ClientStore::restore(const TensorMap& tensors) {
  const std::lock_guard lock(guard_);
  memories_.clear();
  for (const auto& [name, tensor] : tensors) {
    if (!name.starts_with(prefix)) continue;
    const auto slash = name.find('/', prefix.size());
    memories_[std::stoll(name.substr(prefix.size(), slash - prefix.size()))][name.substr(slash + 1)] = tensor.clone();
  }
}

}  // namespace fedgrab
