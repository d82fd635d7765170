#include "fedgrab/engine/client_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <string>
#include <vector>

#include "fedgrab/core/error.h"
#include "fedgrab/core/file.h"
#include "fedgrab/core/progress.h"
#include "fedgrab/model/safetensors.h"

namespace fedgrab {
namespace {

namespace fs = std::filesystem;
const std::string prefix = "client/";
const std::string stacked_prefix = "clients/";

/// "<client>-<version>.safetensors", or "client/<client>/…": the number, or -1.
int64_t leading_number(std::string_view text, char end) {
  int64_t number = -1;
  const auto [rest, code] = std::from_chars(text.data(), text.data() + text.size(), number);
  return code == std::errc() && rest != text.data() + text.size() && *rest == end && number >= 0 ? number : -1;
}

/// A hard link, or a copy on file systems without them.
void link_or_copy(const fs::path& from, const fs::path& to) {
  std::error_code code;
  fs::create_hard_link(from, to, code);
  if (code) fs::copy_file(from, to, fs::copy_options::overwrite_existing, code);
  if (code) throw Error(Fault::other, to.string(), "cannot be written: " + code.message());
}

}  // namespace

ClientStore::~ClientStore() {
  std::error_code code;
  if (files_ > 0) fs::remove_all(folder_, code);
}

TensorMap ClientStore::read(int64_t client) const {
  fs::path file;
  {
    const std::lock_guard lock(guard_);
    const auto found = committed_.find(client);
    if (found == committed_.end()) return {};
    if (found->second.file.empty()) return found->second.tensors.copies();
    file = found->second.file;
  }
  return load_safetensors(file).tensors;
}

void ClientStore::write(int64_t client, TensorMap memory) {
  Kept kept;
  {
    const std::lock_guard lock(guard_);
    kept.tensors = PackedTensors(memory, layout_);
    kept.bytes = kept.tensors.bytes();
    if (used_ + kept.bytes > memory_) {
      if (files_ == 0) {
        note(fmt::format("what clients keep no longer fits engine.client_memory: the rest goes to {}",
                         folder_.string()));
        make_folder(folder_);
      }
      kept.file = folder_ / fmt::format("{}-{}.safetensors", client, ++files_);
      kept.bytes = 0;
      kept.tensors = {};
    }
    used_ += kept.bytes;
  }
  if (!kept.file.empty()) {
    TensorFile file{std::move(memory), {}};
    add_checksum(file);
    save_safetensors(kept.file, file);
  }
  const std::lock_guard lock(guard_);
  drop(pending_[client]);
  pending_[client] = std::move(kept);
}

void ClientStore::drop(Kept& kept) {
  used_ -= kept.bytes;
  std::error_code code;  // what cannot be removed does no harm
  if (!kept.file.empty()) fs::remove(kept.file, code);
  kept = {};
}

void ClientStore::commit() {
  const std::lock_guard lock(guard_);
  for (auto& [client, kept] : pending_) {
    drop(committed_[client]);
    if (kept.tensors.empty() && kept.file.empty())
      committed_.erase(client);
    else
      committed_[client] = std::move(kept);
  }
  pending_.clear();
}

void ClientStore::discard() {
  const std::lock_guard lock(guard_);
  for (auto& [client, kept] : pending_) drop(kept);
  pending_.clear();
}

TensorMap ClientStore::in_memory() const {
  const std::lock_guard lock(guard_);
  TensorMap tensors;
  for (const auto& [client, kept] : committed_)
    for (const auto& [name, tensor] : kept.tensors.views())
      tensors.emplace(prefix + std::to_string(client) + "/" + name, tensor);
  return tensors;
}

TensorMap ClientStore::stacked() const {
  const std::lock_guard lock(guard_);
  struct Group {
    const TensorLayout* layout;
    std::vector<int64_t> clients;
    std::vector<const PackedTensors*> tensors;
  };
  std::vector<Group> groups;  // a run has one, or a few
  for (const auto& [client, kept] : committed_) {
    if (kept.tensors.empty()) continue;
    const auto* const layout = kept.tensors.layout();
    auto group = std::find_if(groups.begin(), groups.end(),
                              [&](const Group& g) { return g.layout == layout || *g.layout == *layout; });
    if (group == groups.end()) group = groups.insert(group, {layout, {}, {}});
    group->clients.push_back(client);
    group->tensors.push_back(&kept.tensors);
  }
  TensorMap stacks;
  for (size_t g = 0; g < groups.size(); ++g) {
    const auto name = stacked_prefix + std::to_string(g);
    const auto count = static_cast<int64_t>(groups[g].clients.size());
    stacks.emplace(name, torch::tensor(groups[g].clients, torch::kLong));
    for (const auto& entry : groups[g].layout->entries) {
      auto shape = entry.shape;
      shape.insert(shape.begin(), count);
      const auto stack = torch::empty(shape, torch::dtype(entry.type));
      const size_t bytes = stack.nbytes() / static_cast<size_t>(count);
      auto* to = static_cast<uint8_t*>(stack.data_ptr());
      for (const auto* tensors : groups[g].tensors) {
        if (bytes > 0) std::memcpy(to, tensors->values(entry), bytes);
        to += bytes;
      }
      stacks.emplace(name + "/" + entry.name, stack);
    }
  }
  return stacks;
}

void ClientStore::put(int64_t client, const TensorMap& tensors) {
  auto& kept = committed_[client];
  kept.tensors = PackedTensors(tensors, layout_);
  kept.bytes = kept.tensors.bytes();
  used_ += kept.bytes;
}

void ClientStore::put_stacked(const TensorMap& tensors, const std::string& source) {
  for (const auto& [name, clients] : tensors) {
    if (!name.starts_with(stacked_prefix) || name.find('/', stacked_prefix.size()) != std::string::npos) continue;
    const auto refuse = [&](const std::string& at) {
      throw Error(Fault::checkpoint, source, "no clients own the rows of " + at);
    };
    if (clients.dim() != 1 || clients.scalar_type() != torch::kLong) refuse(name);
    TensorMap stacks;
    for (auto stack = tensors.upper_bound(name + "/"); stack != tensors.end() && stack->first.starts_with(name + "/");
         ++stack) {
      if (stack->second.dim() == 0 || stack->second.size(0) != clients.size(0)) refuse(stack->first);
      stacks.emplace(stack->first.substr(name.size() + 1), stack->second);
    }
    for (int64_t row = 0; row < clients.size(0); ++row) {
      const auto client = clients[row].item<int64_t>();
      if (client < 0 || committed_.contains(client)) refuse(name);
      TensorMap own;
      for (const auto& [part, stack] : stacks) own.emplace(part, stack[row]);
      put(client, own);
    }
  }
  for (const auto& [name, stack] : tensors)
    if (name.starts_with(stacked_prefix) && !tensors.contains(name.substr(0, name.find('/', stacked_prefix.size()))))
      throw Error(Fault::checkpoint, source, "no clients own the rows of " + name);
}

void ClientStore::link_files(const fs::path& folder) const {
  const std::lock_guard lock(guard_);
  fs::remove_all(folder);
  for (const auto& [client, kept] : committed_) {
    if (kept.file.empty()) continue;
    make_folder(folder);
    link_or_copy(kept.file, folder / kept.file.filename());
  }
}

void ClientStore::keep_only(const std::function<bool(int64_t client)>& wanted) {
  const std::lock_guard lock(guard_);
  for (auto entry = committed_.begin(); entry != committed_.end();) {
    const auto here = entry++;
    if (wanted(here->first)) continue;
    drop(here->second);
    committed_.erase(here);
  }
}

void ClientStore::merge(const TensorMap& tensors, const fs::path& folder) {
  std::map<int64_t, TensorMap> clients;
  for (const auto& [name, tensor] : tensors)
    clients[leading_number(std::string_view(name).substr(prefix.size()), '/')].emplace(
        name.substr(name.find('/', prefix.size()) + 1), tensor);
  for (auto& [client, kept] : clients) write(client, std::move(kept));
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(folder, none))
    write(leading_number(entry.path().filename().string(), '-'), load_safetensors(entry.path()).tensors);
  commit();
}

