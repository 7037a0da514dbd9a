// Collects the functions for files: the public header of src/files. Every failure is an isa::Error
// with the file's name; nothing that is written appears half.
//
//   ByteReader                       lines and numbers of a file, gzip undone on the way
//   AtomicFile, GzipWriter           a file that appears when it is complete, and its compression
//   read_npy, read_npz, write_npz... NumPy's arrays, and their elements as tensor bytes
//   append_json_string, ...          JSON written piece by piece
//   PermittedFiles                   which files an input may name
//   require_apart                    that no file is both read and written
//
// Within: zip_file is the container of .npz files, deflate what packs it.
#pragma once

#include "src/files/atomic_file.hpp"
#include "src/files/byte_reader.hpp"
#include "src/files/deflate.hpp"
#include "src/files/file_roles.hpp"
#include "src/files/json_text.hpp"
#include "src/files/npy.hpp"
#include "src/files/permitted_files.hpp"
