"""Tests the formats of quantised weights: the bits of an element, counted by hand from what each format's files hold,
and what is refused.
"""

import pytest

from nkisim_model.formats import FormatError, format_of

GROUPS = {"config_groups": {"group_0": {"weights": {"num_bits": 4, "group_size": 128}}}}


def quantised(method, **more):
    return {"quantization_config": {"quant_method": method, **more}}


@pytest.mark.parametrize("config, bits", [
    # One scale of 8 bits for 32 elements of 4 (OCP's MX specification).
    (quantised("mxfp4"), 4 + 8 / 32),
    # AWQ and GPTQ: of each group a scale of 16 bits and a zero point as wide as an element.
    (quantised("awq", bits=4, group_size=128), 4 + (16 + 4) / 128),
    (quantised("gptq", bits=8, group_size=64), 8 + (16 + 8) / 64),
    (quantised("gptq", bits=3), 3 + (16 + 3) / 128),
    (quantised("gptq", bits=4, group_size=-1), 4),  # one scale for a column
    # MLX: a scale and a bias of 16 bits each for 64 elements.
    ({"quantization": {"bits": 4, "group_size": 64}}, 4 + 32 / 64),
    ({"quantization": {"bits": 6, "group_size": 32}}, 6 + 32 / 32),
    # FP8: one scale for a column, or one of 32 bits for a block.
    (quantised("fp8"), 8),
    (quantised("fbgemm_fp8"), 8),
    (quantised("fp8", weight_block_size=[1, 128]), 8 + 32 / 128),
    (quantised("compressed-tensors", **GROUPS), 4 + 16 / 128),
], ids=str)
def test_bits_of_an_element(config, bits):
    found = format_of(config)
    assert 8 * found.bytes_per_element == pytest.approx(bits)
    assert f"({bits:.4g} bits an element)" in found.said


@pytest.mark.parametrize("config, unpacked, dtype", [
    (quantised("fp8"), False, "float8_e4m3"), (quantised("mxfp4"), True, ""),
    (quantised("awq", bits=4, group_size=128), False, ""), (quantised("gptq", bits=8, group_size=64), False, "int8"),
    (quantised("gptq", bits=3), True, ""), (quantised("gptq", bits=4, group_size=-1), True, "")], ids=str)
def test_what_kernels_take_is_not_unpacked(config, unpacked, dtype):
    found = format_of(config)
    assert (found.unpacked, found.dtype) == (unpacked, dtype)


@pytest.mark.parametrize("config", [
    quantised("unheard"), {"quantization_config": "fp8"}, quantised("awq", bits=7), quantised("awq", bits=True),
    quantised("gptq", bits=4, group_size="128"), quantised("fp8", weight_block_size=[128]),
    quantised("fp8", weight_block_size=[128, 0]), quantised("compressed-tensors"),
    quantised("compressed-tensors", config_groups={"g": {"weights": None}})], ids=str)
def test_what_is_not_known_is_refused(config):
    with pytest.raises(FormatError, match="required: "):
        format_of(config)


def test_weights_that_are_not_quantised():
    assert format_of({}) is format_of({"quantization_config": None}) is None
