// A configuration file, and a value from the command line. What was read is written and read again: the same.
#include "fedgrab/core/parameters.h"
#include "fedgrab/data/load.h"
#include "fedgrab/data/longtail.h"
#include "fedgrab/data/partition.h"
#include "fuzz.h"

using namespace fedgrab;

namespace {

Config with_parameters() {
  Schema schema;
  schema.add<DataParams>("data");
  schema.add<LongTailParams>("longtail");
  schema.add<PartitionParams>("partition");
  return Config(schema);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static Config config = with_parameters();  // copying the schema would take most of the time
  const auto text = fuzz::text_of(data, size);
  config.reset("");
  if (const auto equals = text.find('='); equals != std::string_view::npos)
    fuzz::value_or_error([&] { config.set_text(text.substr(0, equals), text.substr(equals + 1)); });
  config.reset("");
  fuzz::value_or_error([&] {
    config.load_toml_text(text, "input.toml");
    const std::string written = config.to_toml();
    config.reset("");
    config.load_toml_text(written, "written.toml");
    if (config.to_toml() != written) std::abort();
  });
  return 0;
}
