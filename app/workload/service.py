"""Demand of services and batches: chat, embeddings, transcription, image generation."""

from __future__ import annotations

from typing import Any

from app.catalog.model_shape import ModelShape
from app.ranges import Range
from app.workload import defaults
from app.workload.demand import BatchDemand, ImageDemand, ServingDemand, SpeechDemand
from app.workload.filling import Filler
from app.workload.load import Request, load_of
from app.workload.profile import FieldError, ProfileError, Serving, WorkloadProfile

MIN_CONTEXT = 1024.0
SERVING_DEFAULTS = {
    "percentile": ("percentile", "Usual in service agreements; the limits on time hold for this share of requests"),
    "engine": ("", "The engine is chosen with the design"),
    "prefix_reuse": ("share of prompt tokens", "Nothing is taken from the cache unless you say how much repeats"),
}
LONG_CONTEXT = "The model was made for {made:,.0f} tokens; longer requests need a variant with a longer context. Which one will you use?"


def online(profile: WorkloadProfile, shape: ModelShape | None, filler: Filler) -> dict[str, Any]:
    """Text generation with waiting users."""
    return {"serving": _serving_demand(profile, shape, filler, writes=True)}


def offline(profile: WorkloadProfile, shape: ModelShape | None, filler: Filler) -> dict[str, Any]:
    """Text generation without waiting users."""
    return {"batch": _batch_demand(profile, filler, writes=True)}


def embedding(profile: WorkloadProfile, shape: ModelShape | None, filler: Filler) -> dict[str, Any]:
    """Embeddings or reranking: prompts are read, nothing is written."""
    if profile.demand_part == "batch":
        return {"batch": _batch_demand(profile, filler, writes=False)}
    return {"serving": _serving_demand(profile, shape, filler, writes=False)}


def _lengths(serving: Serving, filler: Filler, *, writes: bool) -> tuple[float, float]:
    """Prompt and answer of a request, tokens. Defaults are shortened where the longest request stated is shorter."""
    default_in, default_out = (defaults.INPUT_TOKENS if writes else defaults.EMBED_TOKENS), defaults.OUTPUT_TOKENS
    longest = serving.max_context_tokens
    if longest is not None:
        taken = sum(stated.mid for stated in (serving.input_tokens, serving.output_tokens) if stated is not None)
        missing = [default_in.value] if serving.input_tokens is None else []
        missing += [default_out.value] if serving.output_tokens is None and writes else []
        room = max(longest - taken, 1.0)
        if sum(missing) > room:
            default_in, default_out = (item.shortened(room / sum(missing)) for item in (default_in, default_out))
    inputs = filler.mid(serving.input_tokens, "serving.input_tokens", default_in)
    outputs = filler.mid(serving.output_tokens, "serving.output_tokens", default_out) if writes else 0.0
    return inputs, outputs


def _conversation(serving: Serving, filler: Filler, inputs: float, outputs: float) -> tuple[float, float]:
    """Mean and longest prompt of a conversation whose every turn sends the whole history again.

    Turn k of n sends input + (k - 1) x (new + answer) tokens; the mean over the turns is input + (n - 1) / 2 x (new + answer).
    """
    if serving.turns <= 1:
        return inputs, inputs
    added = serving.new_tokens_per_turn
    if added is None:
        filler.note("serving.turns", serving.turns, "turns", "The prompt stated is taken as the mean over all turns, history included")
        return inputs, inputs
    grown = (serving.turns - 1) * (added + outputs)
    mean = inputs + grown / 2
    why = f"Mean prompt over {serving.turns:g} turns: each sends the first {inputs:,.0f} tokens and all that was said since"
    filler.note("serving.turns", round(mean), "tokens of a prompt", why, "arithmetic")
    return mean, inputs + grown


READING_WORDS_PER_S = 238 / 60
"""Silent reading of English prose, mean over 190 studies (Brysbaert, Journal of Memory and Language 109, 2019)."""
WORDS_PER_TOKEN = 0.75


