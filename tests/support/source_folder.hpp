// Declares source_folder(), with which tests find the files of the checkout.
#pragma once

#include <string>

/// Absolute path of the checkout the tests were built from. A function of one file, so that a
/// test's object file is the same wherever the checkout lies, and compilation caches share it.
std::string source_folder();
