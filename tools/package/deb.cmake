# Debian packages by CPack: flame-lua (the program, its manual, pages and examples), libflame0
# (libraries and the module for lua5.4), libflame-dev. Made by tools/package/deb.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME flame-lua)
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_PACKAGE_CONTACT "flame-lua maintainers <flame-lua@localhost>")
set(CPACK_PACKAGING_INSTALL_PREFIX ${CMAKE_INSTALL_PREFIX})
set(CPACK_COMPONENTS_ALL program library dev)
set(CPACK_COMPONENTS_GROUPING IGNORE)
set(CPACK_STRIP_FILES OFF)                      # libraries are stripped by the linker, archives are not
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION math)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)

set(CPACK_DEBIAN_PROGRAM_PACKAGE_NAME flame-lua)
set(CPACK_COMPONENT_PROGRAM_DESCRIPTION "Lua with tensors, gradients and CUDA kernels
 The interpreter flame-lua with its manual page, pages and examples.")
set(CPACK_DEBIAN_PROGRAM_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_LIBRARY_PACKAGE_NAME libflame0)
set(CPACK_COMPONENT_LIBRARY_DESCRIPTION "differentiable GPU programs, libraries
 libflame, libflame-full with a Lua inside, and the module flame for lua5.4.")
set(CPACK_DEBIAN_LIBRARY_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_LIBRARY_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_LIBRARY_PACKAGE_SUGGESTS lua5.4)
set(CPACK_DEBIAN_LIBRARY_PACKAGE_CONTROL_EXTRA ${CMAKE_CURRENT_LIST_DIR}/triggers)
set(CPACK_DEBIAN_DEV_PACKAGE_NAME libflame-dev)
set(CPACK_COMPONENT_DEV_DESCRIPTION "differentiable GPU programs, development files
 Headers, archives, and the files by which pkg-config and CMake find them.")
set(CPACK_DEBIAN_DEV_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEV_PACKAGE_DEPENDS "libflame0 (= ${PROJECT_VERSION}), zlib1g-dev, libc6-dev")
include(CPack)