void ClientStore::restore(const TensorMap& tensors, const fs::path& folder, const std::string& source) {
  const std::lock_guard lock(guard_);
  for (auto* kept : {&pending_, &committed_}) {
    for (auto& [client, one] : *kept) drop(one);
    kept->clear();
  }
  std::map<int64_t, TensorMap> clients;
  for (const auto& [name, tensor] : tensors) {
    if (!name.starts_with(prefix)) continue;
    const int64_t client = leading_number(std::string_view(name).substr(prefix.size()), '/');
    const auto slash = name.find('/', prefix.size());
    if (client < 0 || slash + 1 == name.size())
      throw Error(Fault::checkpoint, source, "no client owns the tensor " + name);
    clients[client].emplace(name.substr(slash + 1), tensor);
  }
  for (const auto& [client, own] : clients) put(client, own);
  put_stacked(tensors, source);
  // Existing files belong to rounds after the checkpoint.
  if (!folder_.empty()) fs::remove_all(folder_);
  if (!fs::exists(folder)) return;
  make_folder(folder_);
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    const int64_t client = leading_number(name, '-');
    if (client < 0) throw Error(Fault::checkpoint, entry.path().string(), "no client owns this file");
    const int64_t version = leading_number(std::string_view(name).substr(name.find('-') + 1), '.');
    files_ = std::max(files_, version);
    committed_[client] = {{}, folder_ / name, 0};
    link_or_copy(entry.path(), folder_ / name);
  }
}

}  // namespace fedgrab
