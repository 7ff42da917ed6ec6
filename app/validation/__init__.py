"""How right it is: published measurements against predictions."""
