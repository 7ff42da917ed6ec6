"""Names as people write them: models without maker, release and quantisation suffixes; GPUs without maker."""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches
from functools import cache

SUFFIXES = frozenset(
    (
        "instruct", "base", "hf", "it", "chat", "preview", "dynamic", "block", "kv", "gguf", "gptq", "awq", "bnb", "mlx", "exl2", "exl3",
        "fp4", "nvfp4", "mxfp4", "fp8", "int4", "int8", "bf16", "fp16", "4bit", "8bit", "w4a16", "w8a8", "w8a16", "quantized.w4a16",
        "quantized.w8a8", "quantized.w8a16",
    )
)  # fmt: skip
"""Endings of a model's name that leave its shape as it is."""
RELEASE = re.compile(r"(2[3-6](0\d|1[0-2])|(0\d|1[0-2])([0-2]\d|3[01])|v0\.\d)")
"""Year and month, month and day, or a release below 1, as makers append them: 2507, 0528, v0.2."""
GGUF_FORMAT = re.compile(r"-i?q[2-8](-[01k])?(-(xxs|xs|s|m|l|xl))?$")
MAKERS = re.compile(r"\b(nvidia|geforce|amd|instinct|radeon|intel|google|aws|tesla)\b")


@cache
def model_key(text: str) -> str:
    """A model's name without organisation, case, and the endings that do not change its shape."""
    name = text.strip().rsplit("/", 1)[-1].lower().replace("_", "-").replace(" ", "-")
    parts = [part for part in GGUF_FORMAT.sub("", name.removeprefix("meta-")).split("-") if part]
    while len(parts) > 1 and (parts[-1] in SUFFIXES or RELEASE.fullmatch(parts[-1])):
        parts.pop()
    return "".join(parts)


@cache
def gpu_key(text: str) -> str:
    """A GPU's id or name without maker, case and punctuation."""
    return re.sub(r"[^a-z0-9]", "", MAKERS.sub("", text.lower()))


def nearest(key: str, known: Iterable[str], count: int) -> list[str]:
    """Known keys near ``key``: first those that begin with it, shortest first, then by likeness of spelling."""
    keys = list(known)
    longer = sorted((name for name in keys if key and name.startswith(key)), key=len)
    return list(dict.fromkeys([*longer, *get_close_matches(key, keys, n=count, cutoff=0.4)]))[:count]
