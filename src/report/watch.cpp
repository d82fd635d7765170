#include "fedgrab/report/watch.h"

#include <arpa/inet.h>
#include <fmt/format.h>

#include "fedgrab/core/interrupt.h"
#include "fedgrab/report/page.h"
#include "http_server.h"
#include "live_report.h"

namespace fedgrab {
namespace {

constexpr int thorough_compression = 9;  // of the page, once

std::string without_port(const std::string& host) {
  if (host.starts_with('[')) return host.substr(1, host.find(']') - 1);
  return host.substr(0, host.find(':'));
}

bool is_address(const std::string& host) {
  in6_addr address{};
  return inet_pton(AF_INET, host.c_str(), &address) == 1 || inet_pton(AF_INET6, host.c_str(), &address) == 1;
}

/// A foreign page can make its own name point here, but not a browser ask for an address or localhost by that name.
bool is_ours(const std::string& host_header, const std::string& bound) {
  const std::string host = without_port(host_header);
  return host == "localhost" || host == bound || is_address(host);
}

HttpAnswer data_answer(const LiveReport::Snapshot& snapshot, const HttpRequest& request) {
  if (request.header("if-none-match") == snapshot.version) return {.status = 304, .version = snapshot.version};
  return {.type = "application/json", .content = snapshot.json, .version = snapshot.version};
}

}  // namespace

void watch(const WatchOptions& options, const std::function<void(const std::string&)>& ready) {
  const HttpAnswer page{.type = "text/html; charset=utf-8",
                        .content = make_content(std::string(empty_page()), thorough_compression)};
  LiveReport report(options.folders);
  HttpServer server(options.host, options.port);
  const bool bracketed = options.host.find(':') != std::string::npos;
  ready(fmt::format("http://{}:{}/", bracketed ? "[" + options.host + "]" : options.host, server.port()));
  server.serve(
      [&](const HttpRequest& request) -> std::optional<HttpAnswer> {
        if (!is_ours(request.header("host"), options.host))
          return refusal(403, "This server answers to its own address only.");
        if (request.path == "/") return page;
        if (request.path != "/data.json") return refusal(404, "There is nothing here.");
        const auto snapshot = report.now();
        return snapshot ? std::optional(data_answer(*snapshot, request)) : std::nullopt;
      },
      interrupted);
  throw Interrupted{};
}

}  // namespace fedgrab
