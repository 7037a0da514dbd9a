# CMake's toolchain file of nkisim for browsers, with the libraries that clients/web/sysroot made in
# NKISIM_WEB.
set(CMAKE_TRY_COMPILE_PLATFORM_VARIABLES NKISIM_WEB)
set(ENV{EM_CONFIG} ${NKISIM_WEB}/tools/emscripten)
include(${NKISIM_WEB}/tools/usr/share/emscripten/cmake/Modules/Platform/Emscripten.cmake)
list(APPEND CMAKE_FIND_ROOT_PATH ${NKISIM_WEB}/root)
list(APPEND CMAKE_PREFIX_PATH ${NKISIM_WEB}/root)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE BOTH)
set(nlohmann_json_DIR ${NKISIM_WEB}/tools/usr/share/cmake/nlohmann_json)
set(simdjson_DIR ${NKISIM_WEB}/root/lib/cmake/simdjson)
set(Boost_NO_BOOST_CMAKE ON)
set(BOOST_ROOT ${NKISIM_WEB}/root)
set(Boost_USE_STATIC_LIBS ON)

# Boost 1.74 asks for what C++17 took out of the standard library.
set(CMAKE_CXX_FLAGS_INIT
    "-fwasm-exceptions -msimd128 -isystem ${NKISIM_WEB}/root/include -D_LIBCPP_ENABLE_CXX17_REMOVED_UNARY_BINARY_FUNCTION")
# A function that makes an instance of the program, for a page, its worker or Node: each instance has its own
# files and memory and runs once.
set(CMAKE_EXE_LINKER_FLAGS_INIT
    "-fwasm-exceptions -L${NKISIM_WEB}/root/lib -sMODULARIZE -sEXPORT_NAME=makeNkisim -sENVIRONMENT=web,worker,node -sINVOKE_RUN=0 -sEXIT_RUNTIME -sALLOW_MEMORY_GROWTH -sMAXIMUM_MEMORY=4GB -sSTACK_SIZE=4MB -sFORCE_FILESYSTEM -sEXPORTED_RUNTIME_METHODS=FS,callMain")
