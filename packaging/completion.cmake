# Installs the scripts for shell completion where bash-completion and zsh look for them.
foreach(SHELL bash zsh)
  set(SCRIPT ${CMAKE_BINARY_DIR}/completion/${SHELL})
  add_custom_command(OUTPUT ${SCRIPT}
                     COMMAND ${CMAKE_COMMAND} -E make_directory ${CMAKE_BINARY_DIR}/completion
                     COMMAND nkisim completion ${SHELL} > ${SCRIPT} DEPENDS nkisim VERBATIM)
  list(APPEND COMPLETION ${SCRIPT})
endforeach()
add_custom_target(nkisim_completion ALL DEPENDS ${COMPLETION})
if(SKBUILD)
  set(SHARE ${SKBUILD_DATA_DIR}/share)
  set(OF_WHEEL COMPONENT wheel)
else()
  set(SHARE ${CMAKE_INSTALL_DATADIR})
endif()
install(FILES ${CMAKE_BINARY_DIR}/completion/bash RENAME nkisim
        DESTINATION ${SHARE}/bash-completion/completions ${OF_WHEEL})
install(FILES ${CMAKE_BINARY_DIR}/completion/zsh RENAME _nkisim
        DESTINATION ${SHARE}/zsh/site-functions ${OF_WHEEL})
