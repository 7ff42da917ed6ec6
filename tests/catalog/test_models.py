"""Model shapes: parameters, active parameters and cache bytes against the published figures."""

from __future__ import annotations

import pytest

from app.catalog.loader import load_catalog
from app.catalog.model_shape import ModelShape
from app.workload.architecture import kv_cache_bytes, kv_cache_bytes_per_token, parameter_counts

CATALOG = load_catalog()
KNOWN = [shape for shape in CATALOG.models.values() if shape.has_layers]

ROUNDED = {
    "moonshotai/Kimi-K2-Instruct": 1026.4,  # printed as 1T
    "moonshotai/Kimi-K2.5": 1026.4,  # printed as 1T
    "tiiuae/falcon-40b": 41.3,  # printed as 40B
}
"""Published with one or two digits; the count of the released widths, billions."""


@pytest.mark.parametrize("shape", KNOWN, ids=lambda shape: shape.id)
def test_parameters_match_the_published_count(shape: ModelShape) -> None:
    assert parameter_counts(shape).total / 1e9 == pytest.approx(ROUNDED.get(shape.id, shape.params_b), rel=0.02)


@pytest.mark.parametrize("shape", KNOWN, ids=lambda shape: shape.id)
def test_cache_bytes_match_the_published_figure(shape: ModelShape) -> None:
    if shape.kv_bytes_per_token_bf16_published:
        assert kv_cache_bytes_per_token(shape) == shape.kv_bytes_per_token_bf16_published


def test_most_rows_have_a_published_cache_figure() -> None:
    assert sum(1 for shape in KNOWN if shape.kv_bytes_per_token_bf16_published) >= 140


@pytest.mark.parametrize(
    ("model_id", "expected"),
    [
        ("meta-llama/Llama-3.1-70B-Instruct", 80 * 2 * 8 * 128 * 2),  # layers x (K and V) x KV heads x width x 2 B
        ("deepseek-ai/DeepSeek-V3", 61 * (512 + 64) * 2),  # latent and rope key, no heads
        ("google/gemma-4-31B-it", 10 * 2 * 4 * 512 * 2),  # full layers only, with widths of their own
        ("XiaomiMiMo/MiMo-V2-Flash", 9 * 4 * (192 + 128) * 2),  # key and value differ in width
        ("Qwen/Qwen3-Next-80B-A3B-Instruct", 12 * 2 * 2 * 256 * 2),  # one layer in four keeps a cache
        ("deepseek-ai/DeepSeek-V4-Flash", 512 * 2 * (21 / 4 + 20 / 128)),  # one shared head, entries merged 4 or 128 to 1
        ("deepseek-ai/DeepSeek-V4-Pro", 512 * 2 * (30 / 4 + 31 / 128)),
        ("state-spaces/mamba-2.8b-hf", 0),
    ],
)
def test_cache_bytes_by_hand(model_id: str, expected: float) -> None:
    assert kv_cache_bytes_per_token(CATALOG.models[model_id]) == pytest.approx(expected, rel=1e-6)


def test_a_fixed_state_does_not_grow() -> None:
    mamba = CATALOG.models["state-spaces/mamba-2.8b-hf"]
    assert mamba.linear_state_bytes_per_layer > 0
    assert kv_cache_bytes(mamba, 1_000) == kv_cache_bytes(mamba, 100_000) == 64 * mamba.linear_state_bytes_per_layer


def test_deepseek_v4_counts_follow_from_its_widths() -> None:
    # Attention of one Flash layer: 4096x1024 + 1024x64x512 + 4096x512 + 64x512x1024 + 8x1024x4096 = 106,954,752.
    flash = CATALOG.models["deepseek-ai/DeepSeek-V4-Flash"]
    counts = parameter_counts(flash)
    assert counts.full_attention_layer == 4_194_304 + 33_554_432 + 2_097_152 + 33_554_432 + 33_554_432
    assert counts.total / 1e9 == pytest.approx(283.8, abs=0.1)
    assert counts.active / 1e9 == pytest.approx(13.3, abs=0.05)


def test_a_size_alone_is_a_clear_state() -> None:
    unknown = {shape.id for shape in CATALOG.models.values() if not shape.has_layers and shape.modality in ("text", "text+vision")}
    assert unknown == {
        "gemma-4-12b-it",
        "google/gemma-4-E2B-it",
        "poolside/Laguna-S-2.1",
        "Qwen/Qwen3.5-4B",
        "Qwen/Qwen3.5-9B",
    }
    for name in unknown:
        note = CATALOG.model_sources[name].notes
        assert note.startswith(("Size only", "No size stated")), name


def test_decoders_with_layers_have_a_cache_or_a_state() -> None:
    for shape in KNOWN:
        if shape.modality in ("text", "text+vision"):
            assert kv_cache_bytes(shape, 1000) > 0, shape.id


def test_whisper_and_diffusion_carry_their_size() -> None:
    whisper = CATALOG.models["openai/whisper-large-v3"]
    assert (whisper.modality, whisper.params_b) == ("asr", 1.55)
    flux = CATALOG.models["black-forest-labs/FLUX.1-dev"]
    assert (flux.modality, flux.params_b) == ("diffusion_image", 11.9)
