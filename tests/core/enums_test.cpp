#include "fedgrab/core/enums.h"

#include <gtest/gtest.h>

#include "fedgrab/core/parameters.h"
#include "tests/data/scratch_folder.h"

namespace fedgrab::enums_test {
enum class Sampling { shuffled, class_balanced, none };
}
namespace fedgrab {
template <>
inline constexpr auto enum_names<enums_test::Sampling> = names("shuffled", "class-balanced", "none");
}

namespace fedgrab::enums_test {

TEST(Enums, HaveTheirNamesInTheOrderOfTheValues) {
  EXPECT_EQ(name_of(Sampling::shuffled), "shuffled");
  EXPECT_EQ(name_of(Sampling::class_balanced), "class-balanced");
  EXPECT_EQ(all_names<Sampling>(), (std::vector<std::string>{"shuffled", "class-balanced", "none"}));
  for (const auto& name : all_names<Sampling>()) EXPECT_EQ(name_of(enum_named<Sampling>(name).value()), name);
}

TEST(Enums, KnowNoOtherNames) {
  for (const char* name : {"", "Shuffled", "class_balanced", "shuffle", "shuffled "})
    EXPECT_FALSE(enum_named<Sampling>(name).has_value()) << name;
}

struct Params {
  Sampling sampling = Sampling::class_balanced;
  template <class Visitor>
  void describe(Visitor& v) {
    v.param("sampling", sampling, "order of the samples");
  }
};

TEST(Enums, AreParametersWithTheirNamesAsChoices) {
  Schema schema;
  schema.add<Params>("train");
  EXPECT_EQ(schema.find("train.sampling").bounds(), "one of shuffled, class-balanced, none");
  Config config(schema);
  EXPECT_EQ(config.read<Params>("train").sampling, Sampling::class_balanced);
  config.set_text("train.sampling", "none");
  EXPECT_EQ(config.read<Params>("train").sampling, Sampling::none);
  EXPECT_NE(config.to_toml().find("sampling = \"none\""), std::string::npos);
  expect_error(Fault::usage, [&] { config.set_text("train.sampling", "class-balance"); },
               {"train.sampling", "unknown value \"class-balance\"", "did you mean \"class-balanced\"?"});
  EXPECT_EQ(config.read<Params>("train").sampling, Sampling::none);
}

}  // namespace fedgrab::enums_test
