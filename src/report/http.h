/// As much of HTTP/1.1 as a server of read-only pages needs: the head of a request, and an answer. Text in, text out.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace fedgrab {

struct HttpRequest {
  std::string method;
  std::string path;                            // as it was sent, without the query
  std::map<std::string, std::string> headers;  // names in lower case

  /// "" where it is missing.
  std::string header(const std::string& name) const;
  /// By Accept-Encoding.
  bool takes_gzip() const;
};

/// `head` begins with the request line and ends with the empty line. Nothing where it is malformed, or has two hosts.
std::optional<HttpRequest> parse_request(std::string_view head);

/// A text in its two forms, which all who are sent it share: it is compressed once.
struct HttpContent {
  std::string plain, gzipped;
};
std::shared_ptr<const HttpContent> make_content(std::string plain, int compression_level);

struct HttpAnswer {
  int status = 200;
  std::string type = "text/plain";
  std::shared_ptr<const HttpContent> content{};  // none: no body
  std::string version{};                         // the ETag, with its quotes

  bool gzipped_for(const HttpRequest& request) const;
  /// The bytes before the body.
  std::string head(bool gzipped) const;
  std::string_view body(bool gzipped) const;
};

/// A line of text: for what is refused.
HttpAnswer refusal(int status, const std::string& why);

}  // namespace fedgrab
