// Makes what Python.h declares weak. Included before everything else of the binding in a wheel,
// whose module is the program's simulator too (packaging/launcher.cpp): there is no Python in the
// program, and nothing calls one.
#pragma once

// NOLINTBEGIN: Python.h's own names
#define PyAPI_FUNC(RTYPE) __attribute__((visibility("default"), weak)) RTYPE
#define PyAPI_DATA(RTYPE) extern __attribute__((visibility("default"), weak)) RTYPE
// NOLINTEND
