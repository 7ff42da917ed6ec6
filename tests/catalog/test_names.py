"""Names as people write them find the row they mean, or none."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.catalog.loader import load_catalog
from app.catalog.names import model_key, nearest

CATALOG = load_catalog()


@pytest.mark.parametrize(
    ("text", "model_id"),
    [
        ("meta-llama/Llama-3.1-70B-Instruct", "meta-llama/Llama-3.1-70B-Instruct"),
        ("META-LLAMA/llama-3.1-70b-instruct", "meta-llama/Llama-3.1-70B-Instruct"),
        ("llama 3.1 70b", "meta-llama/Llama-3.1-70B-Instruct"),
        ("Meta-Llama-3.1-70B-Instruct-FP8", "meta-llama/Llama-3.1-70B-Instruct"),
        ("RedHatAI/Meta-Llama-3.1-70B-Instruct-quantized.w4a16", "meta-llama/Llama-3.1-70B-Instruct"),
        ("unsloth/Llama-3.3-70B-Instruct-GGUF", "meta-llama/Llama-3.3-70B-Instruct"),
        ("Llama-3.3-70B-Instruct-Q4_K_M", "meta-llama/Llama-3.3-70B-Instruct"),
        ("Llama-2-70b", "meta-llama/Llama-2-70b-hf"),
        ("nvidia/DeepSeek-R1-NVFP4", "deepseek-ai/DeepSeek-R1"),
        ("deepseek-ai/DeepSeek-R1-0528", "deepseek-ai/DeepSeek-R1"),
        ("Qwen/Qwen3-30B-A3B", "Qwen/Qwen3-30B-A3B-Instruct-2507"),
        ("Qwen3-235B-A22B-GPTQ-Int4", "Qwen/Qwen3-235B-A22B-Instruct-2507"),
        ("mistralai/Mixtral-8x7B-v0.1", "mistralai/Mixtral-8x7B-Instruct-v0.1"),
        ("mistral-7b-instruct-v0.2", "mistralai/Mistral-7B-v0.3"),
        ("gpt-oss 120b", "openai/gpt-oss-120b"),
        ("Whisper large-v3", "openai/whisper-large-v3"),
        ("GPT-3 175B", "gpt-3-175b"),
    ],
)
def test_find_model(text: str, model_id: str) -> None:
    found = CATALOG.find_model(text)
    assert found is not None
    assert found.id == model_id


@pytest.mark.parametrize("text", ["", "llama", "llama 9 70b", "Llama-3.1-71B", "DeepSeek-V9", "DeepSeek-R1-Distill-Llama-70B"])
def test_another_model_is_not_taken_for_it(text: str) -> None:
    assert CATALOG.find_model(text) is None


def test_every_id_and_name_finds_its_own_row() -> None:
    for shape in CATALOG.models.values():
        assert CATALOG.find_model(shape.id) is shape
        by_name = CATALOG.find_model(shape.name)
        assert by_name is not None
        assert by_name.id == shape.id
    for gpu in CATALOG.gpus.values():
        assert CATALOG.find_gpu(gpu.id) is gpu
        assert CATALOG.find_gpu(gpu.name) is gpu


def test_a_name_of_two_sizes_finds_none() -> None:
    first = CATALOG.models["Qwen/Qwen3-8B"]
    twins = {"a/Twin-Base": replace(first, id="a/Twin-Base", name="Twin"), "b/Twin-Chat": replace(first, id="b/Twin-Chat", name="Twin")}
    same = replace(CATALOG, models=MappingProxyType(twins))
    found = same.find_model("Twin-Instruct")
    assert found is not None
    assert found.id == "a/Twin-Base"
    twins["b/Twin-Chat"] = replace(twins["b/Twin-Chat"], params_b=30.0)
    assert replace(CATALOG, models=MappingProxyType(dict(twins))).find_model("Twin-Instruct") is None


@pytest.mark.parametrize(
    ("text", "gpu_id"),
    [
        ("h100-sxm-80gb", "h100-sxm-80gb"),
        ("H100-SXM-80GB", "h100-sxm-80gb"),
        ("NVIDIA GeForce RTX 4090", "rtx-4090"),
        ("rtx4090", "rtx-4090"),
        ("A100 80GB SXM", "a100-sxm-80gb"),
        ("AMD Instinct MI300X", "mi300x"),
    ],
)
def test_find_gpu(text: str, gpu_id: str) -> None:
    found = CATALOG.find_gpu(text)
    assert found is not None
    assert found.id == gpu_id


@pytest.mark.parametrize("text", ["", "H100", "RTX 9090"])
def test_a_gpu_not_meant_is_not_found(text: str) -> None:
    assert CATALOG.find_gpu(text) is None


def test_suggestions() -> None:
    assert "h100-sxm-80gb" in CATALOG.suggest_gpus("H100")
    assert "meta-llama/Llama-3.1-70B-Instruct" in CATALOG.suggest_models("Llama-3.1-71B")
    assert CATALOG.suggest_models("xyzzy") == []
    assert CATALOG.suggest_models("") == []


@given(st.text(max_size=40))
def test_any_text_is_answered(text: str) -> None:
    assert len(CATALOG.suggest_models(text)) <= 3
    assert len(CATALOG.suggest_gpus(text)) <= 3
    found = CATALOG.find_model(text)
    assert found is None or model_key(text) in (model_key(found.id), model_key(found.name)) or text.strip().lower() == found.id.lower()


@given(st.text(max_size=20), st.lists(st.text(max_size=20), max_size=8))
def test_nearest_gives_known_keys_once(key: str, known: list[str]) -> None:
    found = nearest(key, known, 3)
    assert set(found) <= set(known)
    assert len(found) == len(set(found)) <= 3
