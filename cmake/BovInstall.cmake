# Installs the two libraries with their public headers, and lets programs find them: find_package(bov CONFIG). `cpack`
# makes a .deb and a .tar.gz of the same files.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

# Headers include each other as "bov/..." and "csrc/...", so that these two folders need a root of their own.
set(install_include "${CMAKE_INSTALL_INCLUDEDIR}/bov-${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR}")
set(install_cmake "${CMAKE_INSTALL_LIBDIR}/cmake/bov")

# Where LibTorch lies is a matter of the program that links it; of other libraries only CUDA's runtime is needed.
set(install_rpath "$ORIGIN")
if(BOV_HAVE_CUDA)
  list(APPEND install_rpath "${CUDAToolkit_LIBRARY_DIR}")
endif()
# Before version 1 each minor version may change the interface.
set_target_properties(bov_ops bov PROPERTIES
  VERSION "${PROJECT_VERSION}" SOVERSION "${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR}"
  INSTALL_RPATH "${install_rpath}")
set_target_properties(bov_ops PROPERTIES EXPORT_NAME ops)

install(TARGETS bov_ops bov EXPORT bovTargets
        LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}"
        FILE_SET HEADERS DESTINATION "${install_include}")
install(EXPORT bovTargets NAMESPACE bov:: DESTINATION "${install_cmake}")
configure_package_config_file("${CMAKE_CURRENT_LIST_DIR}/bovConfig.cmake.in" "${PROJECT_BINARY_DIR}/bovConfig.cmake"
                              INSTALL_DESTINATION "${install_cmake}" NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file("${PROJECT_BINARY_DIR}/bovConfigVersion.cmake" COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/bovConfig.cmake" "${PROJECT_BINARY_DIR}/bovConfigVersion.cmake"
              "${CMAKE_CURRENT_LIST_DIR}/BovLibTorch.cmake" DESTINATION "${install_cmake}")
install(FILES "${PROJECT_SOURCE_DIR}/LICENSE" DESTINATION "${CMAKE_INSTALL_DATAROOTDIR}/doc/bov")

if(PROJECT_IS_TOP_LEVEL)
  set(CPACK_GENERATOR DEB TGZ)
  set(CPACK_PACKAGE_NAME libbov-dev)
  set(CPACK_PACKAGE_FILE_NAME "bov-${PROJECT_VERSION}-${CMAKE_SYSTEM_NAME}-${CMAKE_SYSTEM_PROCESSOR}")
  set(CPACK_PACKAGE_VENDOR "The bov maintainers")
  set(CPACK_PACKAGE_CONTACT "The bov maintainers")
  set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "LibTorch library of attention's value vectors: libbov and libbov_ops")
  set(CPACK_RESOURCE_FILE_LICENSE "${PROJECT_SOURCE_DIR}/LICENSE")
  set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
  set(CPACK_DEBIAN_PACKAGE_SECTION libdevel)
  # Debian has no LibTorch that is new enough, so it is no dependency of the package: bovConfig.cmake looks for it.
  set(CPACK_DEBIAN_PACKAGE_DEPENDS "libc6, libstdc++6, zlib1g")
  set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
  include(CPack)
endif()
