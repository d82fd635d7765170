# LibTorch from CMAKE_PREFIX_PATH, else the torch of python3 unless it has the old C++ ABI, else the system's. Then one
# precompiled header for all.
find_package(Torch QUIET HINTS ${CMAKE_PREFIX_PATH} NO_CMAKE_SYSTEM_PATH NO_CMAKE_ENVIRONMENT_PATH NO_SYSTEM_ENVIRONMENT_PATH)
if(NOT Torch_FOUND)
  execute_process(COMMAND python3 -c "import torch; torch.compiled_with_cxx11_abi() and print(torch.utils.cmake_prefix_path)"
                  OUTPUT_VARIABLE torch_of_python OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  find_package(Torch REQUIRED HINTS ${torch_of_python})
endif()
if(Torch_VERSION AND Torch_VERSION VERSION_LESS 1.13)
  message(FATAL_ERROR "LibTorch ${Torch_VERSION} is too old: 1.13 or newer is needed")
endif()
if(Torch_VERSION AND Torch_VERSION VERSION_LESS 2 AND CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  message(WARNING "Clang cannot compile the headers of LibTorch ${Torch_VERSION} as C++20 with libstdc++: take LibTorch 2 or GCC")
endif()
if(TORCH_CXX_FLAGS MATCHES "_GLIBCXX_USE_CXX11_ABI=0")
  message(FATAL_ERROR "this LibTorch was built with the old C++ ABI: take a cxx11-abi build")
endif()
set(CMAKE_CXX_FLAGS "${CMAKE_CXX_FLAGS} ${TORCH_CXX_FLAGS}")
message(STATUS "LibTorch: ${TORCH_INSTALL_PREFIX} ${Torch_VERSION}")
