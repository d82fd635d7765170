# fedgrab_DIR: a build folder of this tree, with the LibTorch that the module is for, and its libraries built.
cmake_path(GET CMAKE_CURRENT_SOURCE_DIR PARENT_PATH tree)

# A LibTorch that CMAKE_PREFIX_PATH names, else the PyTorch that the module will live beside, else what cmake/libtorch.cmake finds.
set(prefix "")
foreach(entry ${CMAKE_PREFIX_PATH}) # scikit-build-core adds folders of its own
  if(EXISTS ${entry}/share/cmake/Torch/TorchConfig.cmake)
    set(prefix ${entry})
    break()
  endif()
endforeach()
if(NOT prefix)
  # -I: without the folders of an isolated build by pip, which hide the environment.
  execute_process(COMMAND ${Python_EXECUTABLE} -I -c "import os, torch
version = tuple(int(part) for part in torch.__version__.split('.')[:2])
root = torch.__path__[0]
if version >= (2, 4) and torch.compiled_with_cxx11_abi() and os.path.exists(root + '/share/cmake/Torch'): print(root)"
    OUTPUT_VARIABLE prefix OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
endif()

# One build folder for each LibTorch: build/release, unless it has another one.
set(fedgrab_DIR ${tree}/build/release)
if(EXISTS ${fedgrab_DIR}/CMakeCache.txt)
  load_cache(${fedgrab_DIR} READ_WITH_PREFIX its_ CMAKE_PREFIX_PATH Torch_DIR)
  string(FIND "${its_CMAKE_PREFIX_PATH};${its_Torch_DIR};" "${prefix}" found)
  if(found EQUAL -1)
    string(SHA256 name "${prefix}")
    string(SUBSTRING ${name} 0 8 name)
    set(fedgrab_DIR ${tree}/build/release-${name})
  endif()
endif()
message(STATUS "Libraries: ${fedgrab_DIR}")

# Compiling a file that includes LibTorch takes up to 2 GB.
cmake_host_system_information(RESULT jobs QUERY NUMBER_OF_LOGICAL_CORES)
cmake_host_system_information(RESULT fit QUERY AVAILABLE_PHYSICAL_MEMORY)
math(EXPR fit "${fit} / 2000 + 1")
if(jobs GREATER fit)
  set(jobs ${fit})
endif()
if(NOT EXISTS ${fedgrab_DIR}/CMakeCache.txt)
  execute_process(COMMAND ${CMAKE_COMMAND} --preset release -B ${fedgrab_DIR} -DFEDGRAB_TESTS=OFF -DCMAKE_PREFIX_PATH=${prefix}
                  WORKING_DIRECTORY ${tree} COMMAND_ERROR_IS_FATAL ANY)
endif()
execute_process(COMMAND ${CMAKE_COMMAND} --build ${fedgrab_DIR} --target fedgrab_experiment --parallel ${jobs} COMMAND_ERROR_IS_FATAL ANY)
