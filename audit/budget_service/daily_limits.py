"""What one holder may claim of a data set in a day, however little it costs.

The budget limits what claims cost, and not how many there are: near nothing can be claimed millions
of times, and each claim stands in the history for ever, which every witness and auditor reads.
What was claimed and cancelled counts as well.  The count is no part of the history, and no
guarantee rests on it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import sqlalchemy as sa

from .audit_limits import MEGABYTE
from .names import Refusal
from .tables import daily_claims


@dataclass(frozen=True)
class DailyLimits:
    """Most claims of a holder on a data set in a day (UTC), and most bytes that they write."""

    claims: int = 100_000
    bytes: int = 100 * MEGABYTE


@dataclass
class ClaimedToday:
    """How many claims a holder made on a data set today, and how many bytes they wrote."""

    claims: int = 0
    bytes: int = 0
    is_kept: bool = False

    def require_within(self, limits: DailyLimits, name: str, now: datetime) -> None:
        """Raise `Refusal` (429) where the limits of a day are reached.

        Its `Retry-After` is the number of seconds until the next day.
        """
        if self.claims < limits.claims and self.bytes < limits.bytes:
            return
        tomorrow = (now + timedelta(days=1)).replace(hour=0, minute=0, second=0, microsecond=0)
        raise Refusal(
            429,
            "daily-limit",
            f"You have made {self.claims:,} claims on {name} today, of "
            f"{self.bytes / MEGABYTE:,.1f} MB.",
            f"A holder may make {limits.claims:,} a day, and write "
            f"{limits.bytes / MEGABYTE:,g} MB: every claim stands in the history for ever.",
            "Claim a whole plan at once (`repeat`), name fewer blocks, or wait until tomorrow "
            "(UTC); who runs the ledger can allow more: privplan serve --daily-claims, "
            "--daily-megabytes.",
            {"retry_after": int((tomorrow - now).total_seconds()) + 1},
        )


def today(now: datetime) -> str:
    """Return the day of a time, in UTC."""
    return now.astimezone(UTC).date().isoformat()


def claimed_today(
    connection: sa.Connection, data_set: int, holders: Iterable[str], day: str
) -> dict[str, ClaimedToday]:
    """Return what each of some holders claimed of a data set on a day; its row is locked."""
    asked = sorted(set(holders))
    claimed = {holder: ClaimedToday() for holder in asked}
    rows = connection.execute(
        sa.select(daily_claims).where(
            daily_claims.c.data_set_id == data_set, daily_claims.c.holder.in_(asked)
        )
    )
    for row in rows:
        is_today = row.day == day
        claimed[row.holder] = ClaimedToday(
            row.claims if is_today else 0, row.bytes if is_today else 0, is_kept=True
        )
    return claimed


def put_claimed(
    connection: sa.Connection, data_set: int, claimed: Mapping[str, ClaimedToday], day: str
) -> None:
    """Write what holders claimed on a day, in the place of what they claimed on others."""
    old = [(holder, each) for holder, each in claimed.items() if each.is_kept]
    new = [(holder, each) for holder, each in claimed.items() if not each.is_kept]
    if old:
        update = daily_claims.update().where(
            daily_claims.c.data_set_id == data_set, daily_claims.c.holder == sa.bindparam("who")
        )
        connection.execute(
            update.values(day=day, claims=sa.bindparam("count"), bytes=sa.bindparam("size")),
            [{"who": who, "count": each.claims, "size": each.bytes} for who, each in old],
        )
    if new:
        connection.execute(
            daily_claims.insert(),
            [
                {
                    "data_set_id": data_set,
                    "holder": who,
                    "day": day,
                    "claims": each.claims,
                    "bytes": each.bytes,
                }
                for who, each in new
            ],
        )


__all__ = ["DailyLimits", "claimed_today", "put_claimed", "today"]