def _between_turns(serving: Serving, filler: Filler, first: float, mean: float, outputs: float) -> tuple[float, bool, float]:
    """(share of prompt tokens re-used, whether that is assumed, pause between turns in seconds).

    What was said stays in the cache until the next turn: of a prompt only the new part is read. Over n turns that is
    ``(first + (n - 1) new) / n`` tokens of a mean prompt.
    """
    if serving.turns <= 1 or serving.new_tokens_per_turn is None:
        return serving.prefix_reuse, False, serving.think_time_s or 0.0
    pause = serving.think_time_s
    if pause is None:
        pause = outputs * WORDS_PER_TOKEN / READING_WORDS_PER_S
        filler.note("serving.think_time_s", round(pause), "s", "Time to read an answer at 238 words a minute", "Brysbaert 2019")
    if "prefix_reuse" in serving.model_fields_set:
        return serving.prefix_reuse, False, pause
    fresh = (first + (serving.turns - 1) * serving.new_tokens_per_turn) / serving.turns
    reuse = max(1 - fresh / mean, 0.0)
    why = "What was said stays in the cache from turn to turn, if memory holds it; else it is read again"
    filler.note("serving.prefix_reuse", round(reuse, 3), "share of prompt tokens", why, "arithmetic")
    return reuse, True, pause


def _images(serving: Serving, filler: Filler) -> float:
    """Prompt tokens that the images of a request become."""
    if not serving.images_per_request:
        return 0.0
    pixels = filler.number(serving.image_pixels, "serving.image_pixels", defaults.IMAGE_PIXELS)
    tokens = serving.images_per_request * pixels / defaults.PIXELS_PER_TOKEN
    filler.note("serving.images_per_request", round(tokens), "tokens", "Images become tokens: one per 28 x 28 pixels", "Qwen2-VL report")
    return tokens


def _context(serving: Serving, shape: ModelShape | None, filler: Filler, longest: float) -> float:
    """Longest prompt plus answer to serve, at least ``longest``; asked about where the model was made for less."""
    made = float(shape.max_context) if shape is not None and shape.max_context else None
    context = serving.max_context_tokens
    if context is None:
        context = max(2 * longest, MIN_CONTEXT)
        context = max(min(context, made) if made is not None else context, longest)
        filler.note("serving.max_context_tokens", context, "tokens", "Twice the mean request, within what the model was made for")
    context = max(context, longest)
    if made is not None and context > made:
        filler.questions.append(LONG_CONTEXT.format(made=made))
        why = f"Longer than the {made:,.0f} tokens the model was made for; sized as if it could"
        filler.note("serving.max_context_tokens", context, "tokens", why, "model card")
    return context


def _serving_demand(profile: WorkloadProfile, shape: ModelShape | None, filler: Filler, *, writes: bool) -> ServingDemand:
    serving = profile.serving
    assert serving is not None
    typed, outputs = _lengths(serving, filler, writes=writes)
    prompt = typed + _images(serving, filler)
    inputs, last = _conversation(serving, filler, prompt, outputs) if writes else (prompt, prompt)
    context = _context(serving, shape, filler, last + outputs)
    reuse, assumed, pause = _between_turns(serving, filler, prompt, inputs, outputs) if writes else (serving.prefix_reuse, False, 0.0)
    seconds = defaults.SECONDS_BEFORE_FIRST_TOKEN + outputs * defaults.SECONDS_PER_TOKEN
    request = Request(outputs if writes else inputs, seconds, "the time one answer takes at a comfortable reading speed")
    load = load_of(serving, filler, request)
    growth = filler.growth(profile)
    unstated = {name: why for name, why in SERVING_DEFAULTS.items() if not (assumed and name == "prefix_reuse")}
    filler.defaults_of(serving, "serving", unstated if writes else {"percentile": SERVING_DEFAULTS["percentile"]})
    return ServingDemand(
        concurrent=None if load.concurrent is None else load.concurrent.scaled(growth),
        requests_per_s=None if load.requests_per_s is None else load.requests_per_s.scaled(growth),
        stated_by=load.stated_by,
        input_tokens=inputs,
        output_tokens=outputs,
        shared_prefix_tokens=min(serving.shared_prefix_tokens, inputs),
        max_context_tokens=context,
        ttft_ms=filler.number(serving.ttft_ms, "serving.ttft_ms", defaults.ttft_limit(inputs)),
        tpot_ms=filler.number(serving.tpot_ms, "serving.tpot_ms", defaults.TPOT) if writes else serving.tpot_ms or defaults.TPOT.value,
        percentile=serving.percentile,
        engine=serving.engine,
        engine_version=serving.engine_version,
        turns=serving.turns,
        think_time_s=pause,
        prefix_reuse=reuse,
        reuse_assumed=assumed,
        images_per_request=serving.images_per_request,
        image_pixels=serving.image_pixels or 0.0,
        speculative_tokens=serving.speculative_tokens if writes else 0.0,
        acceptance_rate=serving.acceptance_rate or 0.0,
        ttft_stated=serving.ttft_ms is not None,
        tpot_stated=writes and serving.tpot_ms is not None,
    )


