# Makes <build>/python, to put on PYTHONPATH: a link to each package, from wherever it is. Commands in Python need no
# extension module.
include(${CMAKE_CURRENT_LIST_DIR}/packages.cmake)
set(TREE ${CMAKE_BINARY_DIR}/python)
file(GLOB LINKS ${TREE}/* ${TREE}/nkisim/*)
foreach(LINK ${LINKS})
  if(IS_SYMLINK ${LINK} AND NOT EXISTS ${LINK})  # its package has moved
    file(REMOVE ${LINK})
  endif()
endforeach()

function(nkisim_link folder)
  foreach(SOURCE ${ARGN})
    get_filename_component(NAME ${SOURCE} NAME)
    if(IS_DIRECTORY ${folder}/${NAME} AND NOT IS_SYMLINK ${folder}/${NAME})  # of an older build
      file(REMOVE_RECURSE ${folder}/${NAME})
    endif()
    file(CREATE_LINK ${SOURCE} ${folder}/${NAME} SYMBOLIC)
  endforeach()
endfunction()

# The extension module is made among nkisim's own: a folder of links.
set(NKISIM_ITSELF ${CMAKE_SOURCE_DIR}/python/nkisim)
file(MAKE_DIRECTORY ${TREE}/nkisim)
file(GLOB WITHIN CONFIGURE_DEPENDS ${NKISIM_ITSELF}/*.* ${NKISIM_ITSELF}/[a-z]*)
nkisim_link(${TREE}/nkisim ${WITHIN})
list(REMOVE_ITEM NKISIM_PACKAGES ${NKISIM_ITSELF})
nkisim_link(${TREE} ${NKISIM_PACKAGES})
