# Rules of `cmake --install`: the program, and for C++ the libraries with their headers, as a CMake
# package (find_package(nkisim)) and for pkg-config.
include(CMakePackageConfigHelpers)
set(PACKAGE ${CMAKE_INSTALL_LIBDIR}/cmake/nkisim)
set(LIBRARIES core checks compiler models isa systemc)  # as the linker wants them

foreach(LIBRARY ${LIBRARIES})
  set_target_properties(nkisim_${LIBRARY} PROPERTIES EXPORT_NAME ${LIBRARY})
  install(TARGETS nkisim_${LIBRARY} EXPORT nkisimTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
endforeach()
install(TARGETS nkisim RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
foreach(FOLDER configs isa models compiler checks src)
  install(DIRECTORY ${FOLDER} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/nkisim
          FILES_MATCHING PATTERN "*.hpp" PATTERN "*.def" PATTERN src/cli EXCLUDE)
endforeach()
install(DIRECTORY include/nkisim DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/nkisim
        FILES_MATCHING PATTERN "*.hpp")
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DATADIR}/licenses/nkisim)

install(EXPORT nkisimTargets NAMESPACE nkisim:: DESTINATION ${PACKAGE})
configure_package_config_file(packaging/nkisimConfig.cmake.in ${CMAKE_BINARY_DIR}/nkisimConfig.cmake
                              INSTALL_DESTINATION ${PACKAGE})
# Until 1.0 a minor version may change headers (docs/compatibility.md).
write_basic_package_version_file(${CMAKE_BINARY_DIR}/nkisimConfigVersion.cmake
                                 COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/nkisimConfig.cmake ${CMAKE_BINARY_DIR}/nkisimConfigVersion.cmake
        DESTINATION ${PACKAGE})
file(RELATIVE_PATH INCLUDE_FROM_PC /${CMAKE_INSTALL_LIBDIR}/pkgconfig /${CMAKE_INSTALL_INCLUDEDIR}/nkisim)
configure_file(packaging/nkisim.pc.in ${CMAKE_BINARY_DIR}/nkisim.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/nkisim.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
