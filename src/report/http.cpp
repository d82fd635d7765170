#include "http.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <new>

namespace fedgrab {
namespace {

constexpr std::string_view line_end = "\r\n";
constexpr uInt largest_piece = 1 << 30;  // zlib counts in 32 bits

bool is_token(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 ||
           std::string_view("!#$%&'*+-.^_`|~").find(static_cast<char>(c)) != std::string_view::npos;
  });
}

bool is_visible(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](unsigned char c) { return c == '\t' || (c >= 0x20 && c != 0x7F); });
}

std::string_view without_spaces(std::string_view text) {
  const auto first = text.find_first_not_of(" \t");
  return first == std::string_view::npos ? std::string_view()
                                         : text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

std::string lower_case(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return out;
}

bool read_request_line(std::string_view line, HttpRequest& request) {
  const auto first = line.find(' '), last = line.rfind(' ');
  if (first == std::string_view::npos || first == last) return false;
  const auto target = line.substr(first + 1, last - first - 1), protocol = line.substr(last + 1);
  if (!is_token(line.substr(0, first)) || !target.starts_with('/') || !is_visible(target) ||
      target.find_first_of(" \t") != std::string_view::npos || (protocol != "HTTP/1.1" && protocol != "HTTP/1.0"))
    return false;
  request.method = line.substr(0, first);
  request.path = target.substr(0, target.find('?'));
  return true;
}

bool read_header_line(std::string_view line, HttpRequest& request) {
  const auto colon = line.find(':');
  if (colon == std::string_view::npos || !is_token(line.substr(0, colon))) return false;
  const auto value = without_spaces(line.substr(colon + 1));
  const std::string name = lower_case(line.substr(0, colon));
  if (!is_visible(value) || (name == "host" && request.headers.contains(name))) return false;
  request.headers[name] = value;
  return true;
}

const char* reason(int status) {
  switch (status) {
    case 200: return "OK";
    case 304: return "Not Modified";
    case 400: return "Bad Request";
    case 403: return "Forbidden";
    case 404: return "Not Found";
    case 405: return "Method Not Allowed";
    case 431: return "Request Header Fields Too Large";
    default: return "Error";
  }
}

std::string gzip(std::string_view text, int level) {
  z_stream stream{};
  constexpr int gzip_format = 15 + 16, memory = 8;
  if (deflateInit2(&stream, level, Z_DEFLATED, gzip_format, memory, Z_DEFAULT_STRATEGY) != Z_OK) throw std::bad_alloc();
  std::string out;
  std::string piece(size_t{1} << 16, '\0');
  int state = Z_OK;
  while (state != Z_STREAM_END) {
    if (stream.avail_in == 0 && !text.empty()) {
      stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
      stream.avail_in = static_cast<uInt>(std::min<size_t>(text.size(), largest_piece));
      text.remove_prefix(stream.avail_in);
    }
    stream.next_out = reinterpret_cast<Bytef*>(piece.data());
    stream.avail_out = static_cast<uInt>(piece.size());
    state = deflate(&stream, text.empty() ? Z_FINISH : Z_NO_FLUSH);
    out.append(piece, 0, piece.size() - stream.avail_out);
  }
  deflateEnd(&stream);
  return out;
}

}  // namespace

std::string HttpRequest::header(const std::string& name) const {
  const auto found = headers.find(name);
  return found == headers.end() ? "" : found->second;
}

bool HttpRequest::takes_gzip() const {
  const std::string accepted = lower_case(header("accept-encoding"));
  for (size_t start = 0; start < accepted.size();) {
    const auto comma = std::min(accepted.find(',', start), accepted.size());
    const std::string_view item = without_spaces(std::string_view(accepted).substr(start, comma - start));
    const auto semicolon = item.find(';');
    if (without_spaces(item.substr(0, semicolon)) == "gzip")
      return semicolon == std::string_view::npos ||
             item.find_first_of("123456789", semicolon) != std::string_view::npos;
    start = comma + 1;
  }
  return false;
}

std::optional<HttpRequest> parse_request(std::string_view head) {
  HttpRequest request;
  bool first = true;
  while (true) {
    const auto end = head.find(line_end);
    if (end == std::string_view::npos) return std::nullopt;
    const std::string_view line = head.substr(0, end);
    if (line.empty()) break;
    if (!(first ? read_request_line(line, request) : read_header_line(line, request))) return std::nullopt;
    first = false;
    head.remove_prefix(end + line_end.size());
  }
  return first ? std::nullopt : std::optional(request);
}

std::shared_ptr<const HttpContent> make_content(std::string plain, int compression_level) {
  std::string gzipped = gzip(plain, compression_level);
  return std::make_shared<const HttpContent>(HttpContent{std::move(plain), std::move(gzipped)});
}

bool HttpAnswer::gzipped_for(const HttpRequest& request) const {
  return content && !content->gzipped.empty() && request.takes_gzip();
}

std::string_view HttpAnswer::body(bool gzipped) const {
  return !content ? std::string_view() : gzipped ? content->gzipped : content->plain;
}

std::string HttpAnswer::head(bool gzipped) const {
  // What the page itself cannot say in its <meta>: no other page may frame it.
  std::string text = fmt::format(
      "HTTP/1.1 {} {}\r\nConnection: close\r\nCache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n"
      "Referrer-Policy: no-referrer\r\nCross-Origin-Resource-Policy: same-origin\r\nVary: Accept-Encoding\r\n"
      "Content-Security-Policy: base-uri 'none'; form-action 'none'; frame-ancestors 'none'\r\n",
      status, reason(status));
  if (status == 405) text += "Allow: GET\r\n";
  if (!version.empty()) text += fmt::format("ETag: {}\r\n", version);
  if (content) text += fmt::format("Content-Type: {}\r\n", type);
  if (content && gzipped) text += "Content-Encoding: gzip\r\n";
  if (status != 304) text += fmt::format("Content-Length: {}\r\n", body(gzipped).size());
  return text + "\r\n";
}

HttpAnswer refusal(int status, const std::string& why) {
  return {.status = status, .content = std::make_shared<const HttpContent>(HttpContent{why + "\n", ""})};
}

}  // namespace fedgrab
