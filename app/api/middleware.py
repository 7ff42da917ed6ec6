"""What every request passes: an id, a log line and figures; security headers; limits on origin, size and rate."""

from __future__ import annotations

import re
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from urllib.parse import urlsplit
from uuid import uuid4

import structlog
from prometheus_client import CollectorRegistry, Counter, Histogram
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.api.problems import problem

CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
SECURITY_HEADERS = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=(), payment=()",
}
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})
DRAINED_BYTES = 32_000_000
MAX_CLIENTS = 10_000

log = structlog.get_logger("app.http")


@dataclass(frozen=True)
class Metrics:
    """Figures of one application, in a registry of its own, so that two applications in a process stay apart."""

    registry: CollectorRegistry = field(default_factory=CollectorRegistry)
    requests: Counter = field(init=False)
    seconds: Histogram = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(
            self, "requests", Counter("sizing_http_requests", "Requests answered", ("method", "route", "status"), registry=self.registry)
        )
        object.__setattr__(
            self,
            "seconds",
            Histogram(
                "sizing_http_request_seconds",
                "Time to answer, seconds",
                ("method", "route"),
                buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.2, 0.5, 1.0, 2.5, 5.0, 10.0),
                registry=self.registry,
            ),
        )


class Observation:
    """Gives the request an id, adds the security headers, and reports it once it is answered."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self.app = app
        self.metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        given = Headers(scope=scope).get("x-request-id", "")
        request_id = given if re.fullmatch(r"[A-Za-z0-9._-]{1,64}", given) else uuid4().hex
        scope["sizing_request_id"] = request_id
        started = time.perf_counter()
        status = 500

        async def send_with_headers(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                headers["X-Request-ID"] = request_id
                for name, value in SECURITY_HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        with structlog.contextvars.bound_contextvars(request_id=request_id):
            try:
                await self.app(scope, receive, send_with_headers)
            finally:
                self._report(scope, status, time.perf_counter() - started)

    def _report(self, scope: Scope, status: int, seconds: float) -> None:
        # The template of the route, not the path: paths hold ids, and their number has no bound.
        route = getattr(scope.get("route"), "path", "other")
        method = scope["method"] if scope["method"] in {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"} else "other"
        self.metrics.requests.labels(method, route, str(status)).inc()
        self.metrics.seconds.labels(method, route).observe(seconds)
        log.info("request", method=method, path=scope["path"][:500], route=route, status=status, ms=round(1000 * seconds, 1))


class SameOrigin:
    """Refuses requests that change something when a browser sends them from a page of another origin.

    Browsers say where a request comes from (Sec-Fetch-Site, before it Origin); programs that are no browser
    say neither and pass, as they carry no other site's cookies.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["method"] not in SAFE_METHODS and not is_same_origin(Headers(scope=scope)):
            refusal = problem(Request(scope), 403, "A page of another origin may not send this; open the advisor itself and send it there.")
            await refusal(scope, receive, send)
            return
        await self.app(scope, receive, send)


def is_same_origin(headers: Headers) -> bool:
    """Whether a browser vouches for the request, or no browser sent it."""
    site = headers.get("sec-fetch-site")
    if site is not None:
        return site in ("same-origin", "none")
    origin = headers.get("origin")
    if origin is None:
        return True
    return urlsplit(origin).netloc.lower() == headers.get("host", "").lower() != ""


class BodyLimit:
    """Refuses a body over the limit as soon as that is known, holding no more of it than the limit."""

    def __init__(self, app: ASGIApp, max_bytes: int) -> None:
        self.app = app
        self.max_bytes = max_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        stated = Headers(scope=scope).get("content-length", "")
        if stated.isdigit() and int(stated[:20]) > self.max_bytes:
            await _drain(receive)
            await problem(Request(scope), 413, self._message(), headers={"Connection": "close"})(scope, receive, send)
            return
        seen = 0

        async def receive_within_limit() -> Message:
            nonlocal seen
            message = await receive()
            if message["type"] == "http.request":
                seen += len(message.get("body", b""))
                if seen > self.max_bytes:
                    if message.get("more_body", False):
                        await _drain(receive)
                    raise HTTPException(413, self._message(), headers={"Connection": "close"})
            return message

        await self.app(scope, receive_within_limit, send)

    def _message(self) -> str:
        return f"The body is over the limit of {self.max_bytes:,} bytes; send the profile alone."


async def _drain(receive: Receive) -> None:
    """Read on and forget, within reason: a client still sending would miss the answer when the connection closes on it."""
    seen = 0
    while seen < DRAINED_BYTES:
        message = await receive()
        if message["type"] != "http.request" or not message.get("more_body", False):
            return
        seen += len(message.get("body", b""))


class RateLimit:
    """At most ``per_minute`` unsafe requests from one address, refilled evenly (token bucket), per process."""

    def __init__(self, app: ASGIApp, per_minute: int, clock: Callable[[], float] = time.monotonic) -> None:
        self.app = app
        self.per_minute = per_minute
        self.clock = clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["method"] not in SAFE_METHODS:
            wait_s = self._wait_s(scope["client"][0] if scope.get("client") else "")
            if wait_s > 0:
                refusal = problem(
                    Request(scope),
                    429,
                    f"More than {self.per_minute} requests in a minute; try again in {wait_s:.0f} s.",
                    headers={"Retry-After": str(int(wait_s) + 1)},
                )
                await refusal(scope, receive, send)
                return
        await self.app(scope, receive, send)

    def _wait_s(self, client: str) -> float:
        """0 and one token taken, or the seconds until there is one again."""
        now = self.clock()
        tokens, then = self._buckets.pop(client, (float(self.per_minute), now))
        tokens = min(float(self.per_minute), tokens + (now - then) * self.per_minute / 60)
        wait_s = 0.0 if tokens >= 1 else (1 - tokens) * 60 / self.per_minute
        self._buckets[client] = (tokens - 1 if wait_s == 0 else tokens, now)
        if len(self._buckets) > MAX_CLIENTS:
            self._buckets.popitem(last=False)
        return wait_s
