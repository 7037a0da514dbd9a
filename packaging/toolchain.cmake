# CMake toolchain file of the wheels: links against the older system libraries in NKISIM_SYSROOT
# (made by packaging/sysroot) instead of this system's, with C++'s own library inside.
# NKISIM_MACHINE: x86_64, or aarch64 by Debian's cross compiler.
set(CMAKE_TRY_COMPILE_PLATFORM_VARIABLES NKISIM_SYSROOT NKISIM_MACHINE)
if(NOT NKISIM_MACHINE)
  set(NKISIM_MACHINE x86_64)
endif()
if(NKISIM_MACHINE STREQUAL aarch64)
  set(CMAKE_SYSTEM_NAME Linux)
  set(CMAKE_SYSTEM_PROCESSOR aarch64)
  set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
  set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
  set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64-static;-L;${NKISIM_SYSROOT})
  # The cross compiler has headers of a newer glibc of its own, which it takes before the sysroot's: a SIGSTKSZ of
  # those asks sysconf what an older glibc does not know.
  execute_process(COMMAND ${CMAKE_CXX_COMPILER} -print-file-name=include
                  OUTPUT_VARIABLE GCC_HEADERS OUTPUT_STRIP_TRAILING_WHITESPACE)
  set(HEADERS ${GCC_HEADERS} ${NKISIM_SYSROOT}/usr/include/aarch64-linux-gnu ${NKISIM_SYSROOT}/usr/include)
  list(TRANSFORM HEADERS PREPEND "-isystem ")
  list(JOIN HEADERS " " HEADERS)
  set(CXX_HEADERS /usr/aarch64-linux-gnu/include/c++/12)
  set(CMAKE_C_FLAGS_INIT "-nostdinc ${HEADERS}")
  set(CMAKE_CXX_FLAGS_INIT
      "-nostdinc -isystem ${CXX_HEADERS} -isystem ${CXX_HEADERS}/aarch64-linux-gnu -isystem ${CXX_HEADERS}/backward ${HEADERS}")
endif()
# In sections of their own, so that the linker can leave out what nothing calls.
foreach(LANGUAGE C CXX)
  string(APPEND CMAKE_${LANGUAGE}_FLAGS_INIT " -ffunction-sections -fdata-sections")
endforeach()
set(CMAKE_SYSROOT ${NKISIM_SYSROOT})
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(Boost_USE_STATIC_LIBS ON)

# GCC looks for libraries and start files in its own system's folders first.
set(FOLDER ${NKISIM_SYSROOT}/usr/lib/${NKISIM_MACHINE}-linux-gnu)
set(FLAGS "-B${FOLDER} -L${FOLDER} -L${NKISIM_SYSROOT}/lib/${NKISIM_MACHINE}-linux-gnu -pthread -static-libstdc++ -Wl,--exclude-libs,ALL -Wl,--as-needed -Wl,--gc-sections -Wl,-O1 ${FOLDER}/newer_libc.o")
foreach(KIND EXE SHARED MODULE)
  set(CMAKE_${KIND}_LINKER_FLAGS_INIT ${FLAGS})
endforeach()
