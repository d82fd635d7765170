#include "fedgrab/core/nesting.h"

#include <gtest/gtest.h>

#include "fedgrab/core/parameters.h"

namespace fedgrab::nesting_test {

std::string repeat(const std::string& piece, int times) {
  std::string text;
  for (int i = 0; i < times; ++i) text += piece;
  return text;
}

void expect_too_deep(std::string_view (*check)(std::string_view, const std::string&, Fault), const std::string& text) {
  try {
    check(text, "file.x", Fault::data);
    ADD_FAILURE() << "accepted: " << text.substr(0, 50);
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::data);
    EXPECT_NE(std::string(error.what()).find("file.x: is nested"), std::string::npos) << error.what();
  }
}

TEST(Nesting, OfJsonIsBounded) {
  for (const int depth : {deepest_nesting + 1, 20000, 1000000}) {
    expect_too_deep(shallow_json, repeat("[", depth));
    expect_too_deep(shallow_json, repeat("[", depth) + repeat("]", depth));
    expect_too_deep(shallow_json, repeat("{\"a\":", depth) + "1" + repeat("}", depth));
    expect_too_deep(shallow_json, repeat("[{\"]}\":", depth));
    expect_too_deep(shallow_json, "{\"a\": \"\\\"\", \"b\": " + repeat("[", depth));
  }
}

TEST(Nesting, OfPlainJsonIsAccepted) {
  const std::string deepest = repeat("[", deepest_nesting) + repeat("]", deepest_nesting);
  for (const std::string& text : {deepest, repeat("[1,[2]],", 1000), "\"" + repeat("[", 1000) + "\"",
                                  "\"\\\"" + repeat("{", 1000) + "\\\\\"", std::string("\"open"), std::string()})
    EXPECT_EQ(shallow_json(text, "file.x"), text);
}

TEST(Nesting, OfTomlIsBounded) {
  for (const int depth : {deepest_nesting + 1, 20000, 1000000}) {
    expect_too_deep(shallow_toml, "a = " + repeat("[", depth));
    expect_too_deep(shallow_toml, "a = " + repeat("[\n", depth));
    expect_too_deep(shallow_toml, "a = " + repeat("{ a = ", depth));
    expect_too_deep(shallow_toml, "[a" + repeat(".a", depth) + "]\n");
    expect_too_deep(shallow_toml, "[[a" + repeat(" . \"a\"", depth) + "]]\n");
    expect_too_deep(shallow_toml, "a" + repeat(".a", depth) + " = 1\n");
    expect_too_deep(shallow_toml, "a = { a" + repeat(".a", depth) + " = 1 }\n");
    expect_too_deep(shallow_toml, "# \"\na = '''\n''' # '''\nb = " + repeat("[", depth));
    expect_too_deep(shallow_toml, "a = '\\'\nb = " + repeat("[", depth));
    expect_too_deep(shallow_toml, "a = \"\"\"\"\"\"\"\"\nb = " + repeat("[", depth));
  }
  // levels of keys and of brackets add up
  expect_too_deep(shallow_toml, repeat("a.b.c = { ", 30));
}

TEST(Nesting, ATableNeedsAName) {
  for (const std::string& text :
       {std::string("[.a]"), std::string("[=]\n"), std::string("a = 1\n [[ .a]]"), std::string("[\0", 2),
        std::string("a = [\n'x']\n[\xC3\xA9]"), std::string("[[[a]]]"), std::string("[\n[a]]")}) {
    EXPECT_THROW(shallow_toml(text, "file.x"), Error) << text;
    EXPECT_THROW(Config(Schema()).load_toml_text(text, "file.x"), Error) << text;
  }
  for (const std::string text :
       {"[a]", "[ \"a b\" ]\n", "[['a']]", "[\t-_1]", "a = [.1]", "a = [\n[", "[", "[]", "[[", "# [.\n"})
    EXPECT_EQ(shallow_toml(text, "file.x"), text);
}

TEST(Nesting, ABracketIsClosedByItsOwn) {
  for (const std::string text : {"a = [}", "a = [1, }", "a = {b = [}", "a = [[]}", "a = {b = 1]", "a = [\n}\n]"}) {
    EXPECT_THROW(shallow_toml(text, "file.x"), Error) << text;
    EXPECT_THROW(Config(Schema()).load_toml_text(text, "file.x"), Error) << text;
  }
  for (const std::string text : {"a = [{b = [1]}, {}]", "a = ['}', \"}\"] # }", "[[a]]\nb = [\n# }\n]"})
    EXPECT_EQ(shallow_toml(text, "file.x"), text);
}

TEST(Nesting, OnlyTextsAndCommentsOfTomlHoldOtherCharacters) {
  for (const std::string text : {"a\xCC\x9A = 1", "\xE1\x9A\x81 = 1", "a = [1,\xC2\xA0 2]", "a =\xE2\x80\xBC 1\n",
                                 "a = 5\"b=\"c\"\xEF\xBF\xBA\"", "a = 0o.\"\xC5\xA1\"", "a = b=\"\xC5\xA1\"",
                                 "a = {b = 1.'\xC5\xA1'}", "a = [1.\"\xC5\xA1", "a = 0[\"\xC5\xA1", "a = 0{'\xC5\xA1",
                                 "a = \"\"\"\\\xC2\xB7", "[\"\"\"\\\xC2\xB7", "a = \"\"\"\\\n \xC3\x9C\"\"\""}) {
    EXPECT_THROW(shallow_toml(text, "file.x"), Error) << text;
    EXPECT_THROW(Config(Schema()).load_toml_text(text, "file.x"), Error) << text;
  }
  for (const std::string text :
       {"\xEF\xBB\xBF[a]\nb = \"\xCC\x9A\" # \xE1\x9A\x81\n", "'\xE2\x80\xBC' = 1", "a = \"\\\\\xC2\xB7\"",
        "a.\"b\" = ['\xE2\x80\xBC',\"c\"]",
        "a = {b.\"\xC5\xA1\" = [1], c.'\xC5\xA1' = 2}\n[d.\"\xC5\xA1\"]\n[[e.'\xC5\xA1']]\nf.\"\xC5\xA1\" = "
        "[\n'\xC5\xA1']"})
    EXPECT_EQ(shallow_toml(text, "file.x"), text);
}

TEST(Nesting, OfPlainTomlIsAccepted) {
  for (const std::string& text :
       {std::string("[train]\nlr = 0.1\n[method.fedgrab]\nscale = 2.5\n"), repeat("[a.b]\nc.d = [1.5, 2.5]\n", 100),
        "a = [" + repeat("0.5, ", 1000) + "]", "a = \"" + repeat("[", 1000) + "\"", "# " + repeat("{", 1000),
        "a = '''\n" + repeat("[.", 1000) + "'''", "a = \"\"\"" + repeat("\\\"{", 1000) + "\"\"\"",
        "[[a]]\n" + repeat("x = { y = [ [1.0, 2.0], [3.0] ] }\n", 100)})
    EXPECT_EQ(shallow_toml(text, "file.x"), text);
}

TEST(Nesting, OfASettingsFileIsAUsageError) {
  Config config{Schema{}};
  for (const std::string& text : {"a" + repeat(".a", 20000) + " = 1\n", "a = " + repeat("[", 20000)}) try {
      config.load_toml_text(text, "deep.toml");
      ADD_FAILURE() << "no error";
    } catch (const Error& error) {
      EXPECT_EQ(error.fault(), Fault::usage);
      EXPECT_NE(std::string(error.what()).find("deep.toml"), std::string::npos) << error.what();
    }
}

}  // namespace fedgrab::nesting_test
