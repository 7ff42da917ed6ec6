"""Decisions a network engineer would accept, and the properties every decision keeps."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from app.advice.advisor import recommend
from app.advice.recommendation import Architecture, Recommendation
from app.catalog.loader import load_catalog
from app.workload.presets import PRESETS
from app.workload.profile import parse_profile

CATALOG = load_catalog()
MOMENT = datetime(2026, 12, 1, tzinfo=UTC)


def answer(profile: dict) -> Recommendation:
    return recommend(parse_profile(profile), CATALOG, created_at=MOMENT, recommendation_id="r", include_trace=True)


def chat(**serving) -> dict:
    return {
        "workload": "online_inference",
        "model": {"id": "meta-llama/Llama-3.1-8B-Instruct"},
        "serving": {"concurrent_users": 8, "input_tokens": 1000, "output_tokens": 300, **serving},
    }


CASES = [
    # One question, what fits it, and why.
    ("small chat fits one GPU", chat(), {"single_gpu"}, (1, 1)),
    (
        "70B in 16 bits outgrows an 80 GB GPU: 141 GB of weights",
        {
            **chat(),
            "model": {"id": "meta-llama/Llama-3.1-70B-Instruct"},
            "precision": {"weights": "bf16"},
            "constraints": {"gpus": ["h100-sxm-80gb"]},
        },
        {"nvlink_server"},
        (2, 8),
    ),
    (
        "405B in 8 bits outgrows one 8 x 40 GB server: 405 GB > 320 GB",
        {
            **chat(concurrent_users=2),
            "model": {"id": "meta-llama/Llama-3.1-405B-Instruct"},
            "precision": {"weights": "fp8"},
            "constraints": {"gpus": ["a100-sxm-40gb"]},
        },
        {"infiniband_cluster", "ethernet_cluster"},
        (9, 32),
    ),
    (
        "full fine-tuning of 70B needs about 1.1 TB of state: more than one 640 GB server",
        {
            "workload": "finetuning",
            "model": {"params_b": 70},
            "training": {"tokens_b": 0.1, "seq_len": 4096},
            "constraints": {"gpus": ["h100-sxm-80gb"]},
        },
        {"infiniband_cluster", "ethernet_cluster"},
        (16, 64),
    ),
    (
        "QLoRA of 13B fits one 48 GB card: 7 GB of base",
        {
            "workload": "lora",
            "model": {"params_b": 13},
            "training": {"tokens_b": 0.01, "seq_len": 2048, "quantized_base": True},
            "constraints": {"gpus": ["l40s"]},
        },
        {"single_gpu"},
        (1, 1),
    ),
    (
        "no GPU allowed",
        {**chat(concurrent_users=1, tpot_ms=500), "model": {"id": "meta-llama/Llama-3.2-1B"}, "constraints": {"max_gpus": 0}},
        {"cpu_only"},
        (0, 0),
    ),
    (
        "a preferred network is kept",
        {
            "workload": "pretraining",
            "model": {"params_b": 30},
            "training": {"tokens_b": 500, "deadline_days": 30, "seq_len": 4096},
            "constraints": {"gpus": ["h100-sxm-80gb"], "network_preference": "infiniband"},
        },
        {"infiniband_cluster"},
        (32, 256),
    ),
    (
        "independent molecular-dynamics runs take one GPU each",
        {"workload": "hpc", "hpc": {"code": "amber", "problem_size_m": 0.1, "runs_per_day": 4, "mpi": False}},
        {"single_gpu"},
        (1, 8),
    ),
    (
        "a table larger than any card needs several",
        {"workload": "data_science", "data_science": {"dataset_gb": 200}, "constraints": {"gpus": ["rtx-pro-6000-server"]}},
        {"multi_gpu_pcie"},
        (3, 8),
    ),
]


@pytest.mark.parametrize(("profile", "accepted", "gpus"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_decisions(profile, accepted, gpus):
    found = answer(profile)
    assert str(found.architecture) in accepted, found.summary
    assert found.design is not None
    assert gpus[0] <= found.design.gpus <= gpus[1]


@pytest.fixture(scope="module", params=PRESETS, ids=lambda item: item.id)
def preset_answer(request):
    return recommend(request.param.profile, CATALOG, created_at=MOMENT, recommendation_id="r", include_trace=True)


def test_every_architecture_appears_once_at_least(preset_answer):
    named = {preset_answer.architecture} | {item.architecture for item in preset_answer.alternatives}
    named |= {item.architecture for item in preset_answer.rejected}
    assert named == set(Architecture)


def test_the_design_adds_up(preset_answer):
    design = preset_answer.design
    plan = design.parallel
    assert design.gpus_per_replica == plan.tp * plan.pp * plan.dp * plan.cp
    assert design.gpus == design.replicas * design.gpus_per_replica
    assert design.gpus <= design.servers * design.gpus_per_server
    memory = preset_answer.estimate.memory_gb
    total = memory["total"]
    assert total.mid <= memory["capacity"] * 1.001
    parts = sum(value.mid for name, value in memory.items() if name not in ("total", "capacity"))
    assert parts == pytest.approx(total.mid)


def test_the_bill_adds_up_and_nothing_is_negative(preset_answer):
    cost = preset_answer.cost
    known = sum(line.total_usd.mid for line in preset_answer.bill_of_materials if line.total_usd is not None)
    assert known == cost.capex_usd.mid
    assert all(line.quantity > 0 for line in preset_answer.bill_of_materials)
    assert cost.tco_usd.low <= cost.tco_usd.mid <= cost.tco_usd.high


def test_one_gpu_work_buys_no_fabric(preset_answer):
    if preset_answer.architecture in (Architecture.SINGLE_GPU, Architecture.MULTI_GPU_PCIE, Architecture.NVLINK_SERVER):
        network = preset_answer.network
        assert network is None or (network.spine_switches == 0 and "infiniband" not in network.fabric.lower())


def test_every_assumption_has_a_reason_and_every_finding_a_source(preset_answer):
    assert preset_answer.assumptions
    assert all(item.why for item in preset_answer.assumptions)
    assert all(item.sources for item in preset_answer.findings)
    assert preset_answer.trace["children"]


def test_json_round_trip(preset_answer):
    assert Recommendation.model_validate_json(preset_answer.model_dump_json()) == preset_answer


def test_the_same_profile_gives_the_same_answer():
    profile = PRESETS[0].profile
    first, second = (recommend(profile, CATALOG, created_at=MOMENT, recommendation_id="r") for _ in range(2))
    assert first == second


@settings(max_examples=12, deadline=None, phases=[Phase.generate], suppress_health_check=[HealthCheck.too_slow])
@given(users=st.integers(1, 400), more=st.integers(1, 400))
def test_more_users_never_get_fewer_gpus_of_one_kind(users, more):
    limits = {"constraints": {"gpus": ["l40s"]}}
    few = answer({**chat(concurrent_users=users), **limits})
    many = answer({**chat(concurrent_users=users + more), **limits})
    assert many.design.gpus >= few.design.gpus
    assert many.estimate.serving.max_concurrent >= users + more


def test_n_plus_1_adds_a_server_and_2n_doubles():
    base = {**chat(), "constraints": {"gpus": ["l40s"]}}
    plain = answer(base)
    spare = answer({**base, "constraints": {"gpus": ["l40s"], "availability": "n_plus_1"}})
    double = answer({**base, "constraints": {"gpus": ["l40s"], "availability": "2n"}})
    assert spare.design.servers > plain.design.servers
    assert double.design.gpus == 2 * plain.design.gpus


def test_a_budget_is_kept_or_named():
    found = answer({**chat(), "constraints": {"budget_usd": 10}})
    assert found.architecture in (None, Architecture.CPU_ONLY)
    assert any(item.constraint == "budget" for item in found.rejected)


def test_owned_hardware_costs_nothing_to_buy():
    owned = {"constraints": {"gpus": ["l40s"], "owned": [{"gpu": "l40s", "count": 2, "per_server": 2, "link": "pcie"}]}}
    found = answer({**chat(), **owned})
    servers = [line for line in found.bill_of_materials if line.category in ("server", "gpu")]
    assert sum(line.total_usd.mid for line in servers if line.total_usd is not None) == 0


def test_flip_conditions_hold_just_beyond_the_threshold():
    base = chat(concurrent_users=20)
    found = answer({**base, "constraints": {"gpus": ["l40s"]}})
    flips = [item for item in found.flip_conditions if item.input == "serving.concurrent_users" and item.direction == "above"]
    assert flips
    beyond = answer({**chat(concurrent_users=flips[0].value * 1.02), "constraints": {"gpus": ["l40s"]}})
    assert (beyond.architecture, beyond.design.gpus) != (found.architecture, found.design.gpus)
