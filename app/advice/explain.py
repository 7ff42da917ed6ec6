"""The words of the verdict: what was chosen, why, and what the runner-up would cost."""

from __future__ import annotations

from collections.abc import Mapping

from app.advice.decision import Decision, dearer_by
from app.advice.ranking import SIMPLICITY, TIE_FRACTION, Option, place, score, speed_s
from app.advice.recommendation import Architecture
from app.engine.result import Sized
from app.ranges import Range
from app.units import percent, significant
from app.workload.demand import Demand

LABELS = {
    Architecture.CPU_ONLY: "CPU only",
    Architecture.SINGLE_GPU: "Single GPU",
    Architecture.MULTI_GPU_PCIE: "Several GPUs over PCIe",
    Architecture.NVLINK_SERVER: "NVLink server",
    Architecture.INFINIBAND_CLUSTER: "InfiniBand cluster",
    Architecture.ETHERNET_CLUSTER: "Ethernet cluster",
}


def plural(count: int, noun: str) -> str:
    """``1 GPU``, ``8 GPUs``."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def link_name(sized: Sized) -> str:
    """The scale-up link in words: NVLink 4, Infinity Fabric, PCIe 5."""
    kind = sized.platform.scale_up.kind
    if kind.startswith("nvlink"):
        name = f"NVLink {kind.removeprefix('nvlink').split('-')[0]}"
        return f"{name} bridge" if sized.platform.scale_up.bridge else name
    if kind.startswith("pcie"):
        return f"PCIe {kind.removeprefix('pcie')}"
    return {"infinity_fabric": "Infinity Fabric", "gaudi_ethernet": "on-board Ethernet", "xe_link": "Xe Link"}.get(kind, kind)


def network_name(sized: Sized) -> str:
    """The network between servers in words, with its speed per server."""
    network = sized.platform.scale_out
    if network is None:
        return "no network between servers"
    family = {"infiniband": "InfiniBand", "roce": "RoCE Ethernet", "tcp": "Ethernet (TCP)"}.get(network.kind, network.kind)
    return f"{network.nics_per_server} × {network.nic_gbit_per_s:g} Gbit/s {family} per server"


def hardware_phrase(option: Option) -> str:
    """``2 servers with 8 H100 each over NVLink 4, joined by 8 × 400 Gbit/s InfiniBand per server``."""
    sized, name = option.sized, option.sized.platform.gpu.name
    job = sized.parallel.gpus
    if option.architecture is Architecture.SINGLE_GPU:
        if sized.replicas == 1:
            return f"One {name}"
        return f"{sized.replicas:,} independent {name}, one copy of the job on each, in {plural(sized.servers, 'server')}"
    if option.architecture in (Architecture.MULTI_GPU_PCIE, Architecture.NVLINK_SERVER):
        group = f"{job} {name} over {link_name(sized)}"
        if sized.replicas == 1:
            return f"One server with {group}"
        return f"{sized.replicas:,} independent groups of {group}, in {plural(sized.servers, 'server')}"
    return (
        f"{plural(sized.servers, 'server')} with {sized.platform.gpus_per_server} {name} each ({plural(sized.gpus, 'GPU')}), "
        f"joined by {network_name(sized)}"
    )


def result_phrase(sized: Sized) -> str:
    """What the design does, in the workload's own terms."""
    if sized.training is not None:
        training = sized.training
        if training.days is not None:
            return f"finishes the run in {significant(training.days.mid)} days at {significant(training.tokens_per_s.mid)} tokens/s"
        return f"trains at {significant(training.tokens_per_s.mid)} tokens/s"
    if sized.serving is not None:
        serving = sized.serving
        if serving.hours is not None:
            return f"finishes in {significant(serving.hours.mid)} hours"
        parts = [f"holds {serving.max_concurrent:,} requests in flight"]
        if serving.ttft_ms is not None:
            parts.append(f"first token in {significant(serving.ttft_ms.mid)} ms")
        if serving.tpot_ms is not None:
            parts.append(f"{significant(serving.tpot_ms.mid)} ms per token at the {serving.percentile:g}th percentile")
        return ", ".join(parts)
    if sized.job is not None and sized.job.figures:
        return figures_phrase(sized.job.figures)
    return "holds the job"


