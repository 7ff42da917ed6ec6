"""The checks that prove a delivered system, with the value this engine expects."""

from __future__ import annotations

from app.advice.recommendation import AcceptanceCheck
from app.engine.collectives import collective_time_s
from app.engine.result import Sized
from app.ranges import Range
from app.units import GB, GBIT_PER_S
from app.workload.demand import Demand

TEST_BYTES = 2**30
"""Message of the bandwidth test, 1 GiB: far into the bandwidth regime of every link."""

EXPECTED_SPREAD = (0.85, 1.10)
"""Bus bandwidth of equal systems differs by about this much between published runs."""


def acceptance_checks(sized: Sized, demand: Demand) -> list[AcceptanceCheck]:
    """Topology, link, network and engine checks that apply to the design and its load."""
    job = sized.parallel.gpus
    vendor = sized.platform.gpu.vendor
    checks = [_memory_check(sized, vendor)]
    if job > 1:
        checks.append(_topology_check(sized, vendor))
        checks.append(_bandwidth_check(sized, min(job, sized.platform.gpus_per_server), 1))
    if job > sized.platform.gpus_per_server and sized.platform.scale_out is not None:
        checks.append(_bandwidth_check(sized, job, -(-job // sized.platform.gpus_per_server)))
        checks.append(_nic_check(sized))
    load = demand.serving
    if sized.serving is not None and sized.serving.tpot_ms is not None and sized.engine and load is not None and demand.shape is not None:
        flight = max(round(sized.serving.concurrent_per_replica), 1)
        checks.append(
            AcceptanceCheck(
                check="Time per output token at the sized load",
                command=(
                    f"vllm bench serve --model {demand.shape.id} --dataset-name random --random-input-len {load.input_tokens:.0f} "
                    f"--random-output-len {load.output_tokens:.0f} --max-concurrency {flight} --num-prompts {10 * flight}"
                ),
                expected=sized.serving.tpot_ms,
                unit="ms",
                if_missed="CUDA graphs off, wrong attention kernel, power cap, or a PCIe link at reduced width",
            )
        )
    return checks


def _memory_check(sized: Sized, vendor: str) -> AcceptanceCheck:
    nameplate = sized.platform.gpu.memory_gb
    command = {
        "nvidia": "nvidia-smi --query-gpu=name,memory.total,pcie.link.gen.max,pcie.link.width.max --format=csv",
        "amd": "amd-smi static --vram --bus",
        "intel": "xpu-smi discovery",
    }.get(vendor, "vendor tool")
    return AcceptanceCheck(
        check="GPU model, memory and PCIe width",
        command=command,
        expected=None if nameplate is None else Range(low=nameplate * 0.92, mid=nameplate, high=nameplate * 1.01),
        unit="GB",
        if_missed="another part than ordered, ECC reserve, or a card in an x8 slot",
    )


def _topology_check(sized: Sized, vendor: str) -> AcceptanceCheck:
    command = {"nvidia": "nvidia-smi topo -m", "amd": "rocm-smi --showtopo"}.get(vendor, "vendor topology tool")
    link = sized.platform.scale_up
    wanted = "NV links between all GPUs" if link.kind.startswith("nvlink") else f"{link.kind} between all GPUs of one job"
    return AcceptanceCheck(
        check=f"Links between GPUs: {wanted}",
        command=command,
        expected=None,
        unit="",
        if_missed="bridge not seated, cards on different sockets (SYS), or peer-to-peer off",
    )


def _bandwidth_check(sized: Sized, ranks: int, nodes: int) -> AcceptanceCheck:
    """Bus bandwidth of a 1 GiB all-reduce, nccl-tests definition: bytes x 2(n-1)/n / time."""
    per_server = min(ranks, sized.platform.gpus_per_server)
    seconds = float(collective_time_s("all_reduce", float(TEST_BYTES), ranks, per_server, sized.platform))
    busbw = TEST_BYTES * 2 * (ranks - 1) / ranks / seconds / GB
    tool = "all_reduce_perf -b 1G -e 1G -g 1"
    where = f"{ranks} GPUs in one server" if nodes == 1 else f"{ranks} GPUs in {nodes} servers"
    return AcceptanceCheck(
        check=f"All-reduce bus bandwidth, {where}",
        command=f"mpirun -np {ranks} {tool}" if nodes > 1 else f"mpirun -np {ranks} {tool}  # nccl-tests or rccl-tests",
        expected=Range(low=busbw * EXPECTED_SPREAD[0], mid=busbw, high=busbw * EXPECTED_SPREAD[1]),
        unit="GB/s",
        if_missed="peer-to-peer off or access control services on"
        if nodes == 1
        else "sockets instead of RDMA, GPUDirect off, wrong NIC for the GPU, one NIC shared, or PCIe x8",
    )


def _nic_check(sized: Sized) -> AcceptanceCheck:
    network = sized.platform.scale_out
    assert network is not None
    rate = network.nic_gbit_per_s * GBIT_PER_S / GB
    return AcceptanceCheck(
        check="One NIC, RDMA write",
        command="ib_write_bw -d <device> --report_gbits -q 4",
        expected=Range(low=rate * 0.9, mid=rate * 0.96, high=rate),
        unit="GB/s",
        if_missed="wrong link speed, bad cable, MTU, or flow control not set",
    )
