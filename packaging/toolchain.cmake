# Links against the sysroot NKISIM_SYSROOT (packaging/sysroot) instead of this system's libraries,
# with C++'s own library inside.
set(CMAKE_TRY_COMPILE_PLATFORM_VARIABLES NKISIM_SYSROOT)
set(CMAKE_SYSROOT ${NKISIM_SYSROOT})
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(Boost_USE_STATIC_LIBS ON)

# GCC looks for libraries and start files in its own system's folders first.
set(FOLDER ${NKISIM_SYSROOT}/usr/lib/x86_64-linux-gnu)
set(FLAGS "-B${FOLDER} -L${FOLDER} -L${NKISIM_SYSROOT}/lib/x86_64-linux-gnu -static-libstdc++ -Wl,--exclude-libs,ALL -Wl,--as-needed ${FOLDER}/newer_libc.o")
foreach(KIND EXE SHARED MODULE)
  set(CMAKE_${KIND}_LINKER_FLAGS_INIT ${FLAGS})
endforeach()
