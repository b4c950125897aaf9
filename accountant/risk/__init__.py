"""What an attacker can do at best: trade-off functions of events, and risks read from them."""

from .risk import Risk, risk

__all__ = ["Risk", "risk"]
