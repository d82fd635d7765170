#include "report/http.h"

#include <gtest/gtest.h>

namespace fedgrab::http_test {

std::optional<HttpRequest> get(const std::string& headers) {
  return parse_request("GET /data.json?x=1 HTTP/1.1\r\n" + headers + "\r\n");
}

TEST(ParseRequest, ReadsLineAndHeaders) {
  const auto request = get("Host: localhost:80\r\nX-Empty:\r\nIF-None-Match:  \"a\" \r\n");
  ASSERT_TRUE(request);
  EXPECT_EQ(request->method, "GET");
  EXPECT_EQ(request->path, "/data.json");
  EXPECT_EQ(request->header("host"), "localhost:80");
  EXPECT_EQ(request->header("if-none-match"), "\"a\"");
  EXPECT_EQ(request->header("x-empty"), "");
  EXPECT_EQ(request->header("missing"), "");
}

TEST(ParseRequest, RefusesWhatIsMalformed) {
  for (const std::string line : {"GET /", "GET  / HTTP/1.1", "GET / HTTP/2.0", "GET http://a/ HTTP/1.1", " / HTTP/1.1",
                                 "GET /a b HTTP/1.1", "G(T / HTTP/1.1", "", "GET /\x01 HTTP/1.1"})
    EXPECT_FALSE(parse_request(line + "\r\nHost: a\r\n\r\n")) << line;
  for (const std::string header :
       {"Host", ": a", "Host : a", " Host: a", "Host: a\r\n folded", "Host: a\nb: c", "Host: a\r\nhost: b"})
    EXPECT_FALSE(get(header + "\r\n")) << header;
  EXPECT_FALSE(get("Host: a\r\nX: " + std::string(1, '\0') + "\r\n"));
  EXPECT_FALSE(parse_request("GET / HTTP/1.1\r\nHost: a\r\n"));  // without its end
}

TEST(TakesGzip, GoesByTheHeader) {
  const auto takes = [](const std::string& accepted) {
    return get("Accept-Encoding: " + accepted + "\r\n")->takes_gzip();
  };
  for (const auto* yes : {"gzip", "br, gzip", "deflate, GZIP;q=0.5", "gzip;q=1.0"}) EXPECT_TRUE(takes(yes)) << yes;
  for (const auto* no : {"", "br", "gzip;q=0", "gzip;q=0.0", "x-gzip-2"}) EXPECT_FALSE(takes(no)) << no;
  EXPECT_FALSE(get("")->takes_gzip());
}

TEST(HttpAnswer, SaysWhatItsBodyIs) {
  const HttpAnswer page{.type = "text/html", .content = make_content(std::string(100000, 'a'), 9), .version = "\"1\""};
  EXPECT_EQ(page.body(false).size(), 100000U);
  EXPECT_LT(page.body(true).size(), 1000U);
  EXPECT_NE(page.head(false).find("Content-Length: 100000\r\n"), std::string::npos);
  EXPECT_EQ(page.head(false).find("Content-Encoding"), std::string::npos);
  EXPECT_NE(page.head(true).find("Content-Encoding: gzip\r\n"), std::string::npos);
  EXPECT_FALSE(refusal(404, "no").gzipped_for(*get("Accept-Encoding: gzip\r\n")));
  const HttpAnswer unchanged{.status = 304, .version = "\"1\""};
  EXPECT_TRUE(unchanged.body(false).empty());
  EXPECT_NE(unchanged.head(false).find("ETag: \"1\"\r\n"), std::string::npos);
}

TEST(HttpAnswer, LetsNoOtherPageFrameIt) {
  const std::string head = refusal(404, "no").head(false);
  for (const auto* rule : {"base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'"})
    EXPECT_NE(head.find(rule), std::string::npos) << rule;
}

}  // namespace fedgrab::http_test
