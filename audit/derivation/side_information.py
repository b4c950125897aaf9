"""What is seen beside the terms of a round: where it depends on data, no guarantee is left."""

from __future__ import annotations

from ...accountant.records import Reach
from .messages import fills_all, is_oblivious
from .round_facts import RoundFacts
from .run_setting import NoProof, RunSetting


def require_harmless(facts: RoundFacts, setting: RunSetting, reach: Reach) -> None:
    """Raise `NoProof` where what is seen beside a reach depends on data."""
    # Each channel is harmless only if what it shows is drawn whatever the data are.
    if "index-sets" in reach.also and not is_oblivious(facts):
        raise NoProof("which coordinates a unit sends depends on its data, and is seen")
    stated = any(part.selection is not None for _, part in facts.reaches or ())
    if "index-sets" in reach.also and not stated:
        raise NoProof("which coordinates a unit sends is seen, and not said to be oblivious")
    if "index-sets" in reach.also and facts.messages and setting.neighbours == "add-remove":
        raise NoProof("which coordinates a unit sends is seen, and one that is absent sends none")
    apart = facts.messages or facts.contribution.unit == "silo"
    drawn = facts.sampling.method != "none"
    if "identities" in reach.also and apart:
        if drawn and not reach.knows_sample:
            raise NoProof("who was drawn is seen, and the sample is to hide it")
        if facts.messages and setting.neighbours == "add-remove":
            raise NoProof("who sends is seen, and a unit that is absent sends nothing")
    if "sizes" in reach.also and facts.messages:
        if not is_oblivious(facts) and not fills_all(facts, reach):
            raise NoProof("how long messages are depends on the data of who sends them")
        if setting.neighbours == "add-remove":
            raise NoProof("how many messages there are is seen, and a unit may be absent")
