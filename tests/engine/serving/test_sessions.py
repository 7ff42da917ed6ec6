"""Where conversations wait between their turns."""

from __future__ import annotations

from dataclasses import replace

import pytest

from app.engine.result import Sized
from app.engine.serving.replica import serving_job
from app.engine.serving.sessions import session_plan, size_conversations
from app.engine.serving.sizing import size_serving
from app.ranges import Range
from app.workload.demand import ServingDemand
from tests.engine.serving.conftest import AUTO, box, demand, model

LLAMA_8B = "meta-llama/Llama-3.1-8B-Instruct"


def talk(pause_s: float, **changes: object) -> ServingDemand:
    return replace(
        demand(), concurrent=Range.exact(64), turns=5.0, think_time_s=pause_s, prefix_reuse=0.8, reuse_assumed=True, input_tokens=2000,
        output_tokens=300, **changes,
    )  # fmt: skip


def placed(wanted: ServingDemand) -> Sized:
    found = size_conversations(wanted, model(LLAMA_8B), box(), "one_gpu", AUTO, 1, "cost")
    assert isinstance(found, Sized)
    assert found.sessions is not None
    return found


def test_who_waits_and_what_each_keeps() -> None:
    """Little's law: X turns a second, 20 s of pause after 4 of 5 turns. Llama 3.1 8B: 2 x 32 layers x 8 heads x 128 x 2 bytes
    = 131,072 bytes a token, x 2,300 tokens = 0.301 GB."""
    wanted = talk(20.0)
    sized = size_serving(wanted, model(LLAMA_8B), box(), "one_gpu", AUTO, 1)
    assert isinstance(sized, Sized)
    assert sized.serving is not None
    plan = session_plan(wanted, serving_job(wanted, model(LLAMA_8B), AUTO), sized)
    assert plan.waiting == pytest.approx(sized.serving.requests_per_s.mid * 20 * 4 / 5)
    assert plan.gb_per_session == pytest.approx(0.3015, abs=1e-3)


def test_longer_pauses_push_the_cache_outwards() -> None:
    tiers = [placed(talk(pause)).sessions.tier for pause in (1.0, 60.0, 86_400.0)]  # type: ignore[union-attr]
    assert tiers == ["gpu", "host", "recompute"]


def test_what_is_not_kept_is_read_again() -> None:
    kept, lost = placed(talk(1.0)), placed(talk(86_400.0))
    assert kept.serving is not None
    assert lost.serving is not None
    assert lost.serving.ttft_ms is not None
    assert kept.serving.ttft_ms is not None
    assert lost.serving.ttft_ms.mid > kept.serving.ttft_ms.mid
    assert "every turn reads all of it" in lost.notes[-1]


def test_the_servers_memory_is_sized_by_those_who_wait() -> None:
    plan = placed(talk(60.0)).sessions
    assert plan is not None
    assert plan.gb_per_server == pytest.approx(plan.waiting * plan.gb_per_session)
    assert plan.load_s < plan.recompute_s


def test_one_turn_keeps_nothing() -> None:
    found = size_conversations(replace(talk(60.0), turns=1.0), model(LLAMA_8B), box(), "one_gpu", AUTO, 1, "cost")
    assert isinstance(found, Sized)
    assert found.sessions is None
