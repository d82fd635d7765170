#include "fedgrab/core/child_process.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>

#include "fedgrab/core/error.h"

namespace fedgrab {
namespace {

constexpr int unknown_code = 1;

int code_of(int status) { return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status); }

/// Between fork and exec: system calls only.
[[noreturn]] void become(char* const* words, int output, int log, pid_t parent) {
  setpgid(0, 0);  // a terminal's Ctrl-C comes to the parent alone, which passes it on once
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != parent) _exit(128 + SIGTERM);  // it was gone before it could be watched
  dup2(output, STDOUT_FILENO);
  dup2(log, STDERR_FILENO);
  execv(words[0], words);
  _exit(127);
}

}  // namespace

// Not where the link points to: another program may lie there by now.
std::filesystem::path own_program() { return "/proc/self/exe"; }

ChildProcess::ChildProcess(const std::filesystem::path& program, const std::vector<std::string>& arguments,
                           const std::filesystem::path& log) {
  std::vector<std::string> words{program.string()};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> pointers;
  pointers.reserve(words.size() + 1);
  for (auto& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  const int errors = ::open(log.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (errors < 0) throw Error(Fault::other, log.string(), std::strerror(errno));
  const int output = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  const pid_t parent = getpid();
  process_ = fork();
  if (process_ == 0) become(pointers.data(), output, errors, parent);
  const int reason = errno;
  ::close(errors);
  ::close(output);
  if (process_ < 0) throw Error(Fault::other, program.string(), std::strerror(reason), "cannot start another process");
}

ChildProcess::ChildProcess(ChildProcess&& other) noexcept
    : process_(std::exchange(other.process_, -1)), code_(other.code_) {}

ChildProcess& ChildProcess::operator=(ChildProcess&& other) noexcept {
  std::swap(process_, other.process_);
  std::swap(code_, other.code_);
  return *this;
}

ChildProcess::~ChildProcess() {
  if (process_ < 0 || exit_code()) return;
  ask_to_end();
  while (waitpid(process_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

void ChildProcess::ask_to_end() const {
  if (process_ > 0 && !code_) kill(process_, SIGTERM);
}

std::optional<int> ChildProcess::exit_code() {
  int status = 0;
  if (code_ || process_ <= 0) return code_;
  const pid_t ended = waitpid(process_, &status, WNOHANG);
  if (ended == process_) code_ = code_of(status);
  if (ended < 0 && errno == ECHILD) code_ = unknown_code;  // SIGCHLD is ignored: the system has forgotten how it ended
  return code_;
}

}  // namespace fedgrab