FIGURE_PHRASES = {
    "hours_per_run": "takes {} hours per run",
    "run_days": "finishes the run in {} days",
    "days": "finishes the run in {} days",
    "hours": "finishes in {} hours",
    "image_s": "makes an image in {} s",
    "query_s": "answers a query over all the data in {} s",
    "streams_supported": "carries {} live streams",
    "audio_hours_per_hour": "transcribes {} hours of audio an hour",
    "tpot_ms": "writes a token every {} ms",
    "ttft_ms": "reads a request in {} ms",
    "busy_fraction": "is busy for {} of its time",
}
"""The sentence of a job's first figure; a name not listed is printed as it stands."""


def figures_phrase(figures: Mapping[str, Range]) -> str:
    """What a job does, by its first figure."""
    if not figures:
        return "holds the job"
    name, value = next(iter(figures.items()))
    shown = percent(value.mid) if name == "busy_fraction" else significant(value.mid)
    return FIGURE_PHRASES.get(name, "gives {} " + name.replace("_per_", "/").replace("_", " ")).format(shown)


def summary(option: Option) -> str:
    """The verdict in one sentence."""
    return f"{hardware_phrase(option)}: it {result_phrase(option.sized)}."


def runner_up(decision: Decision, objective: str) -> str:
    """The next architecture and the price of choosing it, in one sentence; empty when none else works."""
    winner = decision.winner
    if winner is None:
        return ""
    other = next((option for option in decision.options if option.architecture is not winner.architecture), None)
    if other is None:
        return "No other architecture meets the demand; each one's limit is listed below."
    return f"Runner-up: {hardware_phrase(other)[:1].lower()}{hardware_phrase(other)[1:]}; {comparison(other, winner, objective)}."


def comparison(option: Option, winner: Option, objective: str) -> str:
    """How an option differs from the winner in cost and speed: ``31% dearer over 3 years and 4% faster``."""
    cost = dearer_by(option, winner, "cost")
    speed = speed_s(winner.sized) / max(speed_s(option.sized), 1e-12) - 1
    parts = ["the same cost" if abs(cost) < 0.005 else f"{abs(cost):.0%} {'dearer' if cost >= 0 else 'cheaper'} over the horizon"]
    if abs(speed) >= 0.01 and (option.sized.training or option.sized.serving or option.sized.job):
        parts.append(f"{abs(speed):.0%} {'faster' if speed > 0 else 'slower'}" if speed < 10 else f"{speed + 1:.0f} times faster")
    tied = abs(score(option, objective) / score(winner, objective) - 1) <= TIE_FRACTION
    simpler = place(winner.architecture) < place(option.architecture)
    return " and ".join(parts) + (" (equal within the margin of error, so the simpler design leads)" if tied and simpler else "")


def reasons(decision: Decision, demand: Demand) -> list[str]:
    """Why this design, in the order a doubter would ask: does it fit, is it fast enough, does the link matter."""
    winner = decision.winner
    if winner is None:
        return []
    sized = winner.sized
    used = sum(part.mid for part in sized.memory_gb.values())
    found = []
    if used > 0 and sized.capacity_gb > 0:
        found.append(
            f"Memory: {significant(used)} GB used of {significant(sized.capacity_gb)} GB usable per GPU"
            + ("" if sized.parallel.gpus == 1 else f", divided over {sized.parallel.gpus} GPUs")
            + "."
        )
    if sized.parallel.gpus == 1:
        found.append("The job fits one GPU, so nothing is exchanged between GPUs and no fast link is bought.")
    else:
        found.append(
            f"Exchange between GPUs takes {percent(sized.communication_fraction)} of the time over "
            f"{link_name(sized) if sized.span == 'one_server' else network_name(sized)}."
        )
    found.append(f"What limits it: {sized.bottleneck.replace('_', ' ')}.")
    simpler = [item for item in SIMPLICITY if SIMPLICITY.index(item) < SIMPLICITY.index(winner.architecture)]
    for architecture in simpler:
        refusal = decision.refusal_of(architecture)
        if refusal is not None and decision.best_of(architecture) is None:
            found.append(f"{LABELS[architecture]} does not serve: {refusal.shortfall.message}.")
    if demand.shape is not None and demand.shape.origin == "inferred":
        found.append("The architecture of the model was inferred from its size; naming the model makes this exact.")
    return found
