# CMake toolchain file for clang and libc++. Libraries of NKISIM_CLANG_ROOT (made by
# packaging/clang_root) come first.
set(CMAKE_TRY_COMPILE_PLATFORM_VARIABLES NKISIM_CLANG_ROOT)
set(CMAKE_C_COMPILER clang-19)
set(CMAKE_CXX_COMPILER clang++-19)
# Debian 12's Boost still derives from std::unary_function.
set(CMAKE_CXX_FLAGS_INIT "-stdlib=libc++ -D_LIBCPP_ENABLE_CXX17_REMOVED_UNARY_BINARY_FUNCTION")
foreach(KIND EXE SHARED MODULE)
  set(CMAKE_${KIND}_LINKER_FLAGS_INIT "-fuse-ld=lld -L${NKISIM_CLANG_ROOT}/lib")
endforeach()
set(CMAKE_PREFIX_PATH ${NKISIM_CLANG_ROOT})
set(Boost_NO_BOOST_CMAKE ON)
set(Boost_USE_STATIC_LIBS ON)
set(BOOST_LIBRARYDIR ${NKISIM_CLANG_ROOT}/lib)
