"""Every rule fires on its own example and stays silent on the other; a rule file that is wrong says where."""

from __future__ import annotations

import pytest

from app.advice.rules import EFFECTS, RuleError, _rule, load_rules

RULES = load_rules()


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_fires_on_its_example(rule):
    assert rule.holds(rule.fires)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_silent_on_its_counter_example(rule):
    assert not rule.holds(rule.silent)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_message_is_complete_on_its_example(rule):
    text = rule.text(rule.fires)
    assert "{" not in text
    assert text.endswith((".", "?"))


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_an_unknown_fact_never_fires(rule):
    assert not rule.holds({name: None for name in rule.fires})


def test_every_effect_is_known_and_each_rule_has_a_source():
    assert {rule.effect for rule in RULES} <= set(EFFECTS)
    assert all(rule.sources and rule.why for rule in RULES)
    assert len(RULES) >= 40


GOOD = {
    "id": "x",
    "effect": "warn",
    "when": [{"fact": "tp", "above": 4}],
    "message": "m.",
    "why": "w",
    "sources": ["s"],
    "fires": {"tp": 8},
    "silent": {"tp": 1},
}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"effect": "shout"}, "effect 'shout'"),
        ({"sources": []}, "needs at least one source"),
        ({"when": [{"fact": "tp", "greater": 4}]}, "only known comparisons"),
        ({"when": [{"above": 4}]}, "needs a fact"),
        ({"extra": 1}, "keys must be exactly"),
    ],
)
def test_a_wrong_rule_is_refused_with_file_and_rule(change, words):
    with pytest.raises(RuleError, match=words) as caught:
        _rule({**GOOD, **change}, "links.toml")
    assert "links.toml, rule 'x'" in str(caught.value)


@pytest.mark.parametrize(
    ("condition", "value", "expected"),
    [
        ({"above": 4}, 4, False),
        ({"above": 4}, 5, True),
        ({"at_least": 4}, 4, True),
        ({"below": 4}, 4, False),
        ({"at_most": 4}, 4, True),
        ({"in": ["a", "b"]}, "b", True),
        ({"not_in": ["a", "b"]}, "b", False),
        ({"is_not": "a"}, "a", False),
        ({"above_fact": "limit"}, 9, True),
        ({"above_fact": "limit"}, 8, False),
        ({"below_fact": "limit"}, 7, True),
        ({"above_fact": "missing"}, 9, False),
    ],
)
def test_comparisons(condition, value, expected):
    rule = _rule({**GOOD, "when": [{"fact": "x", **condition}]}, "f")
    assert rule.holds({"x": value, "limit": 8}) is expected
