"""The front of throughput per GPU against per-user speed."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from app.catalog.loader import load_catalog
from app.engine.serving.front import serving_front, weights_of
from app.engine.serving.replica import IN_FLIGHT, Replica, evaluate
from app.engine.serving.request import estimate_point
from tests.engine.serving.conftest import box, job

LLAMA_70B = job("meta-llama/Llama-3.3-70B-Instruct", input_tokens=2000, output_tokens=500)


def test_each_step_of_the_front_trades_speed_for_throughput() -> None:
    front = serving_front(LLAMA_70B, box("h200-sxm-141gb"), 8, ("bf16", "fp8"))
    assert len(front) > 5
    for faster, fuller in pairwise(front):
        assert faster.tokens_per_s_per_user > fuller.tokens_per_s_per_user
        assert faster.tokens_per_s_per_gpu < fuller.tokens_per_s_per_gpu


def test_no_layout_that_fits_beats_the_front() -> None:
    front = serving_front(LLAMA_70B, box("h200-sxm-141gb"), 8)
    found = evaluate(LLAMA_70B, box("h200-sxm-141gb"), "one_server", 8, 50.0)
    assert isinstance(found, Replica)
    fits = found.most_by_memory[:, np.newaxis] >= IN_FLIGHT
    speed = (1 / found.steady.tpot_s)[fits]
    share = (found.steady.requests_per_s * 500 / found.layout.gpus)[fits]
    for user, gpu in zip(speed, share, strict=True):
        assert any(each.tokens_per_s_per_user >= user * 0.999 and each.tokens_per_s_per_gpu >= gpu * 0.999 for each in front)


def test_only_formats_the_gpu_multiplies_in_are_tried() -> None:
    gpus = load_catalog().gpus
    assert weights_of(gpus["a100-sxm-80gb"], "bf16") == ("bf16",)
    assert weights_of(gpus["h100-sxm-80gb"], "bf16") == ("bf16", "fp8")
    assert weights_of(gpus["b200-sxm-180gb"], "fp8") == ("fp8", "fp4")
    assert weights_of(gpus["b200-sxm-180gb"], "fp4") == ("fp4",)


def test_a_request_that_leaves_the_layout_open_gets_the_front() -> None:
    open_request = {"catalog_model": "meta-llama/Llama-3.1-8B-Instruct", "gpu_id": "h100-sxm-80gb", "isl": 1000, "osl": 300}
    assert estimate_point(open_request, load_catalog())["front"]
    assert "front" not in estimate_point({**open_request, "tp": 1}, load_catalog())
