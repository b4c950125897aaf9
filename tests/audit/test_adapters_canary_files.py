"""The files of canaries in a training: coins that are committed to, and what is seen of them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from privplan.accountant.errors import InvalidInput
from privplan.audit.adapters.canary_files import (
    COINS_FILE,
    OBSERVATIONS_FILE,
    CanaryCoins,
    ObservationWriter,
    coins_for,
    observations,
)

CANARIES = 64


def test_coins_are_kept_for_their_owner_and_are_those_of_the_commitment(tmp_path: Path) -> None:
    coins = CanaryCoins.drawn(CANARIES)
    coins.keep(tmp_path)
    assert (tmp_path / COINS_FILE).stat().st_mode & 0o777 == 0o600
    kept = CanaryCoins.read(tmp_path, coins.stated())
    assert kept.into.tolist() == coins.into.tolist()
    assert coins_for(tmp_path, CANARIES).commitment == coins.commitment
    with pytest.raises(InvalidInput, match="the run has 64"):
        coins_for(tmp_path, CANARIES + 1)


def test_coins_are_fair_and_fresh() -> None:
    many = CanaryCoins.drawn(20_000)
    assert abs(int(many.into.sum()) - 10_000) < 500  # seven standard deviations
    assert CanaryCoins.drawn(20_000).into.tolist() != many.into.tolist()
    signs = many.signs(20_000)
    assert set(signs.tolist()) == {-1.0, 1.0}
    assert abs(float(signs.sum())) < 1_000


def test_no_coin_shows_in_what_is_stated_or_printed() -> None:
    coins = CanaryCoins.drawn(CANARIES)
    assert str(coins) == "CanaryCoins(64 canaries)"
    other = CanaryCoins(~coins.into, coins.key, coins.blind)
    first, second = coins.stated(), other.stated()
    assert first.pop("commitment") != second.pop("commitment")
    assert first == second
    # The blind hides them: the same coins have another commitment in each run.
    again = CanaryCoins(coins.into, coins.key, "0" * 64)
    assert again.commitment != coins.commitment


def flipped(text: str) -> str:
    content = json.loads(text)
    first = content["coins"][0]
    content["coins"] = ("0" if first == "1" else "1") + content["coins"][1:]
    return json.dumps(content, sort_keys=True, separators=(",", ":"))


@pytest.mark.parametrize(
    ("edit", "says"),
    [
        (flipped, "committed to"),
        (lambda _: "{}", "does not hold coins"),
        (lambda _: "[]", "does not hold coins"),
        (lambda _: '{"coins":"012","key":"00","blind":"1"}', "does not hold coins"),
        (lambda text: text[: len(text) // 2], "does not hold coins"),
    ],
)
def test_other_coins_are_refused(tmp_path: Path, edit: Callable[[str], str], says: str) -> None:
    coins = CanaryCoins.drawn(CANARIES)
    coins.keep(tmp_path)
    path = tmp_path / COINS_FILE
    path.write_text(edit(path.read_text()))
    with pytest.raises(InvalidInput, match=says):
        CanaryCoins.read(tmp_path, coins.stated())


def test_coins_that_others_may_read_are_refused(tmp_path: Path) -> None:
    coins = CanaryCoins.drawn(CANARIES)
    coins.keep(tmp_path)
    (tmp_path / COINS_FILE).chmod(0o644)
    with pytest.raises(InvalidInput, match="by others"):
        CanaryCoins.read(tmp_path, coins.stated())
    (tmp_path / COINS_FILE).unlink()
    with pytest.raises(InvalidInput, match="cannot be read"):
        CanaryCoins.read(tmp_path, coins.stated())


@pytest.mark.parametrize("canaries", [0, 39, 10**7, True, 50.5])
def test_numbers_of_canaries_that_show_nothing_are_refused(canaries: int) -> None:
    with pytest.raises(InvalidInput):
        CanaryCoins.drawn(canaries)


def written(folder: Path, rows: int, first: int = 0) -> list[str]:
    """Write rows of canaries, and return the digest after each."""
    writer, digests = ObservationWriter(folder, CANARIES), []
    for row in range(first, first + rows):
        writer.append(np.arange(CANARIES) + 1000.0 * row)
        digest = writer.digest()
        assert digest is not None
        digests.append(digest)
    writer.close()
    return digests


def test_rows_are_those_up_to_the_last_release(tmp_path: Path) -> None:
    assert ObservationWriter(tmp_path, CANARIES).digest() is None
    digests = written(tmp_path, 5)
    content = (tmp_path / OBSERVATIONS_FILE).read_bytes()
    assert digests[-1] == hashlib.sha256(content).hexdigest()
    seen = observations(tmp_path, CANARIES, [digests[1], digests[1], digests[3]])
    assert seen.shape == (4, CANARIES)  # the last row stands under no release
    assert seen[3, 7] == 3007.0
    assert observations(tmp_path, CANARIES, []).shape == (0, CANARIES)


def test_a_run_that_goes_on_drops_a_torn_row(tmp_path: Path) -> None:
    whole = written(tmp_path, 2)
    with (tmp_path / OBSERVATIONS_FILE).open("ab") as file:
        file.write(b"torn")
    more = written(tmp_path, 2, first=2)
    seen = observations(tmp_path, CANARIES, [*whole, *more])
    assert seen[:, 0].tolist() == [0.0, 1000.0, 2000.0, 3000.0]


def test_rows_that_were_changed_are_refused(tmp_path: Path) -> None:
    digests = written(tmp_path, 3)
    path = tmp_path / OBSERVATIONS_FILE
    content = path.read_bytes()
    with pytest.raises(InvalidInput, match="releases of the log"):
        observations(tmp_path, CANARIES, [digests[2], digests[1]])
    for changed in (content[:-4], content[4:], b"\1" + content[1:]):
        path.write_bytes(changed)
        with pytest.raises(InvalidInput, match="releases of the log"):
            observations(tmp_path, CANARIES, digests)
    path.unlink()
    with pytest.raises(InvalidInput, match="cannot be read"):
        observations(tmp_path, CANARIES, digests)
