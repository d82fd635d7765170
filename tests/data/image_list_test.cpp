#include "data/image_list.h"

#include "scratch_folder.h"

namespace fedgrab::image_list_test {

using Rows = std::vector<std::vector<std::string>>;

Rows read(std::string_view text) {
  const ScratchFolder folder;
  Rows rows;
  for (const auto& [path, label, client, group] : read_image_list(folder.write("list", text)))
    rows.push_back({path, label, client});
  return rows;
}

std::vector<std::string> read_groups(std::string_view text) {
  const ScratchFolder folder;
  std::vector<std::string> groups;
  for (const auto& image : read_image_list(folder.write("list", text))) groups.push_back(image.group);
  return groups;
}

void expect_refused(std::string_view text, const std::vector<std::string>& fragments) {
  const ScratchFolder folder;
  const auto file = folder.write("list.csv", text);
  expect_error(
      Fault::data, [&] { read_image_list(file); }, fragments);
}

TEST(ImageList, ReadsPairsAsImageNetLtHasThem) {
  EXPECT_EQ(read("train/n01440764/n01440764_190.JPEG 0\nval/my cat, too.JPEG 999\n"),
            (Rows{{"train/n01440764/n01440764_190.JPEG", "0", ""}, {"val/my cat, too.JPEG", "999", ""}}));
}

TEST(ImageList, ReadsTheFederatedTables) {
  EXPECT_EQ(read("user_id,image_id,class\n7,5ad3f,12\nx,99,3\n"), (Rows{{"5ad3f", "12", "7"}, {"99", "3", "x"}}));
  EXPECT_EQ(read("image_id,class\n99,3\n"), (Rows{{"99", "3", ""}}));
}

TEST(ImageList, ReadsWhatSpreadsheetsWrite) {
  const Rows expected{{"a, \"b\".png", "left lung", "Ward 3"}, {"c.png", "x", "y"}};
  EXPECT_EQ(
      read("\xEF\xBB\xBFPath , LABEL, Client\r\n\"a, \"\"b\"\".png\", left lung ,Ward 3\r\n\r\n c.png,x,\"y\"\r\n"),
      expected);
  EXPECT_EQ(read("file;age;class;user\n\"a, \"\"b\"\".png\";3;left lung;Ward 3\nc.png;;x;y"), expected);
  EXPECT_EQ(read("label\timage\nx\ta b.png\n"), (Rows{{"a b.png", "x", ""}}));
}

TEST(ImageList, ReadsGroups) {
  EXPECT_EQ(read_groups("path,label,group\na,1,p 7\nb,1,8\n"), (std::vector<std::string>{"p 7", "8"}));
  for (const char* name : {"group_id", "Patient", "patient_id", "SUBJECT", "subject_id"})
    EXPECT_EQ(read_groups(std::string(name) + ";path;label\nx;a;1\n"), (std::vector<std::string>{"x"})) << name;
  EXPECT_EQ(read_groups("path,label\na,1\n"), (std::vector<std::string>{""}));
  EXPECT_EQ(read_groups("a 1\n"), (std::vector<std::string>{""}));
}

TEST(ImageList, NamesTheLineAtFault) {
  expect_refused("path,label\na.png,1\nb.png\n", {"list.csv:3", "no label"});
  expect_refused("path,label,client\na.png,1,\n", {"list.csv:2", "no client"});
  expect_refused("path,label,patient\na.png,1,7\nb.png,1,\n", {"list.csv:3", "no group"});
  expect_refused("a.png 1\n\nb.png\n", {"list.csv:3", "path label"});
  expect_refused("a.png,1\n", {"list.csv:1", "path,label"});
  expect_refused("path,label\na.png,1\nb.png,benign, large\n", {"list.csv:3", "3 fields, the first line 2", "quotes"});
  expect_refused("path,label\na.png,\xC3\xA9\nb.png,m\xE9lanome\n", {"list.csv:3", "not UTF-8"});
  expect_refused("\xFF\xFEp", {"list.csv:1", "not UTF-8"});
  EXPECT_EQ(read("path,label\na.png,1,,\n"), (Rows{{"a.png", "1", ""}}));
  expect_refused("path,label\n", {"list.csv", "no images"});
  expect_refused("", {"no images"});
}

}  // namespace fedgrab::image_list_test
