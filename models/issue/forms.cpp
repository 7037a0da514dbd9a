// Caches the machine operations that instructions with equal arguments expand to.
#include "models/issue/forms.hpp"

namespace nkisim::models {

Form* Forms::make(const isa::Inst& inst, isa::Engine engine) {
  Form* form = &store_.take();
  isa::expand(inst, machine_, form->expansion);
  if (isa::spec(inst).control != isa::OpSpec::Control::kNone) {  // every engine runs it
    for (isa::Part& part : form->expansion.parts) part.unit = isa::unit_of(engine);
  }
  form->costs.assign(form->expansion.parts.size(), {});
  form->memory_of.reset();
  form->args = inst.args.data();
  form->op = inst.op;
  form->engine = engine;
  form->known = true;
  return form;
}

// A form that is no longer known lives on until its operations are done.
void Forms::replace(Form*& known, Form* made) {
  if (known != nullptr) {
    known->known = false;
    if (known->uses == 0) store_.give_back(*known);
  }
  known = made;
}

Form& Forms::take(const isa::Inst& inst, isa::Engine engine) {
  const auto key = reinterpret_cast<std::uintptr_t>(inst.args.data()) / alignof(isa::Arg) * 8 +
                   static_cast<std::uintptr_t>(engine);
  const std::size_t place = (key * 0x9e3779b97f4a7c15U >> 32U) % kKnown;
  const auto fits = [&](const Form* form) {
    return form != nullptr && form->args == inst.args.data() && form->op == inst.op &&
           form->engine == engine;
  };
  Form*& first = known_[place];
  Form*& second = known_[place ^ 1U];
  Form* form = fits(first) ? first : fits(second) ? second : nullptr;
  if (form == nullptr) {
    form = make(inst, engine);
    replace(first == nullptr || second != nullptr ? first : second, form);
  }
  ++form->uses;
  return *form;
}

}  // namespace nkisim::models
