# Lists what a wheel of nkisim contains (pip install ., scripts/wheels).
set(CMAKE_INSTALL_DEFAULT_COMPONENT_NAME wheel)
install(TARGETS nkisim_python LIBRARY DESTINATION nkisim)
# The names that kernels import are found in nkisim/packages by a process that asks for them (nkisim/tools/install.py),
# with NKI_SIMULATOR=1 as it starts. Next to it are names of its own alone: whatever else is installed keeps its files,
# also when this is uninstalled.
include(${CMAKE_CURRENT_LIST_DIR}/packages.cmake)
foreach(PACKAGE ${NKISIM_PACKAGES})
  get_filename_component(NAME ${PACKAGE} NAME)
  if(NAME MATCHES "^nkisim")
    set(INTO .)
  else()
    set(INTO nkisim/packages)
  endif()
  install(DIRECTORY ${PACKAGE} DESTINATION ${INTO}
          FILES_MATCHING PATTERN "*.py" PATTERN "*.pyi" PATTERN "py.typed" PATTERN "*.json" PATTERN "*.html"
          PATTERN "*.js" PATTERN "public_api.txt" PATTERN "*.cpp")
endforeach()
# The validation table goes next to its command, in the folders in which the source tree has it.
set(TABLE nkisim_validation/table)
install(DIRECTORY ${CMAKE_SOURCE_DIR}/clients/validation/table/ DESTINATION ${TABLE}/validation OPTIONAL
        FILES_MATCHING PATTERN "*.py" PATTERN "measurements.json"
        PATTERN "leave_one_out.json" PATTERN "held_out.json" PATTERN "public.json"
        PATTERN "replay.json" PATTERN "*.json.gz"
        PATTERN "LICENSE")
install(FILES ${CMAKE_SOURCE_DIR}/traces/builder.py DESTINATION ${TABLE}/traces)
# To which messages lead where no site is known (nkisim/values/links.py).
install(FILES ${CMAKE_SOURCE_DIR}/docs/mistakes.md DESTINATION nkisim/docs)
install(FILES nkisim_simulator.pth DESTINATION .)
install(TARGETS nkisim RUNTIME DESTINATION ${SKBUILD_SCRIPTS_DIR})
