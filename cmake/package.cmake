# `cmake --install` and find_package(fedgrab): fedgrab::fedgrab is all modules, fedgrab::core … each of them.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/fedgrab)

get_property(modules GLOBAL PROPERTY FEDGRAB_MODULES)
add_library(fedgrab_modules INTERFACE) # the name `fedgrab` is the binary's
add_library(fedgrab::fedgrab ALIAS fedgrab_modules)
set_target_properties(fedgrab_modules PROPERTIES EXPORT_NAME fedgrab)
target_link_libraries(fedgrab_modules INTERFACE ${modules})

install(TARGETS fedgrab COMPONENT program)
set(CMAKE_INSTALL_DEFAULT_COMPONENT_NAME development)
install(DIRECTORY include/fedgrab TYPE INCLUDE)
install(TARGETS fedgrab_modules ${modules} EXPORT fedgrab)
install(EXPORT fedgrab NAMESPACE fedgrab:: FILE fedgrab-targets.cmake DESTINATION ${package_folder})
# The same from the build folder, for the Python module.
export(EXPORT fedgrab NAMESPACE fedgrab:: FILE fedgrab-targets.cmake)

configure_package_config_file(cmake/fedgrab-config.cmake.in fedgrab-config.cmake INSTALL_DESTINATION ${package_folder})
write_basic_package_version_file(fedgrab-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/fedgrab-config.cmake ${PROJECT_BINARY_DIR}/fedgrab-config-version.cmake
        DESTINATION ${package_folder})

include(deb)
