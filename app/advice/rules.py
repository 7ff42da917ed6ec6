"""Rules of practice: data in ``rules/*.toml``, a closed set of comparisons over named facts.

A rule says what practice forbids (veto), demands (require), favours (prefer), warns of or notes (info). It never
changes a number. One rule:

    [[rule]]
    id = "tp-inside-scale-up"
    effect = "warn"
    when = [ { fact = "tp", above_fact = "scale_up_domain" } ]
    message = "Tensor parallel {tp} leaves the {scale_up_domain}-GPU fast domain."
    why = "..."
    sources = ["..."]
    fires = { tp = 16, scale_up_domain = 8 }
    silent = { tp = 8, scale_up_domain = 8 }
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any, Literal

Effect = Literal["veto", "require", "prefer", "warn", "info"]
EFFECTS = ("veto", "require", "prefer", "warn", "info")
Facts = Mapping[str, Any]
COMPARISONS = ("is", "is_not", "in", "not_in", "above", "at_least", "below", "at_most", "above_fact", "below_fact")


class RuleError(ValueError):
    """A rule file is wrong: says which file, rule and key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One rule. ``conditions`` must all hold; a fact that is unknown (None) makes a condition false."""

    id: str
    effect: Effect
    conditions: tuple[Mapping[str, Any], ...]
    message: str
    why: str
    sources: tuple[str, ...]
    fires: Mapping[str, Any]
    silent: Mapping[str, Any]

    def holds(self, facts: Facts) -> bool:
        """Whether every condition holds for these facts."""
        return all(_holds(condition, facts) for condition in self.conditions)

    def text(self, facts: Facts) -> str:
        """The message with the values of the facts in it."""
        return self.message.format_map({name: _shown(value) for name, value in facts.items()})


def _shown(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:,.3g}" if abs(value) < 1000 else f"{value:,.0f}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def _holds(condition: Mapping[str, Any], facts: Facts) -> bool:
    value = facts.get(condition["fact"])
    if value is None:
        return False
    for name, limit in condition.items():
        if name == "fact":
            continue
        if name.endswith("_fact"):
            other = facts.get(limit)
            if other is None or not (value > other if name == "above_fact" else value < other):
                return False
        elif not _compare(name, value, limit):
            return False
    return True


def _compare(name: str, value: Any, limit: Any) -> bool:
    match name:
        case "is":
            return bool(value == limit)
        case "is_not":
            return bool(value != limit)
        case "in":
            return value in limit
        case "not_in":
            return value not in limit
        case "above":
            return bool(value > limit)
        case "at_least":
            return bool(value >= limit)
        case "below":
            return bool(value < limit)
        case "at_most":
            return bool(value <= limit)
    raise RuleError(f"unknown comparison {name!r}; known: {', '.join(COMPARISONS)}")


@cache
def load_rules() -> tuple[Rule, ...]:
    """All rules, checked: known keys, effects and comparisons, unique ids, a source each."""
    rules: list[Rule] = []
    folder = resources.files("app.advice") / "rules"
    for file in sorted(folder.iterdir(), key=lambda item: item.name):
        if file.name.endswith(".toml"):
            table = tomllib.loads(file.read_text(encoding="utf-8"))
            rules.extend(_rule(raw, file.name) for raw in table.get("rule", []))
    seen: set[str] = set()
    for rule in rules:
        if rule.id in seen:
            raise RuleError(f"rule id {rule.id!r} is used twice")
        seen.add(rule.id)
    return tuple(rules)


def _rule(raw: dict[str, Any], file: str) -> Rule:
    where = f"{file}, rule {raw.get('id', '?')!r}"
    wanted = {"id", "effect", "when", "message", "why", "sources", "fires", "silent"}
    if set(raw) != wanted:
        raise RuleError(f"{where}: keys must be exactly {sorted(wanted)}, got {sorted(raw)}")
    if raw["effect"] not in EFFECTS:
        raise RuleError(f"{where}: effect {raw['effect']!r} is not one of {', '.join(EFFECTS)}")
    if not raw["sources"]:
        raise RuleError(f"{where}: a rule needs at least one source")
    for condition in raw["when"]:
        unknown = set(condition) - {"fact", *COMPARISONS}
        if "fact" not in condition or unknown:
            raise RuleError(f"{where}: condition {condition} needs a fact and only known comparisons")
    return Rule(
        id=raw["id"],
        effect=raw["effect"],
        conditions=tuple(raw["when"]),
        message=raw["message"],
        why=raw["why"],
        sources=tuple(raw["sources"]),
        fires=raw["fires"],
        silent=raw["silent"],
    )


def firing(facts: Facts, effects: tuple[Effect, ...] | None = None) -> list[Rule]:
    """Rules that hold for these facts, in file order."""
    return [rule for rule in load_rules() if (effects is None or rule.effect in effects) and rule.holds(facts)]
