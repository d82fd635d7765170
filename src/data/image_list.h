/// A list of images in a text file: each with its label and, where the list says so, the client that holds it.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace fedgrab {

struct ListedImage {
  std::string path, label, client, group;  // client and group are empty where the list has no such column
};

/// Two forms. A table (CSV, also with semicolons or tabs) whose first line names the columns: path, image, image_id or
/// file; label or class; optionally client, user or user_id; optionally group, group_id, patient, patient_id, subject
/// or subject_id. Or lines `path label`, as the lists of ImageNet-LT are. Throws Error(Fault::data) naming file and
/// line.
std::vector<ListedImage> read_image_list(const std::filesystem::path& file);

}  // namespace fedgrab
