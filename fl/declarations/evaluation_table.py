"""The tables [evaluation] and [log] of a run: what is measured on whom, and what a log keeps."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from ...accountant import validate
from .data_table import public_source
from .toml_key import Fsync, key, text

HELD_OUT_TEST: Final = "held-out"


_TEST_WORDS: Final = ("public", "none", HELD_OUT_TEST)


def public_test(**field: object) -> str:
    """Return `public`, `none`, `held-out`, or the name of a file: it has a dot or a slash."""
    ((name, value),) = field.items()
    if value in _TEST_WORDS:
        return str(value)
    if isinstance(value, str) and value.isprintable() and ("." in value or "/" in value):
        return value
    return validate.choice(_TEST_WORDS, **{name: value})


@dataclass(frozen=True, kw_only=True)
class EvaluationSettings:
    """`[evaluation]`: whether test data are public, and who says so (`.public_test_data`).

    `test` is None where nothing is said: then bundled data are public, and no others.  The test
    data of a table are a file of their own, `test_file`, which is public; or `held-out`: its users
    vote once, with noise of the multiplier `held_out_noise`, which the run pays for.
    """

    test: Literal["public", "none", "held-out"] | None = key(
        "whether the model is measured on the test data, which must be public for that, as no "
        "metric is paid for: public or none; of a table, the file of the test data, or held-out: "
        "a share of its users, whose votes are summed with noise that each epsilon pays for",
        public_test,
        words=_TEST_WORDS,
        default=None,
        shown="public for bundled data, none for data from a path",
    )
    source: str | None = key(
        "who says that the test data are public, and where they are published; it stands in the "
        "log",
        public_source,
        default=None,
        shown="of bundled data, where they come from; else required for public",
        why="Whoever reads the log must be able to look whether it is so.",
    )
    held_out: float | None = key(
        'for test = "held-out": share of the users on whom nothing is trained, by a hash of the id',
        validate.open_probability,
        default=None,
        shown="0.2 there",
        why="Who is held out has no part in the training, and all others have none in the test.",
    )
    held_out_noise: float | None = key(
        'for test = "held-out": noise over the one vote of a unit, in the sum of all votes; of '
        "flame-*, over half a vote, in each of the two messages of every user",
        validate.positive,
        default=None,
        shown="required there",
        why="The votes are one release more, which the same budget pays for.",
    )
    test_file: Path | None = None


HELD_OUT_SHARE: Final = 0.2
"""The share of users who are held out, where a configuration names none."""


@dataclass(frozen=True, kw_only=True)
class LogSettings:
    """`[log]`: how the log is kept, and with `save_models` every released model next to it."""

    fsync: Fsync = key(
        "when the log is forced to disk: records (what must be), always, never", default="records"
    )
    sign_key: Path | None = key(
        "file with an Ed25519 private key that signs the log", text, default=None, shown="none"
    )
    save_models: bool = key(
        "keep every released model in models/, for `privplan audit log --models`", default=False
    )
