#include "http_server.h"

#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string>
#include <vector>

#include "fedgrab/core/error.h"

namespace fedgrab {
namespace {

constexpr int look_up = 100, look_up_soon = 10;      // milliseconds between looks at `ended` and at the handler
constexpr std::chrono::milliseconds farewell{1000};  // for the rest of what is sent to a connection that is closed
constexpr std::string_view empty_line = "\r\n\r\n";

int listen_at(const addrinfo& address) {
  const int listener =
      ::socket(address.ai_family, address.ai_socktype | SOCK_NONBLOCK | SOCK_CLOEXEC, address.ai_protocol);
  if (listener < 0) return -1;
  const int yes = 1, seconds = 5;
  ::setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
  // The kernel holds back connections that have sent nothing.
  ::setsockopt(listener, IPPROTO_TCP, TCP_DEFER_ACCEPT, &seconds, sizeof(seconds));
  if (::bind(listener, address.ai_addr, address.ai_addrlen) == 0 && ::listen(listener, SOMAXCONN) == 0) return listener;
  ::close(listener);
  return -1;
}

int listen_at(const std::string& host, int port) {
  addrinfo wanted{};
  wanted.ai_socktype = SOCK_STREAM;
  wanted.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  if (::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &wanted, &found) != 0) return -1;
  int listener = -1;
  for (const addrinfo* address = found; address != nullptr && listener < 0; address = address->ai_next)
    listener = listen_at(*address);
  ::freeaddrinfo(found);
  return listener;
}

bool try_later() { return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR; }

}  // namespace

HttpServer::HttpServer(const std::string& host, int port, HttpLimits limits)
    : limits_(limits), listener_(listen_at(host, port)) {
  if (listener_ < 0)
    throw Error(Fault::other, fmt::format("{}:{}", host, port), "cannot listen there",
                "is the port taken (--port 0 finds a free one), or the address not of this machine?");
  rlimit files{};  // half of them are for reading runs
  if (::getrlimit(RLIMIT_NOFILE, &files) == 0)
    limits_.connections = std::clamp<size_t>(files.rlim_cur / 2, 1, limits_.connections);
}

HttpServer::~HttpServer() {
  for (const auto& connection : connections_) ::close(connection.socket);
  ::close(listener_);
}

int HttpServer::port() const {
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
  ::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size);
  return ntohs(address.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6*>(&address)->sin6_port
                                             : reinterpret_cast<sockaddr_in*>(&address)->sin_port);
}

void HttpServer::serve(const Handler& handler, const std::function<bool()>& ended) {
  while (!ended()) {
    wait();
    accept_all(handler);
    for (auto& connection : connections_) advance(connection, handler);
    const auto now = Clock::now();
    std::erase_if(connections_, [&](const Connection& connection) {
      const bool over =
          connection.state == State::closed || (connection.state != State::waiting && now > connection.deadline);
      if (over) ::close(connection.socket);
      return over;
    });
  }
}

void HttpServer::wait() {
  std::vector<pollfd> all{{listener_, POLLIN, 0}};
  bool waiting = false;
  for (const auto& connection : connections_) {
    if (connection.state == State::waiting)
      waiting = true;
    else
      all.push_back({connection.socket, static_cast<short>(connection.state == State::writing ? POLLOUT : POLLIN), 0});
  }
  ::poll(all.data(), all.size(), waiting ? look_up_soon : look_up);
}

/// Each is read at once, so that a flood does not displace connections that have sent a request.
void HttpServer::accept_all(const Handler& handler) {
  for (size_t accepted = 0; accepted < limits_.connections; ++accepted) {
    const int socket = ::accept4(listener_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (socket < 0 && (errno == EMFILE || errno == ENFILE) && !connections_.empty()) {
      drop_oldest();
      continue;
    }
    if (socket < 0) return;
    if (connections_.size() >= limits_.connections) drop_oldest();
    connections_.push_back({.socket = socket, .deadline = Clock::now() + limits_.read});
    advance(connections_.back(), handler);
  }
}

/// Preferably one that has not sent its request.
void HttpServer::drop_oldest() {
  auto oldest = std::find_if(connections_.begin(), connections_.end(),
                             [](const Connection& connection) { return connection.state == State::reading; });
  if (oldest == connections_.end()) oldest = connections_.begin();
  ::close(oldest->socket);
  connections_.erase(oldest);
}

/// As far as it gets without waiting.
void HttpServer::advance(Connection& connection, const Handler& handler) {
  if (connection.state == State::reading) read(connection);
  if (connection.state == State::waiting) {
    if (auto answer = handler(connection.request)) reply(connection, std::move(*answer));
  }
  if (connection.state == State::writing) write(connection);
  if (connection.state == State::leaving) leave(connection);
}

void HttpServer::read(Connection& connection) {
  std::array<char, 4096> piece{};
  const ssize_t count = ::recv(connection.socket, piece.data(), piece.size(), 0);
  if (count < 0 && try_later()) return;
  if (count <= 0) {
    connection.state = State::closed;
    return;
  }
  connection.received.append(piece.data(), static_cast<size_t>(count));
  const auto end = connection.received.find(empty_line);
  const bool complete = end != std::string::npos;
  if ((complete ? end + empty_line.size() : connection.received.size()) > limits_.head)
    return reply(connection, refusal(431, "The head of the request is too long."));
  if (!complete) return;
  const auto request = parse_request(std::string_view(connection.received).substr(0, end + empty_line.size()));
  if (!request) return reply(connection, refusal(400, "This is no request."));
  connection.request = *request;
  if (request->method != "GET") return reply(connection, refusal(405, "This server answers GET alone."));
  connection.state = State::waiting;
}

void HttpServer::reply(Connection& connection, HttpAnswer answer) const {
  connection.received = {};
  connection.gzipped = answer.gzipped_for(connection.request);
  connection.head = answer.head(connection.gzipped);
  connection.answer = std::move(answer);
  connection.state = State::writing;
  connection.deadline = Clock::now() + limits_.write;
}

void HttpServer::write(Connection& connection) {
  const std::string_view head = connection.head, body = connection.answer.body(connection.gzipped);
  while (connection.sent < head.size() + body.size()) {
    const std::string_view rest =
        connection.sent < head.size() ? head.substr(connection.sent) : body.substr(connection.sent - head.size());
    const ssize_t count = ::send(connection.socket, rest.data(), rest.size(), MSG_NOSIGNAL);
    if (count < 0 && try_later()) return;
    if (count < 0) {
      connection.state = State::closed;
      return;
    }
    connection.sent += static_cast<size_t>(count);
  }
  // Closed with bytes unread, the kernel would tell the other side to forget what it has not read yet.
  ::shutdown(connection.socket, SHUT_WR);
  connection.answer = {};
  connection.state = State::leaving;
  connection.deadline = Clock::now() + farewell;
}

void HttpServer::leave(Connection& connection) {
  std::array<char, 4096> unread{};
  const ssize_t count = ::recv(connection.socket, unread.data(), unread.size(), 0);
  if (count == 0 || (count < 0 && !try_later())) connection.state = State::closed;
}

}  // namespace fedgrab
