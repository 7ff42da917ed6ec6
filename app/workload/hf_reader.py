"""Typed access to the numbers of a Hugging Face ``config.json`` under the names the model families use."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

MAX_LAYERS, MAX_WIDTH, MAX_VOCAB, MAX_EXPERTS, MAX_TOKENS = 2_000, 1_000_000, 10_000_000, 100_000, 1_000_000_000
MAX_SHOWN = 40
"""Characters of a faulty value repeated in a message."""


class ConfigError(ValueError):
    """A config that cannot be sized: the key, what is wrong and the limit."""

    def __init__(self, key: str, message: str, limit: str = "") -> None:
        super().__init__(f"{key}: {message}")
        self.key, self.message, self.limit = key, message, limit


NAMES = {
    "layers": ("num_hidden_layers", "n_layer", "num_layers", "n_layers"),
    "hidden": ("hidden_size", "n_embd", "d_model", "n_embed", "model_dim", "dim"),
    "heads": ("num_attention_heads", "n_head", "n_heads"),
    "kv_heads": ("num_key_value_heads", "num_kv_heads", "n_head_kv", "kv_n_heads"),
    "ffn": ("intermediate_size", "ffn_dim", "n_inner", "ffn_hidden_size", "hidden_dim", "block_ff_dim"),
    "vocab": ("vocab_size", "padded_vocab_size"),
    "experts": ("num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts", "num_moe_experts"),
    "top_k": (
        "num_experts_per_tok", "num_experts_per_token", "moe_topk", "top_k_experts", "moe_top_k", "moe_k", "num_selected_experts",
    ),
    "moe_ffn": ("moe_intermediate_size", "expert_ffn_hidden_size", "expert_intermediate_size", "moe_ffn_hidden_size"),
    "shared": ("n_shared_experts", "num_shared_experts", "num_shared_expert", "moe_num_shared_experts"),
    "shared_ffn": ("shared_expert_intermediate_size", "moe_shared_expert_intermediate_size", "shared_intermediate_size"),
    "dense_first": ("first_k_dense_replace", "moe_layer_start_index", "num_dense_layers"),
    "window": ("sliding_window", "sliding_window_size", "local_attention"),
    "context": ("max_position_embeddings", "n_positions", "seq_length", "max_sequence_length", "max_seq_len"),
}  # fmt: skip
"""What is meant, and the keys that say it."""


@dataclasses.dataclass(frozen=True)
class Reader:
    """Typed access to a config's numbers under any of their names."""

    raw: Mapping[str, Any]

    def find(self, what: str) -> tuple[str, Any] | None:
        """The first key of ``what`` that is present and not null."""
        for name in NAMES.get(what, (what,)):
            if self.raw.get(name) is not None:
                return name, self.raw[name]
        return None

    def has(self, what: str) -> bool:
        """Whether any key of ``what`` is present and not null."""
        return self.find(what) is not None

    def count(self, what: str, *, low: int = 0, high: int = MAX_WIDTH, default: int | None = None) -> int:
        """A whole number within limits, or ``default``; a missing key without one is an error.

        A list with one value for each layer counts with its mean.
        """
        found = self.find(what)
        if found is None:
            if default is None:
                names = NAMES.get(what, (what,))
                raise ConfigError(names[0], f"is missing; a model needs {' or '.join(names[:2])}")
            return default
        name, value = found
        values = value if isinstance(value, list) and 0 < len(value) <= MAX_LAYERS else [value]
        return round(sum(_whole(name, item, low, high) for item in values) / len(values))

    def switch(self, key: str, *, default: bool = False) -> bool:
        """A true or false; anything else is an error."""
        value = self.raw.get(key)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise ConfigError(key, f"must be true or false, got {shown(value)}")
        return value

    def names(self, *keys: str) -> tuple[str, list[str]] | None:
        """The first of ``keys`` that is a list of words, one for each layer or block."""
        for key in keys:
            value = self.raw.get(key)
            if isinstance(value, list) and value:
                if len(value) > MAX_LAYERS:
                    raise ConfigError(key, f"has {len(value):,} entries", f"at most {MAX_LAYERS:,}")
                return key, [str(item)[:MAX_SHOWN] for item in value]
        return None

    def part(self, key: str) -> Reader:
        """A part of the config; empty where there is none."""
        value = self.raw.get(key)
        return Reader(value if isinstance(value, Mapping) else {})


def shown(value: Any) -> str:
    """A faulty value as a message repeats it. Long whole numbers are not written out: that alone can fail."""
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) >= 10**MAX_SHOWN:
        return f"a number of more than {MAX_SHOWN} digits"
    if isinstance(value, Mapping):
        return "an object"
    if isinstance(value, list | tuple):
        return "a list"
    return repr(str(value)[:MAX_SHOWN])


def _whole(name: str, value: Any, low: int, high: int) -> int:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or (isinstance(value, float) and (not math.isfinite(value) or value != int(value))):
        raise ConfigError(name, f"must be a whole number, got {shown(value)}", "whole number")
    if not low <= value <= high:
        raise ConfigError(name, f"is {shown(value)}; it must be from {low:,} to {high:,}", f"{low:,} to {high:,}")
    return int(value)
