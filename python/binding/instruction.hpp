// Declares the Python class NkiInstruction, which a call of nki.isa returns. A kernel uses it to
// order other instructions after it.
#pragma once

#include <pybind11/pybind11.h>

#include <cstdint>

namespace nkisim::python {

/// A new handle of instruction `number` of `recorder` (a Program of the extension module), or of
/// none if that is null. Called for every instruction.
[[nodiscard]] PyObject* new_instruction(PyObject* recorder, std::uint32_t number);

/// The class NkiInstruction, and NO_INSTRUCTION for calls that record nothing.
void bind_instruction(pybind11::module_& m);

}  // namespace nkisim::python
