# fedgrab_embed(OUTPUT.cpp FUNCTION FILE…): the files' names and contents, as std::map<std::string, std::string> FUNCTION().
function(fedgrab_embed output function)
  set(entries "")
  foreach(file ${ARGN})
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
    get_filename_component(name ${file} NAME)
    file(READ ${file} text)
    string(APPEND entries "      {\"${name}\", R\"~~(${text})~~\"},\n")
  endforeach()
  file(CONFIGURE OUTPUT ${output} @ONLY CONTENT "#include <map>
#include <string>

namespace fedgrab {
const std::map<std::string, std::string>& @function@();
const std::map<std::string, std::string>& @function@() {
  static const std::map<std::string, std::string> files{
@entries@  };
  return files;
}
}  // namespace fedgrab
")
endfunction()
