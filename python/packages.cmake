# Finds our Python packages: the core's in python/, and each client's in clients/CLIENT/.
file(GLOB NKISIM_PACKAGES CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/python/*/__init__.py
     ${CMAKE_SOURCE_DIR}/clients/*/*/__init__.py)
list(TRANSFORM NKISIM_PACKAGES REPLACE "/__init__\\.py$" "")