def _batch_demand(profile: WorkloadProfile, filler: Filler, *, writes: bool) -> BatchDemand:
    batch = profile.batch
    assert batch is not None
    inputs = filler.mid(batch.input_tokens, "batch.input_tokens", defaults.BATCH_INPUT if writes else defaults.EMBED_TOKENS)
    outputs = filler.mid(batch.output_tokens, "batch.output_tokens", defaults.BATCH_OUTPUT) if writes else 0.0
    if batch.items is not None:
        items = filler.middle(batch.items, "batch.items", "items")
        if batch.tokens_total is not None:
            filler.note("batch.tokens_total", "not used", "", "The number of items and their lengths are stated already")
    else:
        assert batch.tokens_total is not None
        items = filler.middle(batch.tokens_total, "batch.tokens_total", "tokens") / max(inputs + outputs, 1.0)
    return BatchDemand(
        items=items * filler.growth(profile),
        input_tokens=inputs,
        output_tokens=outputs,
        deadline_h=filler.number(batch.deadline_h, "batch.deadline_h", defaults.BATCH_HOURS),
    )


def _items(profile: WorkloadProfile, filler: Filler, unit: str) -> tuple[float, float]:
    """Number of items of a batch without tokens, and the hours it may take."""
    batch = profile.batch
    assert batch is not None
    if batch.items is None:
        raise ProfileError([FieldError("batch.items", f"is required: how many {unit}", "greater than 0")])
    items = filler.middle(batch.items, "batch.items", unit) * filler.growth(profile)
    return items, filler.number(batch.deadline_h, "batch.deadline_h", defaults.BATCH_HOURS)


def speech(profile: WorkloadProfile, shape: ModelShape | None, filler: Filler) -> dict[str, Any]:
    """Live streams, or an archive of recordings."""
    recording = defaults.RECORDING_MINUTES
    if profile.demand_part == "batch":
        items, deadline = _items(profile, filler, "recordings")
        minutes = filler.number(None, "batch.items", recording)
        return {"speech": SpeechDemand(streams=None, audio_hours=items * minutes / 60, deadline_h=deadline)}
    serving = profile.serving
    assert serving is not None
    seconds = recording.value * 60
    load = load_of(serving, filler, Request(None, seconds, "the length of a recording, which is transcribed while it is spoken"))
    streams = load.concurrent
    if streams is None:
        assert load.requests_per_s is not None
        filler.note("serving.requests_per_s", seconds, "s of audio each", recording.why, recording.source)
        streams = load.requests_per_s.scaled(seconds)
    return {"speech": SpeechDemand(streams=streams.scaled(filler.growth(profile)), audio_hours=None, deadline_h=None)}


def image(profile: WorkloadProfile, shape: ModelShape | None, filler: Filler) -> dict[str, Any]:
    """Image generation at a rate, or a number of images."""
    serving = profile.serving
    pixels = filler.number(serving.image_pixels if serving is not None else None, "serving.image_pixels", defaults.GENERATED_PIXELS)
    steps = int(filler.number(None, "image.steps", defaults.DIFFUSION_STEPS))
    if profile.demand_part == "batch":
        items, deadline = _items(profile, filler, "images")
        demand = ImageDemand(images_per_s=None, images=items, deadline_h=deadline, steps=steps, pixels=pixels, latency_s=None)
        return {"image": demand}
    assert serving is not None
    latency = filler.number(None, "image.latency_s", defaults.IMAGE_SECONDS)
    load = load_of(serving, filler, Request(None, latency, "the time an image may take"))
    rate: Range | None = load.requests_per_s
    if rate is None:
        assert load.concurrent is not None
        filler.note("serving.concurrent_users", latency, "s per image", "People waiting for an image each receive one within the limit")
        rate = load.concurrent.scaled(1 / latency)
    rate = rate.scaled(filler.growth(profile))
    return {"image": ImageDemand(images_per_s=rate, images=None, deadline_h=None, steps=steps, pixels=pixels, latency_s=latency)}
