"""What to choose: candidates, rules, ranking, flip conditions and explanation."""
