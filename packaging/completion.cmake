# Shell completion, where bash-completion looks for a program's.
set(COMPLETION ${CMAKE_BINARY_DIR}/completion/nkisim)
add_custom_command(OUTPUT ${COMPLETION}
                   COMMAND ${CMAKE_COMMAND} -E make_directory ${CMAKE_BINARY_DIR}/completion
                   COMMAND nkisim completion bash > ${COMPLETION} DEPENDS nkisim VERBATIM)
add_custom_target(nkisim_completion ALL DEPENDS ${COMPLETION})
if(SKBUILD)
  install(FILES ${COMPLETION} DESTINATION ${SKBUILD_DATA_DIR}/share/bash-completion/completions COMPONENT wheel)
else()
  install(FILES ${COMPLETION} DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
endif()
