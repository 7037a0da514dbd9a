"""Lists published times per token and to the first token of served models, and the predictions for
them. clients/model/tests/test_served_points.py checks them. Source: aws-neuron/aws-neuron-sdk @81ce03a,
about-neuron/benchmarks/inf2 and trn1, SDK 2.18. Confidence: medium. None of them set a number of
the simulator; docs/model-evidence.md says which were looked at.
"""

from __future__ import annotations

from typing import NamedTuple


class Measured(NamedTuple):
    """family: model and instance. context: for a first token the tokens of the prompt. predicted_ms: of `nkisim model`
    with its own kernels."""

    family: str
    batch: int
    context: int
    measured_ms: float
    predicted_ms: float


POINTS: tuple[Measured, ...] = (
    Measured("Llama 3 70B, inf2, tp 24", 1, 4096, 34.67, 32.58),
    Measured("Llama 3 70B, inf2, tp 24", 1, 3072, 33.81, 32.44),
    Measured("Llama 3 70B, inf2, tp 24", 1, 2048, 33.14, 33.13),
    Measured("Llama 3 70B, inf2, tp 24", 1, 1152, 32.47, 32.94),
    Measured("Llama 3 70B, inf2, tp 24", 1, 512, 32.48, 32.83),
    Measured("Llama 3 70B, inf2, tp 24", 1, 256, 32.2, 32.71),
    Measured("Llama 2 7B, inf2, tp 24", 1, 4096, 6.47, 7.18),
    Measured("Llama 2 7B, inf2, tp 24", 1, 8192, 7.34, 7.56),
    Measured("Llama 2 7B, inf2, tp 24", 8, 4096, 12.11, 12.68),
    Measured("Llama 2 7B, inf2, tp 24", 8, 8192, 16.39, 17.16),
    Measured("Llama 3 70B, trn1, tp 32", 1, 4096, 26.2, 26.38),
    Measured("Llama 3 70B, trn1, tp 32", 1, 1152, 24.48, 25.23),
    Measured("Llama 3 70B, trn1, tp 32", 1, 256, 26.48, 25.26),
    Measured("Llama 2 7B, trn1, tp 32", 1, 8192, 6.7, 6.17),
    Measured("Llama 3 70B, trn1, tp 32", 4, 4096, 32.33, 29.55),
    Measured("Llama 3 70B, trn1, tp 32", 4, 1152, 28.38, 27.63),
    Measured("Llama 3 70B, trn1, tp 32", 4, 256, 28.08, 28.08),
    Measured("Llama 2 7B, trn1, tp 32", 8, 8192, 10.1, 10.87),
    # AWS's tutorials of NxD Inference and vLLM (p50), with nki-library's kernels; docs/model-evidence.md.
    Measured("Llama 3.3 70B, trn2, tp 64", 1, 10240, 19.6, 17.44),
    Measured("Llama 3.1 8B, trn2, tp 8", 2, 2048, 10.52, 9.21),
    Measured("Qwen3 32B, trn2, tp 64", 1, 2048, 10.77, 12.25),
    Measured("GPT-OSS 120B, trn2, tp 16", 1, 2048, 7.0, 9.2))

#: Times to the first token, of the same pages, one prompt at a time.
FIRST_TOKENS: tuple[Measured, ...] = (
    Measured("Llama 3 70B, inf2, tp 24", 1, 128, 77.81, 68.36),
    Measured("Llama 3 70B, inf2, tp 24", 1, 256, 99.37, 89.71),
    Measured("Llama 3 70B, inf2, tp 24", 1, 1024, 310.18, 273.49),
    Measured("Llama 3 70B, inf2, tp 24", 1, 2048, 745.49, 529.12),
    Measured("Llama 3 70B, trn1, tp 32", 1, 128, 52.53, 55.47),
    Measured("Llama 3 70B, trn1, tp 32", 1, 2048, 547.0, 414.67),
    Measured("Llama 2 7B, inf2, tp 24", 1, 128, 27.64, 18.54),
    Measured("Llama 2 7B, trn1, tp 32", 1, 128, 13.32, 11.95))
