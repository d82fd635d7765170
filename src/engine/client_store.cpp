#include "fedgrab/engine/client_store.h"

#include <charconv>
#include <string>

#include "fedgrab/core/error.h"

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

void ClientStore::restore(const TensorMap& tensors, const std::string& source) {
  const std::lock_guard lock(guard_);
  memories_.clear();
  for (const auto& [name, tensor] : tensors) {
    if (!name.starts_with(prefix)) continue;
    int64_t client = -1;
    const char* const end = name.data() + name.size();
    const auto [rest, code] = std::from_chars(name.data() + prefix.size(), end, client);
    if (code != std::errc() || client < 0 || rest == end || *rest != '/')
      throw Error(Fault::checkpoint, source, "no client owns the tensor " + name);
    memories_[client][std::string(rest + 1, end)] = tensor.clone();
  }
}

}  // namespace fedgrab
