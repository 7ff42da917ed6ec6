"""The small part of SVG the pictures need, escaped. Colours come from CSS classes, so that themes apply."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape

ROOMY = 100.0
"""A server drawn wider than this has room for labels and for each of its ports."""


@dataclass(frozen=True, slots=True)
class Box:
    """A rectangle in a picture."""

    x: float
    y: float
    width: float
    height: float


def element(name: str, content: str = "", **attributes: object) -> str:
    """One element; underscores in attribute names become hyphens, ``class_`` is ``class``."""
    pairs = []
    for key, value in attributes.items():
        if value is not None:
            label = key.rstrip("_").replace("_", "-")
            shown = f"{value:.5g}" if isinstance(value, float) else str(value)
            pairs.append(f' {label}="{escape(shown, quote=True)}"')
    return f"<{name}{''.join(pairs)}>{content}</{name}>" if content else f"<{name}{''.join(pairs)}/>"


def text(x: float, y: float, words: str, class_: str = "t", anchor: str = "middle") -> str:
    """A text at a point."""
    return element("text", escape(words), x=x, y=y, class_=class_, text_anchor=anchor)


def document(width: float, height: float, body: str, title: str, description: str, ident: str) -> str:
    """A whole picture with its title and text equivalent."""
    head = element("title", escape(title), id=f"{ident}-title") + element("desc", escape(description), id=f"{ident}-desc")
    return element(
        "svg",
        head + body,
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {width:.0f} {height:.0f}",
        class_="picture",
        role="img",
        aria_labelledby=f"{ident}-title {ident}-desc",
    )
