#include "models/forms.hpp"

namespace nkisim::models {

Form* Forms::make(const isa::Inst& inst, isa::Engine engine) {
  Form* form = nullptr;
  if (free_.empty()) {
    form = &store_.emplace_back();
  } else {
    form = free_.back();
    free_.pop_back();
  }
  isa::expand(inst, machine_, form->expansion);
  if (isa::spec(inst).control != isa::OpSpec::Control::kNone) {  // every engine runs it
    for (isa::Part& part : form->expansion.parts) part.unit = isa::unit_of(engine);
  }
  form->costs.assign(form->expansion.parts.size(), {});
  form->args = inst.args.data();
  form->op = inst.op;
  form->engine = engine;
  form->known = true;
  return form;
}

Form& Forms::take(const isa::Inst& inst, isa::Engine engine) {
  const auto key = reinterpret_cast<std::uintptr_t>(inst.args.data()) / alignof(isa::Arg) * 8 +
                   static_cast<std::uintptr_t>(engine);
  Form*& known = known_[(key * 0x9e3779b97f4a7c15U >> 32U) % kKnown];
  if (known == nullptr || known->args != inst.args.data() || known->op != inst.op ||
      known->engine != engine) {
    Form* made = make(inst, engine);
    if (known != nullptr) {
      known->known = false;
      if (known->uses == 0) free_.push_back(known);
    }
    known = made;
  }
  ++known->uses;
  return *known;
}

}  // namespace nkisim::models
