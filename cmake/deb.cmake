# `cpack` in the build folder makes fedgrab_VERSION_ARCH.deb: the program, its bash completion and its licences. Version and
# dependencies are those of the project and of the libraries that the program is linked with.
set(completion_folder ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
set(document_folder ${CMAKE_INSTALL_DATADIR}/doc/fedgrab)

if(FEDGRAB_TORCH) # without LibTorch the program does not know its parameters
  install(CODE "
    execute_process(COMMAND $<TARGET_FILE:fedgrab> completion bash OUTPUT_FILE ${PROJECT_BINARY_DIR}/fedgrab.bash COMMAND_ERROR_IS_FATAL ANY)
    file(INSTALL DESTINATION \${CMAKE_INSTALL_PREFIX}/${completion_folder} TYPE FILE RENAME fedgrab FILES ${PROJECT_BINARY_DIR}/fedgrab.bash)"
    COMPONENT program)
endif()

# What is compiled into the program asks for its notice beside it: header-only libraries, and the chart library of the page.
set(copyright ${PROJECT_BINARY_DIR}/copyright)
file(READ LICENSE text)
file(WRITE ${copyright} "fedgrab is under the Apache licence, version 2.0, below. The program contains the libraries listed after it.\n\n${text}")
set(notices /usr/share/doc/libcli11-dev/copyright /usr/share/doc/libtomlplusplus-dev/copyright /usr/share/doc/nlohmann-json3-dev/copyright
            /usr/share/doc/libfmt-dev/copyright)
foreach(package echarts/LICENSE echarts/NOTICE zrender/LICENSE tslib/LICENSE.txt)
  list(APPEND notices ${PROJECT_SOURCE_DIR}/web/node_modules/${package})
endforeach()
foreach(notice ${notices})
  if(EXISTS ${notice})
    file(READ ${notice} text)
    cmake_path(GET notice PARENT_PATH library)
    cmake_path(GET library FILENAME library)
    file(APPEND ${copyright} "\n${library}\n==========\n\n${text}")
  endif()
endforeach()
install(FILES ${copyright} DESTINATION ${document_folder} COMPONENT program)

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME fedgrab)
set(CPACK_PACKAGE_CONTACT "fedgrab contributors")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "federated learning on long-tailed data")
set(CPACK_DEBIAN_PROGRAM_DESCRIPTION "Trains one image classifier over many clients whose data are long-tailed, with Fed-GraB and the methods\n\
that it is compared with: simulated federations, your own images, reports, exported models.")
set(CPACK_COMPONENTS_ALL program) # libraries and headers are for `cmake --install`
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_NAME fedgrab)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
if(FEDGRAB_TORCH)
  # LibTorch is content with any BLAS; the reference one is 60 times slower.
  set(CPACK_DEBIAN_PACKAGE_DEPENDS libopenblas0-openmp)
  set(CPACK_DEBIAN_PACKAGE_RECOMMENDS ca-certificates)
  set(CPACK_DEBIAN_PACKAGE_SUGGESTS openmpi-bin)
endif()
set(CPACK_STRIP_FILES ON)
include(CPack)
