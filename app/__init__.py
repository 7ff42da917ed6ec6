"""AI infrastructure sizing advisor."""

__version__ = "0.1.0"
