// Converts Python values that need no program to arguments of an instruction.
//
// Each throws isa::Error with the parameter's name, what was found and what is required.
#pragma once

#include <pybind11/pybind11.h>

#include <string>

#include "isa/base/inst.hpp"
#include "isa/program/op_spec.hpp"

namespace nkisim::python {

[[noreturn]] void refuse(const isa::Param& param, PyObject* value, const std::string& required);

[[nodiscard]] isa::Arg int_arg(isa::Arg::Kind kind, std::int64_t v);
/// Whatever has __index__, if it fits 64 bits.
[[nodiscard]] std::int64_t to_int(const isa::Param& param, PyObject* value);
/// bool, integer or float, kept apart: bitvec operators take integers.
[[nodiscard]] isa::Arg number(const isa::Param& param, PyObject* value);
/// True or False, also as an integer or NumPy's.
[[nodiscard]] isa::Arg truth(const isa::Param& param, PyObject* value);
/// An operator of the ALU. others: whether the kernel's API has other spellings than those of
/// nki.language, which are reported elsewhere; texts always are.
[[nodiscard]] isa::Arg alu_arg(const isa::Param& param, PyObject* value, bool others);
/// The same of an activation function.
[[nodiscard]] isa::Arg act_arg(const isa::Param& param, PyObject* value, bool others);
/// One of Param::choices: its number, its name, or a member of an enum with that name.
[[nodiscard]] isa::Arg choice(const isa::Param& param, PyObject* value);
/// An integer, or lists and tuples of integers, nested or not.
[[nodiscard]] isa::IntList int_list(const isa::Param& param, PyObject* value);

}  // namespace nkisim::python
