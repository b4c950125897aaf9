"""What a verifier has from elsewhere, a key or a head, and how a verdict says what was checked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from ..terminal.output import plain
from .options import option_group

if TYPE_CHECKING:
    from ...audit.verify import Signature

PublicKey = Annotated[
    str | None,
    typer.Option(
        metavar="FILE",
        help="Ed25519 public key of who signed the log: PEM, or 64 hexadecimal digits.",
        show_default=False,
    ),
]
ExpectedHead = Annotated[
    str | None,
    typer.Option(
        metavar="HEX",
        help="A head that was kept elsewhere, or its first 32 digits or more; a line must have it.",
        show_default=False,
    ),
]

LOG_PAGE_COMMAND: Final = "privplan explain log"


@option_group
class AnchorOptions:
    """What a verifier of a log has from elsewhere."""

    public_key: PublicKey = None
    head: ExpectedHead = None

    def expected(self) -> dict[str, Any]:
        """Return the key and the head that a log must fit, as audits take them.

        Raises `InvalidInput` for a file that holds no key, `MissingExtra` without `cryptography`.
        """
        from ...fl.log.signing import public_key as key_in

        return {
            "public_key": None if self.public_key is None else key_in(self.public_key),
            "expected_head": normalised_head(self.head),
        }


def normalised_head(given: str | None) -> str | None:
    """Return a head as logs have it, of what a person typed."""
    # A head is copied by hand: spaces and capitals around it mean nothing.
    return None if given is None else given.strip().lower()


def rows(
    checked: str, signature: Signature | None, up_to: int | None = None
) -> list[tuple[str, str]]:
    """Return what was checked, up to which line if not to the last, and who signed the log."""
    part = "" if up_to is None else f", up to line {up_to:,}: lines after it may be anybody's"
    table_rows = [("checked", f"{checked}{part} ({LOG_PAGE_COMMAND})")]
    if signature is not None:
        table_rows.append(("signed", plain(str(signature))))
    return table_rows
