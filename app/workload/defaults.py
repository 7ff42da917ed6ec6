"""Values taken when a profile is silent, each with its reason. Shown to the customer as assumptions."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from app.ranges import Range


@dataclass(frozen=True, slots=True)
class Default:
    """A value with unit, reason and source."""

    value: float
    unit: str
    why: str
    source: str = "convention"

    def shortened(self, factor: float) -> Default:
        """A smaller value, because the longest request stated leaves no room for the usual one."""
        value = max(math.floor(self.value * factor), 1)
        return replace(self, value=value, why=f"{self.why}; shortened to fit the longest request stated")


INPUT_TOKENS = Default(1000, "tokens", "A chat turn with some history")
OUTPUT_TOKENS = Default(300, "tokens", "A short answer of about 200 words")
EMBED_TOKENS = Default(512, "tokens", "A passage of the usual chunk size")
IMAGE_PIXELS = Default(1_000_000, "pixels", "About one megapixel per image")
PIXELS_PER_TOKEN = 784.0
"""One token per 28 x 28 pixels: Qwen2-VL, arXiv 2409.12191, section 2.1."""
BATCH_INPUT = Default(1000, "tokens", "About a page and a half of text")
BATCH_OUTPUT = Default(200, "tokens", "A summary or a few extracted fields")
BATCH_HOURS = Default(24, "h", "Overnight or within a day")
RECORDING_MINUTES = Default(10, "minutes", "Mean length of a recording, which was not stated")
SEQ_LEN = Default(4096, "tokens", "The usual training length of current models")
LORA_RANK = Default(16, "rank", "Adapters are usually of rank 8 to 64")
RUNS_PER_DAY = Default(1, "runs/day", "One run a day")
VISION_GFLOP = Default(4.1, "GFLOP per image, forward", "ResNet-50 at 224 pixels", "arXiv 1512.03385")
VISION_PARAMS_M = Default(25.6, "million parameters", "ResNet-50", "arXiv 1512.03385")
SAMPLE_MB = Default(0.15, "MB", "A compressed photograph of about 500 x 400 pixels")
GENERATED_PIXELS = Default(1_048_576, "pixels", "1024 x 1024")
DIFFUSION_STEPS = Default(28, "steps", "Usual for current diffusion models; distilled ones need 1 to 8")
IMAGE_SECONDS = Default(15, "s per image", "What people wait for an image")
PEAK_TO_AVERAGE = Default(3, "peak/average", "A working day's load falls in about eight hours")
TPOT = Default(
    125, "ms", "Relaxed service: 8 tokens/s, above reading pace; state a limit to ask for more", "sizing questionnaires: 8 to 15 tokens/s"
)

ACTIVE_SHARE = Range(low=0.05, mid=0.15, high=0.30)
"""Share of heads who use it within the busy hour; those waiting for an answer at one moment follow from their requests."""
REQUESTS_PER_ACTIVE_HOUR = Range(low=6.0, mid=15.0, high=30.0)
PEOPLE_SOURCE = "sizing questionnaires: 10% active, editable 5-20%"
SECONDS_BEFORE_FIRST_TOKEN = 1.0
SECONDS_PER_TOKEN = 0.04
"""25 tokens/s, the pace of a service within its limits."""


def ttft_limit(input_tokens: float) -> Default:
    """Five seconds, and 1.5 ms for every prompt token beyond 2,000: nobody expects a book read at once."""
    extra = max(input_tokens - 2000, 0.0) * 1.5
    why = "Relaxed service: first words within five seconds"
    why += ", and 1.5 ms for every prompt token beyond 2,000" if extra else ""
    return Default(
        round(5000 + extra), "ms", why + "; state a limit to ask for more", "sizing questionnaires: 1-2 s interactive, 5 s relaxed"
    )
