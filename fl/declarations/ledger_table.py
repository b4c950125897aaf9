"""The table [ledger] of a run: from which budget ledger it claims what it is about to spend."""

from __future__ import annotations

from dataclasses import dataclass

from ...accountant.errors import InvalidInput
from ..log.hash_chain import is_hash
from .toml_key import key, text


def texts(**field: object) -> tuple[str, ...]:
    """Return a list of one text or more."""
    ((name, value),) = field.items()
    if not isinstance(value, (list, tuple)) or not value:
        raise InvalidInput(f"`{name}` must be a list of texts; it is {value!r:.60}.")
    return tuple(text(**{name: each}) for each in value)


def public_key(**field: object) -> str:
    """Return a public key in hex; `InvalidInput` for what is none."""
    ((name, value),) = field.items()
    given = text(**{name: value}).strip().lower()
    if not is_hash(given):
        raise InvalidInput(
            f"`{name}` must have 64 hexadecimal digits.",
            "It is the key that signs the receipts of the ledger.",
            "Give it as `privplan serve` prints it.",
        )
    return given


@dataclass(frozen=True, kw_only=True)
class LedgerSettings:
    """`[ledger]`: the address of a ledger, and what is claimed from it; None: from none.

    The token is read from the variable PRIVPLAN_LEDGER_TOKEN, and stands in no file.
    Raises `InvalidInput` where one of the keys is given without the others that it needs.
    """

    url: str | None = key(
        "address of a budget ledger, from which the run claims its whole plan before the first "
        "round; the token is read from PRIVPLAN_LEDGER_TOKEN",
        text,
        default=None,
        shown="none: the run keeps its own budget alone",
    )
    data_set: str | None = key(
        "data set of the ledger that the run spends from",
        text,
        default=None,
        shown="required with `url`",
    )
    project: str | None = key(
        "project for which it is spent", text, default=None, shown="required with `url`"
    )
    public_key: str | None = key(
        "key that signs the ledger's receipts, as `privplan serve` prints it",
        public_key,
        default=None,
        shown="that of the first receipt from this address",
    )
    charged_blocks: tuple[str, ...] | None = key(
        "blocks of the data set whose units may take part, a list",
        texts,
        default=None,
        shown="all that exist then",
    )

    def __post_init__(self) -> None:
        rest = (self.data_set, self.project)
        if (self.url is not None) != all(each is not None for each in rest) or (
            self.url is None
            and any(each is not None for each in (*rest, self.charged_blocks, self.public_key))
        ):
            raise InvalidInput(
                "[ledger] needs `url`, `data_set` and `project`, all of them or none.",
                "A claim is made at one ledger, on one data set, for one project.",
                "Give all three, or leave the table out.",
            )
