#include "fedgrab/report/watch.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <httplib.h>
#include <netinet/tcp.h>

#include <atomic>
#include <thread>

#include "fedgrab/core/error.h"
#include "fedgrab/core/interrupt.h"
#include "fedgrab/report/page.h"
#include "live_report.h"

namespace fedgrab {
namespace {

constexpr size_t workers = 512;  // a sender that takes its time over a request keeps one busy

std::string without_port(const std::string& host) {
  if (host.starts_with('[')) return host.substr(1, host.find(']') - 1);
  return host.substr(0, host.find(':'));
}

bool is_address(const std::string& host) {
  in6_addr room{};
  return inet_pton(AF_INET, host.c_str(), &room) == 1 || inet_pton(AF_INET6, host.c_str(), &room) == 1;
}

/// A foreign page can make its own name point here, but not a browser ask for an address or localhost by that name.
bool is_ours(const std::string& host_header, const std::string& bound) {
  const std::string host = without_port(host_header);
  return host == "localhost" || host == bound || is_address(host);
}

/// The kernel keeps connections that say nothing; only one that has sent something takes a worker, for a second.
void configure_socket(socket_t socket) {
  const int yes = 1, seconds = 5;
  ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
  ::setsockopt(socket, IPPROTO_TCP, TCP_DEFER_ACCEPT, &seconds, sizeof(seconds));
}

void configure(httplib::Server& server, const std::string& host) {
  server.new_task_queue = [] { return new httplib::ThreadPool(workers); };  // the server deletes it
  server.set_socket_options(configure_socket);
  server.set_keep_alive_max_count(1);
  server.set_keep_alive_timeout(1);
  server.set_read_timeout(1);
  server.set_write_timeout(5);
  server.set_payload_max_length(1024);
  server.set_default_headers({{"Cache-Control", "no-store"},
                              {"X-Content-Type-Options", "nosniff"},
                              {"Referrer-Policy", "no-referrer"},
                              {"Cross-Origin-Resource-Policy", "same-origin"}});
  server.set_pre_routing_handler([host](const httplib::Request& request, httplib::Response& response) {
    // Nobody needs a part of the page, and a thousand parts of it take a thousand times its memory. The server parses
    // the ranges itself and gives no other way to ignore them.
    const_cast<httplib::Request&>(request).ranges.clear();
    if (is_ours(request.get_header_value("Host"), host)) return httplib::Server::HandlerResponse::Unhandled;
    response.status = 403;
    response.set_content("This server answers to its own address only.\n", "text/plain");
    return httplib::Server::HandlerResponse::Handled;
  });
}

/// Answers on a thread of its own while it lives.
class Listening {
 public:
  explicit Listening(httplib::Server& server)
      : server_(server), thread_([this] {
          server_.listen_after_bind();
          ended_ = true;
        }) {}
  Listening(const Listening&) = delete;
  Listening& operator=(const Listening&) = delete;
  ~Listening() {
    while (!ended_ && !server_.is_running()) std::this_thread::yield();  // before it runs, stop() does nothing
    server_.stop();
  }

 private:
  httplib::Server& server_;
  std::atomic<bool> ended_ = false;
  std::jthread thread_;
};

}  // namespace

void watch(const WatchOptions& options, const std::function<void(const std::string&)>& ready) {
  const std::string page(empty_page());
  LiveReport report(options.folders);
  httplib::Server server;
  configure(server, options.host);
  server.Get("/", [&](const httplib::Request&, httplib::Response& response) {
    response.set_content(page, "text/html; charset=utf-8");
  });
  server.Get("/data.json", [&](const httplib::Request& request, httplib::Response& response) {
    const auto snapshot = report.now();
    response.set_header("ETag", snapshot->version);
    if (request.get_header_value("If-None-Match") == snapshot->version)
      response.status = 304;
    else
      response.set_content(snapshot->json, "application/json");
  });
  const int port = options.port == 0                                 ? server.bind_to_any_port(options.host)
                   : server.bind_to_port(options.host, options.port) ? options.port
                                                                     : -1;
  if (port < 0)
    throw Error(Fault::other, fmt::format("{}:{}", options.host, options.port), "cannot listen there",
                "is the port taken (--port 0 finds a free one), or the address not of this machine?");
  const Listening listening(server);
  const bool bracketed = options.host.find(':') != std::string::npos;
  ready(fmt::format("http://{}:{}/", bracketed ? "[" + options.host + "]" : options.host, port));
  while (!interrupted()) std::this_thread::sleep_for(std::chrono::milliseconds(100));
  throw Interrupted{};
}

}  // namespace fedgrab
