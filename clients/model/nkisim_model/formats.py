"""Defines the formats of a model's quantised weights: bytes per element, and what a kernel makes of
them.
"""

from __future__ import annotations

import dataclasses
import re
from typing import Any


@dataclasses.dataclass(frozen=True)
class Format:
    """bits: of an element. group: elements that share a scale, 0 where a column or a tensor has one. scale_bits: of a
    scale, with its zero point. parts: those whose weights have it ("attention", "mlp", "experts"). at_load: it is
    unpacked when the weights are loaded, as asked."""

    name: str
    bits: int
    group: int = 0
    scale_bits: int = 16
    parts: tuple[str, ...] = ("attention", "mlp", "experts")
    at_load: bool = False

    @property
    def unpacked(self) -> bool:
        """True if it is unpacked to the step's dtype when the weights are loaded, as no kernel here takes it."""
        return self.at_load or self.name == "mxfp4" or not (self.dtype or (self.bits == 4 and self.group))

    @property
    def dtype(self) -> str:
        """The dtype of an element of eight bits in HBM; "" where a byte holds two, or there is no kernel."""
        if self.bits != 8:
            return ""
        return "float8_e4m3" if "fp8" in self.name else "int8" if self.group else ""

    @property
    def bytes_per_element(self) -> float:
        """With its part of the scales, as it is in files."""
        return (self.bits + (self.scale_bits / self.group if self.group else 0)) / 8

    @property
    def said(self) -> str:
        """The format in words, and its treatment by the kernels."""
        how = "unpacked when they are loaded" if self.unpacked else \
            "dequantised before each product" if self.group else "multiplied as they are"
        if not self.unpacked:
            how += "; those of experts, of latent and linear attention unpacked when they are loaded"
        return f"weights of {self.name} ({8 * self.bytes_per_element:.4g} bits an element), {how}"


class FormatError(ValueError):
    """A format that is not known; `found` and `required` say what."""

    def __init__(self, found: str, required: str) -> None:
        super().__init__(f"{found}; required: {required}")
        self.found, self.required = found, required


QUANTISED = ("quantization_config", "compression_config", "quantization")
KNOWN = ("fp8, fbgemm_fp8, mxfp4, awq, gptq, auto-round, compressed-tensors, modelopt, bitsandbytes, hqq, quanto, "
         "bitnet, or MLX's bits and group_size")
#: Formats of modelopt by its names. There is no kernel for NVFP4, and none for NF4.
MODELOPT = {"FP8": Format("fp8 of modelopt", 8, 0, 32), "NVFP4": Format("nvfp4", 4, 16, 8, at_load=True),
            "W4A16_AWQ": Format("int4 of modelopt", 4, 128), "INT4_AWQ": Format("int4 of modelopt", 4, 128)}
QUANTO = {"int8": 8, "float8": 8, "int4": 4, "int2": 2}
#: Where a format has the names of modules whose weights do not have it.
IGNORED = ("ignore", "modules_to_not_convert", "skip_modules", "llm_int8_skip_modules")


def format_of(config: dict[str, Any]) -> Format | None:
    """The format of a config's weights, None where they are not quantised. Raises FormatError."""
    for key in QUANTISED:
        found = config.get(key)
        if not found:
            continue
        if not isinstance(found, dict):
            raise FormatError(f"{key} is {found!r}", "an object")
        one = _of(found, key)
        return dataclasses.replace(one, parts=tuple(part for part in one.parts if part not in _ignored(found)))
    return None


def _ignored(found):
    """The parts whose modules a format leaves out in all layers."""
    listed = next((found[key] for key in IGNORED if isinstance(found.get(key), list)), [])
    names = [name for name in listed if isinstance(name, str) and not re.search(r"layers\W*\d", name)]
    ends = [name.rstrip(".*") for name in names]
    return {part for part, words in (("attention", ("self_attn",)), ("mlp", ("shared_experts", ".mlp", "_proj")),
                                     ("experts", (".experts",))) if any(end.endswith(words) for end in ends)}


def _of(found, key):
    method = found.get("quant_method", "mlx" if key == "quantization" else None)
    if method in ("fp8", "fbgemm_fp8"):
        block = found.get("weight_block_size")
        if block is None:
            return Format("fp8", 8, 0, 32)
        if not isinstance(block, list) or len(block) != 2 or not all(type(n) is int and 0 < n < 1 << 20 for n in block):
            raise FormatError(f"{key}.weight_block_size is {block!r:.80}", "two integers of at least 1")
        return Format("fp8", 8, block[1], 32 // block[0] or 1)
    if method == "mxfp4":
        return Format("mxfp4", 4, 32, 8, ("experts",))
    if method in ("awq", "gptq", "mlx", "auto-round"):
        bits, group = _number(found, "bits", key), _number(found, "group_size", key, 128 if method != "mlx" else 64)
        return Format(f"{method} {bits} bit", bits, max(0, group), 32 if method == "mlx" else 16 + bits)
    if method == "compressed-tensors":
        return _compressed(found, key)
    return _more(found, key, method)


def _more(found, key, method):
    """The formats whose weights are mostly unpacked when they are loaded."""
    if method == "modelopt" and str(found.get("quant_algo")) in MODELOPT:
        return MODELOPT[str(found["quant_algo"])]
    if method == "bitsandbytes":
        scale = 8 if found.get("bnb_4bit_use_double_quant") is True else 32
        return Format("nf4 of bitsandbytes", 4, 64, scale, at_load=True) if found.get("load_in_4bit") else \
            Format("int8 of bitsandbytes", 8, 0, 32)
    if method == "bitnet":
        return Format("bitnet", 2)
    if method == "quanto" and str(found.get("weights")) in QUANTO:
        return Format(f"{found['weights']} of quanto", QUANTO[str(found["weights"])], at_load=True)
    if method == "hqq":
        inner = found.get("quant_config")
        inner = inner.get("weight_quant_params") if isinstance(inner, dict) else None
        if not isinstance(inner, dict):
            raise FormatError(f"{key} of hqq has no quant_config with weight_quant_params", "their nbits")
        bits, group = _number(inner, "nbits", key), _number(inner, "group_size", key, 64)
        return Format(f"hqq {bits} bit", bits, max(0, group), 16 + bits)
    raise FormatError(f"{key} has the method {method!r}", KNOWN)


def _compressed(found, key):
    groups = found.get("config_groups")
    first = next(iter(groups.values()), None) if isinstance(groups, dict) else None
    weights = first.get("weights") if isinstance(first, dict) else None
    if not isinstance(weights, dict):
        raise FormatError(f"{key} of compressed-tensors has no config_groups with weights", "their bits")
    bits = _number(weights, "num_bits", key)
    group = _number(weights, "group_size", key) if weights.get("group_size") else 0
    if weights.get("type") == "float" and bits == 4:
        return dataclasses.replace(MODELOPT["NVFP4"], group=max(1, group or 16))
    kind = "fp8" if weights.get("type") == "float" and bits == 8 else f"int{bits}"
    return Format(f"{kind} of compressed-tensors", bits, max(0, group))


def _number(found, name, key, default=None):
    value = found.get(name, default)
    of_bits = name != "group_size"
    if isinstance(value, bool) or not isinstance(value, int) or (of_bits and value not in (2, 3, 4, 5, 6, 8)):
        raise FormatError(f"{key}.{name} is {value!r}", "the bits of a weight, 2 to 8" if of_bits else "an integer")
    return value
