# A module is a static library that may link only the modules before it. All share one precompiled header of LibTorch.
# Designated initialisers leave the rest at its default on purpose; -Wrestrict misfires on string sums in GCC 12 (PR 105651).
# To Clang a parameter shadows a constant of another file of the same unity build.
set(FEDGRAB_WARNINGS -Wall -Wextra -Wpedantic $<$<NOT:$<CXX_COMPILER_ID:Clang>>:-Wshadow> -Wno-missing-field-initializers)
if(FEDGRAB_WERROR)
  list(APPEND FEDGRAB_WARNINGS -Werror)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
  list(APPEND FEDGRAB_WARNINGS -Wno-restrict)
endif()

if(FEDGRAB_TORCH)
  add_library(fedgrab_torch_header OBJECT ${CMAKE_CURRENT_SOURCE_DIR}/src/torch_header.cpp)
  target_link_libraries(fedgrab_torch_header PUBLIC ${TORCH_LIBRARIES})
  target_compile_options(fedgrab_torch_header PRIVATE ${FEDGRAB_WARNINGS})
  target_precompile_headers(fedgrab_torch_header PRIVATE <torch/torch.h>)
endif()

# fedgrab_module(NAME [TORCH] SOURCES … LINK …)
function(fedgrab_module name)
  cmake_parse_arguments(module "TORCH" "" "SOURCES;LINK" ${ARGN})
  add_library(fedgrab_${name} STATIC ${module_SOURCES})
  add_library(fedgrab::${name} ALIAS fedgrab_${name})
  set_target_properties(fedgrab_${name} PROPERTIES EXPORT_NAME ${name})
  target_include_directories(fedgrab_${name} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
                                                    $<INSTALL_INTERFACE:include>)
  target_compile_features(fedgrab_${name} PUBLIC cxx_std_20)
  target_compile_options(fedgrab_${name} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:${FEDGRAB_WARNINGS}>)
  target_link_libraries(fedgrab_${name} PUBLIC ${module_LINK})
  if(module_TORCH)
    fedgrab_use_torch(fedgrab_${name})
  endif()
  fedgrab_compile_together(fedgrab_${name})
  set_property(GLOBAL APPEND PROPERTY FEDGRAB_MODULES fedgrab_${name})
endfunction()

# Whatever a file does, reading LibTorch's header again takes most of its time: several files share one reading.
function(fedgrab_compile_together target)
  if(FEDGRAB_UNITY)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 6)
  endif()
endfunction()

function(fedgrab_use_torch target)
  target_link_libraries(${target} PUBLIC ${TORCH_LIBRARIES})
  target_precompile_headers(${target} REUSE_FROM fedgrab_torch_header)
endfunction()
