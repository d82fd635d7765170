/// Another program run beside this one.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace fedgrab {

/// The program of this process, to be started again.
std::filesystem::path own_program();

class ChildProcess {
 public:
  /// Its standard output is dropped, its standard error goes to the file `log`. When this process ends, however that
  /// happens, the child receives SIGTERM.
  ChildProcess(const std::filesystem::path& program, const std::vector<std::string>& arguments,
               const std::filesystem::path& log);
  ChildProcess(ChildProcess&& other) noexcept;
  ChildProcess& operator=(ChildProcess&& other) noexcept;
  /// Sends SIGTERM and waits until it has ended.
  ~ChildProcess();

  /// SIGTERM.
  void ask_to_end() const;
  /// Once it has ended: its exit code, or 128 and the signal that killed it. Does not wait.
  std::optional<int> exit_code();

 private:
  pid_t process_ = -1;
  std::optional<int> code_;
};

}  // namespace fedgrab
