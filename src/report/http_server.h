/// An HTTP server with one thread and bounds on the memory and time of a connection. When there are too many
/// connections, the oldest is closed. cpp-httplib has neither bound.
#pragma once

#include <chrono>
#include <functional>
#include <list>
#include <optional>
#include <string>

#include "http.h"

namespace fedgrab {

struct HttpLimits {
  size_t connections = 512;
  size_t head = 8192;                    // bytes of a request line and all its headers
  std::chrono::milliseconds read{2000};  // until the head is complete, however busily it is sent
  std::chrono::milliseconds write{60000};
};

class HttpServer {
 public:
  /// Nothing: the answer is not ready; call again.
  using Handler = std::function<std::optional<HttpAnswer>(const HttpRequest&)>;

  /// Listens. Port 0 is any free one. Throws an Error where it cannot.
  HttpServer(const std::string& host, int port, HttpLimits limits = {});
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;
  ~HttpServer();

  int port() const;
  /// Answers GET requests, each on a connection of its own, until `ended`.
  void serve(const Handler& handler, const std::function<bool()>& ended);

 private:
  using Clock = std::chrono::steady_clock;
  enum class State { reading, waiting, writing, leaving, closed };
  struct Connection {
    int socket;
    Clock::time_point deadline;
    State state = State::reading;
    std::string received{};
    HttpRequest request{};
    HttpAnswer answer{};
    bool gzipped = false;
    std::string head{};
    size_t sent = 0;
  };

  void wait();
  void accept_all(const Handler& handler);
  void drop_oldest();
  void advance(Connection& connection, const Handler& handler);
  void read(Connection& connection);
  void reply(Connection& connection, HttpAnswer answer) const;
  static void write(Connection& connection);
  static void leave(Connection& connection);

  HttpLimits limits_;
  int listener_ = -1;
  std::list<Connection> connections_;  // the oldest first
};

}  // namespace fedgrab
