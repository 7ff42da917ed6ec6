"""HPC, vision, speech, image and data-science sizing: hand-worked formulas, published points, properties."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.catalog.loader import load_catalog
from app.engine import molecular, solvers
from app.engine.cpu_jobs import size_cpu_job
from app.engine.data_science import cpu_data_science, size_data_science
from app.engine.host import CPU_SERVER, CpuFit
from app.engine.hpc import cpu_hpc, size_hpc
from app.engine.image import cpu_image, image_flop, size_image, split_speedup
from app.engine.jobs import span_counts
from app.engine.platform import Platform, ScaleOut, platform_of
from app.engine.result import Shortfall, Sized
from app.engine.speech import batch_real_time_factor, cpu_speech, encoder_flop, recogniser_of, size_speech, streams_per_gpu
from app.engine.vision import cpu_vision, local_batch, peak_fraction, size_vision
from app.ranges import Range
from app.units import GB, TFLOP
from app.workload.demand import DataScienceDemand, Demand, HpcDemand, ImageDemand, PrecisionDemand, SpeechDemand, VisionDemand

CATALOG = load_catalog()
WHISPER = {name: CATALOG.find_model(f"openai/whisper-{name}") for name in ("tiny", "small", "large-v3")}
FLUX = CATALOG.find_model("black-forest-labs/FLUX.1-dev")
SDXL = CATALOG.find_model("stabilityai/stable-diffusion-xl-base-1.0")


def machine(gpu: str, gpus: int = 8, network: ScaleOut | None = None) -> Platform:
    return platform_of(CATALOG.gpus[gpu], None, gpus_per_server=gpus, scale_out=network)


def hpc(code="custom", atoms_or_cells=None, memory=None, runs=1.0, mpi=False, fp64=False, deadline=None) -> HpcDemand:
    return HpcDemand(
        code=code,
        problem_size=atoms_or_cells,
        memory_gb=memory,
        halo_fraction=0.0,
        deadline_h=deadline,
        runs_per_day=runs,
        mpi=mpi,
        fp64=fp64,
    )


def rates(gpu: str) -> tuple[float, float]:
    found = molecular.rates(CATALOG.gpus[gpu], fp64=False)
    assert found is not None
    return found


# molecular dynamics


def test_md_step_by_hand():
    # reference GPU, 409 k atoms: 0.30 + 2.26 = 2.56 ms; 4 fs a step: 86400 / 2.56e-3 x 4e-6 = 135 ns/day
    assert molecular.step_s(409e3, 19.5 * TFLOP, 2039 * GB) == pytest.approx(2.56e-3)
    assert molecular.ns_per_day("amber", 409e3, 19.5 * TFLOP, 2039 * GB) == pytest.approx(135, rel=0.01)


@pytest.mark.parametrize(
    ("gpu", "atoms", "gpus", "code", "published"),
    [
        ("a100-sxm-80gb", 409e3, 2, "amber", 187),
        ("b200-sxm-180gb", 409e3, 1, "amber", 269),
        ("b200-sxm-180gb", 409e3, 2, "amber", 318),
        ("rtx-2080-ti", 65e3, 1, "gromacs", 229),
        ("rtx-2080-ti", 65e3, 2, "gromacs", 188),
    ],
)
def test_md_published_points(gpu, atoms, gpus, code, published):
    assert molecular.ns_per_day(code, atoms, *rates(gpu), gpus) == pytest.approx(published, rel=0.25)


def test_single_gpu_codes_run_side_by_side():
    sized = size_hpc(hpc("amber", 1e5, runs=20), machine("l40s"), "one_gpu", 64)
    assert isinstance(sized, Sized)
    assert sized.parallel.gpus == 1
    assert sized.replicas >= 2
    for span in ("one_server", "many_servers"):
        refused = size_hpc(hpc("amber", 1e5, mpi=True), machine("l40s"), span, 64)
        assert isinstance(refused, Shortfall)
        assert refused.constraint == "not_needed"


def test_a_run_longer_than_a_day_holds_one_gpu():
    # 570 k atoms on an A40 need more than a day for 50 ns: still one GPU for one run a day
    sized = size_hpc(hpc("custom", 0.57e6), machine("a40", 2), "one_gpu", 2)
    assert isinstance(sized, Sized)
    assert sized.gpus == 1
    assert sized.job.figures["hours_per_run"].mid > 24


# grid codes


def test_cells_per_second_by_hand():
    # A100, FP64: 2039e9 x 0.6 / 16000 = 76.5 M cells/s; compute 9.7e12 x 0.4 / 2000 = 1.94 G: memory rules
    rate = solvers.cell_rate(solvers.FINITE_VOLUME, CATALOG.gpus["a100-sxm-80gb"], fp64=True)
    assert rate == pytest.approx(2039e9 * 0.6 / 16000, rel=0.01)


def test_weak_fp64_rules_where_it_is_the_slower():
    # B300, FP64: 1.25e12 x 0.4 / 2000 = 250 M cells/s < 7750e9 x 0.6 / 16000 = 290 M
    b300 = CATALOG.gpus["b300-sxm-288gb"]
    assert solvers.cell_rate(solvers.FINITE_VOLUME, b300, fp64=True) == pytest.approx(b300.fp64_tflops * TFLOP * 0.4 / 2000)


def test_halo_of_a_cube():
    # 8 M cells on 8 GPUs: 1 M each, 6 x 100^2 = 60,000 faces x 8 bytes
    assert solvers.exchanged_bytes(solvers.FINITE_VOLUME, 8e6, 8, True, 0.0) == pytest.approx(480_000)
    assert solvers.exchanged_bytes(solvers.FINITE_VOLUME, 8e6, 8, True, 0.01) == pytest.approx(80_000)


def test_a_mesh_too_large_for_one_gpu_is_split_within_the_server():
    # 200 M cells x 2400 B = 480 GB; 80 GB x 0.95 - 1 = 75: seven GPUs
    demand = hpc("openfoam", 200e6, mpi=True, fp64=True)
    refused = size_hpc(demand, machine("h100-sxm-80gb"), "one_gpu", 64)
    assert isinstance(refused, Shortfall)
    assert refused.constraint == "memory"
    assert refused.needed == pytest.approx(480)
    sized = size_hpc(demand, machine("h100-sxm-80gb"), "one_server", 64)
    assert isinstance(sized, Sized)
    assert sized.parallel.gpus == 7
    assert sized.communication[0].level == "scale_up"


def test_a_mesh_too_large_for_one_server_needs_the_network():
    network = ScaleOut(kind="infiniband", nic_gbit_per_s=400, nics_per_server=8)
    demand = hpc("openfoam", 1e9, mpi=True, fp64=True)
    assert isinstance(size_hpc(demand, machine("h100-sxm-80gb"), "one_server", 64), Shortfall)
    sized = size_hpc(demand, machine("h100-sxm-80gb", 8, network), "many_servers", 64)
    assert isinstance(sized, Sized)
    assert sized.parallel.gpus == 32  # 2400 GB / 75 GB = 32
    slow = size_hpc(demand, machine("h100-sxm-80gb", 8, ScaleOut(kind="tcp", nic_gbit_per_s=10, nics_per_server=1)), "many_servers", 64)
    assert isinstance(slow, Sized)
    assert slow.job.figures["hours_per_run"].mid > 2 * sized.job.figures["hours_per_run"].mid


def test_small_mesh_stays_on_one_gpu():
    demand = hpc("custom", 4e6, mpi=True, fp64=True)
    assert isinstance(size_hpc(demand, machine("a100-pcie-80gb"), "one_gpu", 8), Sized)
    refused = size_hpc(demand, machine("a100-pcie-80gb"), "one_server", 8)
    assert isinstance(refused, Shortfall)
    assert refused.constraint == "not_needed"


def test_a_deadline_nothing_meets_names_the_nearest():
    refused = size_hpc(hpc("openfoam", 60e6, mpi=True, deadline=1e-4), machine("h100-sxm-80gb"), "one_server", 64)
    assert isinstance(refused, Shortfall)
    assert refused.constraint == "deadline"
    assert refused.nearest is not None


def test_memory_only_runs_and_copies():
    # 1000 runs of 20 GB: 20e9 x 3e4 / (0.6 x sqrt(864e9 x 2039e9)) = 753 s = 0.209 h; 1000 x 0.209 / 24 = 8.7
    sized = size_hpc(hpc(memory=20, runs=1000), machine("l40s"), "one_gpu", 1000)
    assert isinstance(sized, Sized)
    assert sized.replicas == 9
    few = size_hpc(hpc(memory=20, runs=1000), machine("l40s"), "one_gpu", 5)
    assert isinstance(few, Shortfall)
    assert few.constraint == "gpus"


def test_memory_runs_scale_as_published():
    # AlphaFold 3: 24 / 16 / 12 h on L40S / A100 / H100
    l40s, a100, h100 = (solvers.memory_run_hours(20, bandwidth * GB) for bandwidth in (864, 2039, 3350))
    assert l40s / a100 == pytest.approx(24 / 16, rel=0.05)
    assert h100 / a100 == pytest.approx(12 / 16, rel=0.05)


def test_no_network_and_weak_fp64_are_said():
    refused = size_hpc(hpc("openfoam", 1e9, mpi=True), machine("h100-sxm-80gb"), "many_servers", 64)
    assert isinstance(refused, Shortfall)
    assert refused.constraint == "fabric"
    assert isinstance(size_vision(vision(), machine("h100-sxm-80gb"), "many_servers", 64), Shortfall)
    assert isinstance(size_data_science(data(1500), machine("h100-sxm-80gb"), "many_servers", 64), Shortfall)
    weak = size_hpc(hpc("openfoam", 4e6, mpi=True, fp64=True), machine("l40s"), "one_gpu", 8)
    assert isinstance(weak, Sized)
    assert any("weak in FP64" in note for note in weak.notes)


def test_unknown_figures_are_said():
    refused = size_hpc(hpc("gromacs", 1e5), machine("gaudi3"), "one_gpu", 8)
    assert isinstance(refused, Shortfall)
    assert refused.constraint == "support"


def test_cpu_enough_for_small_named_runs_only():
    assert isinstance(cpu_hpc(hpc("openfoam", 1e6, mpi=True)), CpuFit)
    assert isinstance(cpu_hpc(hpc("gromacs", 150e3, runs=8)), Shortfall)
    assert isinstance(cpu_hpc(hpc("custom", memory=20)), Shortfall)


@given(
    code=st.sampled_from(["gromacs", "amber", "openfoam", "vasp", "custom"]),
    size=st.floats(100, 1e8),
    factor=st.floats(1, 10),
    fp64=st.booleans(),
)
def test_a_larger_problem_never_takes_fewer_gpus_or_hours(code, size, factor, fp64):
    size = size / 1e5 if code == "vasp" else size
    small = size_hpc(hpc(code, size, mpi=True, fp64=fp64, runs=10), machine("h100-sxm-80gb"), "one_gpu", 10**6)
    large = size_hpc(hpc(code, size * factor, mpi=True, fp64=fp64, runs=10), machine("h100-sxm-80gb"), "one_gpu", 10**6)
    if isinstance(small, Shortfall):
        assert isinstance(large, Shortfall)
    elif isinstance(large, Sized) and (code != "custom" or size * factor < 1e6 or size >= 1e6):
        assert large.replicas >= small.replicas
        assert large.job.figures["hours_per_run"].mid >= small.job.figures["hours_per_run"].mid * (1 - 1e-9)


# speech


def test_encoder_flop_by_hand():
    # large: 0.42 x 1.55e9 x 2 x 1500 = 1.953e12; attention 4 x 1500^2 x 1280 x 32 = 0.369e12
    assert encoder_flop(recogniser_of(WHISPER["large-v3"])) == pytest.approx(1.953e12 + 0.3686e12, rel=1e-3)


def test_published_speech_points():
    # Whisper large-v3 on A100, offline: 184 times real time; T4 and Whisper small, live: 16-20 streams
    assert batch_real_time_factor(recogniser_of(WHISPER["large-v3"]), 312 * TFLOP, 2039 * GB) == pytest.approx(184, rel=0.05)
    assert 16 <= streams_per_gpu(recogniser_of(WHISPER["small"]), 65 * TFLOP, 320 * GB) <= 20


def test_speech_copies_and_never_a_link():
    demand = SpeechDemand(streams=Range.exact(60), audio_hours=None, deadline_h=None)
    sized = size_speech(demand, WHISPER["small"], machine("t4"), "one_gpu", 8)
    assert isinstance(sized, Sized)
    assert sized.replicas == 4  # 18.5 x 0.9 = 16.6 streams each
    assert isinstance(size_speech(demand, WHISPER["small"], machine("t4"), "one_server", 8), Shortfall)


def test_twenty_short_recordings_need_no_gpu():
    small_queue = SpeechDemand(streams=None, audio_hours=2.0, deadline_h=24.0)
    assert isinstance(cpu_speech(small_queue, WHISPER["tiny"]), CpuFit)
    live = SpeechDemand(streams=Range.exact(36), audio_hours=None, deadline_h=None)
    assert isinstance(cpu_speech(live, WHISPER["small"]), Shortfall)


# images


def test_image_flop_matches_published_counts():
    # FLUX.1-dev 59.5 TFLOP a step; SDXL 5.98 TFLOP a pass, two passes a step with guidance
    assert image_flop(FLUX, 1024**2, 1) == pytest.approx(59.5e12, rel=0.02)
    assert image_flop(SDXL, 1024**2, 1) == pytest.approx(2 * 5.98e12, rel=0.02)


def test_splitting_an_image_matches_published_times():
    # 23.8 / 14.7 / 10.7 s on 1 / 2 / 4 GPUs
    assert split_speedup(2) == pytest.approx(23.8 / 14.7, rel=0.05)
    assert split_speedup(4) == pytest.approx(23.8 / 10.7, rel=0.07)


def test_image_latency_splits_only_when_asked():
    loose = ImageDemand(images_per_s=Range.exact(0.1), images=None, deadline_h=None, steps=28, pixels=1024**2, latency_s=60)
    tight = ImageDemand(images_per_s=Range.exact(0.1), images=None, deadline_h=None, steps=28, pixels=1024**2, latency_s=5)
    assert isinstance(size_image(loose, FLUX, machine("l40s"), "one_server", 8), Shortfall)
    assert isinstance(size_image(tight, FLUX, machine("l40s"), "one_gpu", 8), Shortfall)
    sized = size_image(tight, FLUX, machine("l40s"), "one_server", 8)
    assert isinstance(sized, Sized)
    assert sized.parallel.gpus > 1
    assert isinstance(cpu_image(loose, FLUX), Shortfall)


# vision


def vision(images=1e6, flop=24.6e9, params=25.6e6, deadline=None) -> VisionDemand:
    return VisionDemand(
        images=Range.exact(images), epochs=90, deadline_days=deadline, flop_per_image=flop, params=params, sample_bytes=1.1e5
    )


def test_vision_rate_matches_published_resnet():
    # ResNet-50 on one A100: 2,500-2,900 images/s
    sized = size_vision(vision(), machine("a100-sxm-80gb"), "one_gpu", 1)
    assert isinstance(sized, Sized)
    assert 2300 <= sized.job.figures["images_per_s"].mid <= 3000
    assert peak_fraction(1e9) == 0.20
    assert local_batch(24.6e9, 312e12) == 256


def test_a_second_pcie_card_gives_far_less_than_twice():
    # published 1.23x for a 2.6-billion image model over PCIe
    big = vision(images=1e5, flop=6e12, params=2.6e9)
    one = size_vision(big, machine("h100-pcie-80gb", 2), "one_gpu", 2)
    gpu = CATALOG.gpus["h100-pcie-80gb"]
    unbridged = platform_of(gpu.model_copy(update={"scale_up_link": "none", "scale_up_bridge": False}), None, gpus_per_server=2)
    two = size_vision(big, unbridged, "one_server", 2)
    assert isinstance(one, Sized)
    assert isinstance(two, Sized)
    assert 1.1 <= one.job.figures["run_days"].mid / two.job.figures["run_days"].mid <= 1.6


def test_a_deadline_decides_the_count():
    relaxed = size_vision(vision(deadline=30), machine("a100-sxm-80gb"), "one_server", 8)
    pressed = size_vision(vision(deadline=0.1), machine("a100-sxm-80gb"), "one_server", 8)
    assert isinstance(relaxed, Sized)
    assert isinstance(pressed, Sized)
    assert relaxed.parallel.gpus == 2 < pressed.parallel.gpus
    refused = size_vision(vision(deadline=1e-4), machine("a100-sxm-80gb"), "one_server", 8)
    assert isinstance(refused, Shortfall)
    assert refused.nearest is not None
    assert isinstance(cpu_vision(vision(images=1000, deadline=1)), CpuFit)


# data science


def data(gb: float, users: float = 1, in_memory: bool = True) -> DataScienceDemand:
    return DataScienceDemand(dataset_gb=Range.exact(gb), users=users, in_memory=in_memory)


def test_data_frames_by_hand():
    # 15 GB x 2.5 = 37.5 GB in 48 x 0.95 - 1.5 = 44.1; 150 GB x 2.5 = 375 GB over 96 x 0.95 - 1.5 = 89.7: five
    assert isinstance(size_data_science(data(15), machine("l40s"), "one_gpu", 8), Sized)
    sized = size_data_science(data(150), machine("rtx-pro-6000-server"), "one_server", 8)
    assert isinstance(sized, Sized)
    assert sized.parallel.gpus == 5
    streamed = size_data_science(data(150, in_memory=False), machine("l40s"), "one_gpu", 8)
    assert isinstance(streamed, Sized)
    assert isinstance(cpu_data_science(data(1)), CpuFit)
    assert isinstance(cpu_data_science(data(100)), Shortfall)


@given(gb=st.floats(0.1, 2000), factor=st.floats(1, 5))
def test_more_data_never_fits_fewer_gpus(gb, factor):
    def smallest(size: float) -> float:
        for span in ("one_gpu", "one_server"):
            sized = size_data_science(data(size), machine("h100-sxm-80gb"), span, 8)
            if isinstance(sized, Sized):
                return sized.gpus
        return 9

    assert smallest(gb * factor) >= smallest(gb)


def test_span_counts():
    assert span_counts("one_gpu", machine("l40s", 4), 8) == [1]
    assert span_counts("one_server", machine("l40s", 4), 3) == [2, 3]
    assert span_counts("many_servers", machine("l40s", 4), 16) == [8, 12, 16]


def test_the_yardstick_server():
    # 0.35 x 64 cores x 2.7e9 x 64 = 3.87 TFLOP/s; 0.75 x 24 x 38.4e9 = 691 GB/s
    assert CPU_SERVER.fp32_flops == pytest.approx(3.87e12, rel=0.01)
    assert CPU_SERVER.bandwidth_bytes_per_s == pytest.approx(691e9, rel=0.01)


def test_one_question_for_every_kind():
    auto = PrecisionDemand(weights="auto", kv_cache="auto", training="auto")

    def whole(shape=None, **part) -> Demand:
        return Demand(workload="x", shape=shape, precision=auto, **part)

    queue = SpeechDemand(streams=None, audio_hours=2.0, deadline_h=24.0)
    assert isinstance(size_cpu_job(whole(speech=queue, shape=WHISPER["tiny"])), CpuFit)
    assert isinstance(size_cpu_job(whole(data_science=data(100))), Shortfall)
    assert isinstance(size_cpu_job(whole(hpc=hpc("openfoam", 1e6, mpi=True))), CpuFit)
    assert isinstance(size_cpu_job(whole(vision=vision(images=1e9, deadline=1))), Shortfall)
    picture = ImageDemand(images_per_s=Range.exact(1), images=None, deadline_h=None, steps=28, pixels=1024**2, latency_s=5)
    assert isinstance(size_cpu_job(whole(image=picture, shape=FLUX)), Shortfall)
    assert size_cpu_job(whole()) is None
