// The head of a request to `watch`.
#include "fuzz.h"
#include "report/http.h"

using namespace fedgrab;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto request = parse_request(fuzz::text_of(data, size));
  if (!request) return 0;
  fuzz::check_message(request->path);
  HttpAnswer answer = refusal(404, "no such page");
  answer.version = "\"1\"";
  const bool gzipped = answer.gzipped_for(*request);
  answer.head(gzipped);
  answer.body(gzipped);
  request->takes_gzip();
  return 0;
}
