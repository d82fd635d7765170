# fedgrab_add_revision(TARGET): a source that defines version() and revision() of core/version.h. The revision is asked for at
# every build, and the source written anew only when it changed; "unknown" outside a checkout.
if(NOT CMAKE_SCRIPT_MODE_FILE)
  set(FEDGRAB_REVISION_SCRIPT ${CMAKE_CURRENT_LIST_FILE})
  function(fedgrab_add_revision target)
    set(source ${CMAKE_CURRENT_BINARY_DIR}/revision.cpp)
    add_custom_target(${target}_revision BYPRODUCTS ${source} VERBATIM COMMENT "Asking for the revision"
      COMMAND ${CMAKE_COMMAND} -DCHECKOUT=${PROJECT_SOURCE_DIR} -DVERSION=${PROJECT_VERSION} -DSOURCE=${source}
              -P ${FEDGRAB_REVISION_SCRIPT})
    target_sources(${target} PRIVATE ${source})
    set_source_files_properties(${source} PROPERTIES GENERATED ON SKIP_UNITY_BUILD_INCLUSION ON)
    add_dependencies(${target} ${target}_revision)
  endfunction()
  return()
endif()

cmake_minimum_required(VERSION 3.25)
set(revision unknown)
# A folder somewhere inside another project's checkout is not that project's revision.
execute_process(COMMAND git -C ${CHECKOUT} rev-parse --show-prefix
                OUTPUT_VARIABLE below RESULT_VARIABLE failed OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
if(NOT failed AND below STREQUAL "")
  execute_process(COMMAND git -C ${CHECKOUT} describe --always --dirty --abbrev=12
                  OUTPUT_VARIABLE described RESULT_VARIABLE failed OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  if(NOT failed AND NOT described STREQUAL "")
    set(revision ${described})
  endif()
endif()
file(CONFIGURE OUTPUT ${SOURCE} @ONLY CONTENT "#include \"fedgrab/core/version.h\"

namespace fedgrab {

std::string version() { return \"@VERSION@\"; }
std::string revision() { return \"@revision@\"; }

}  // namespace fedgrab
")
