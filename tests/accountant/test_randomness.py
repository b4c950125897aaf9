"""Streams: reproducible where asked, secret always, never the same bytes twice; exact draws.

The false alarm of each statistical test, over all of its cases, is `FALSE_ALARM`.
"""

from __future__ import annotations

import copy
import multiprocessing
import os
import pickle
import sys
import threading
import traceback
from collections import Counter
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from privplan.accountant import randomness, records
from privplan.accountant.errors import InvalidInput, MissingExtra, PrivplanError
from privplan.accountant.randomness import Secret, Stream, Streams

from ..cases import for_each
from ..chance import FALSE_ALARM


def stream(name: str = "noise", seed: int = 1) -> Stream:
    return Streams.seeded(seed).stream(name)


class Scripted:
    """A stream that gives the words it was told to."""

    def __init__(self, words: list[int]) -> None:
        self.words = words

    def integers64(self, count: int) -> np.ndarray:
        taken, self.words = self.words[:count], self.words[count:]
        assert len(taken) == count
        return np.array(taken, dtype=np.uint64)


def test_a_stream_is_the_chacha20_keystream_of_rfc_8439() -> None:
    """Appendix A.1, test vectors 1 and 2: the zero key, block counters 0 and 1."""
    made = randomness._stream(Secret(bytes(32)), None)
    assert made.bytes(32).hex() == (
        "76b8e0ada0f13d90405d6ae55386bd28bdd219b8a08ded1aa836efcc8b770dc7"
    )
    made.bytes(32)
    assert made.bytes(16).hex() == "9f07e7be5551387a98ba977c732d080d"


def test_the_counter_goes_on_in_the_nonce() -> None:
    """Beyond 2^32 blocks the 96-bit nonce moves on: other bytes, without an overflow."""
    key = Secret(bytes(32))
    flow = randomness._Keystream(key)
    flow.position = randomness._COUNTER_BYTES - 64
    flow._encryptor = randomness._encryptor(key, (1 << 32) - 1)
    across = bytearray(128)
    flow.fill(memoryview(across))
    after = bytearray(64)
    randomness._encryptor(key, 1 << 32).update_into(bytes(64), after)
    assert flow.position == randomness._COUNTER_BYTES + 64
    assert across[64:] == after
    assert across[64:] != bytes(randomness._stream(key, None).bytes(64))


@given(st.lists(st.integers(0, 700), max_size=12))
@settings(max_examples=30)
def test_pieces_make_the_whole(pieces: list[int]) -> None:
    whole = stream().bytes(sum(pieces))
    parts = stream()
    assert b"".join(parts.bytes(piece) for piece in pieces) == whole
    assert parts.position == sum(pieces)


def test_long_draws_equal_short_ones() -> None:
    one, other = stream(), stream()
    size = 3 * len(randomness._ZEROS) + 5
    long = one.bytes(size)
    short = b"".join(other.bytes(min(4096, size - at)) for at in range(0, size, 4096))
    assert long == short


@for_each("pieces", [1, 2, 3])
def test_a_draw_that_is_interrupted_has_used_up_its_bytes(pieces: int) -> None:
    """The cipher has moved on by some of them; none may come again, nor be stated twice."""
    size = 3 * len(randomness._ZEROS)
    whole = stream().bytes(size + 100)

    class Interrupted:
        def __init__(self, cipher: object) -> None:
            self.cipher, self.left = cipher, pieces

        def update_into(self, zeros: memoryview, out: memoryview) -> None:
            self.cipher.update_into(zeros, out)  # type: ignore[attr-defined]
            self.left -= 1
            if not self.left:
                raise KeyboardInterrupt

    own = stream()
    own.bytes(7)
    own._keystream._encryptor = Interrupted(own._keystream._encryptor)  # type: ignore[assignment]
    with pytest.raises(KeyboardInterrupt):
        own.bytes(size - 7)
    assert own.position == size
    assert own.bytes(100) == whole[size:]


def test_words_are_the_bytes_in_little_endian() -> None:
    one, other = stream(), stream()
    assert one.integers64(3).tolist() == [
        int.from_bytes(other.bytes(8), "little") for _ in range(3)
    ]
    assert one.integers64(0).shape == (0,)


def test_seeded_streams_repeat_and_differ_by_name_seed_and_segment() -> None:
    assert stream().bytes(64) == stream().bytes(64)
    others = [
        stream("other"),
        stream(seed=2),
        Streams.seeded(1, segment=1).stream("noise"),
        Streams.secure().stream("noise"),
        Streams.seeded(11).stream("noise"),
        Streams.seeded(1, segment=11).stream("noise"),
    ]
    drawn = [stream().bytes(64), *(one.bytes(64) for one in others)]
    assert len(set(drawn)) == len(drawn)
    assert len({stream().id, *(one.id for one in others)}) == len(drawn)


def test_secure_streams_take_their_root_from_the_system(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def urandom(count: int) -> bytes:
        asked.append(count)
        return bytes(range(count))

    monkeypatch.setattr(os, "urandom", urandom)
    made = Streams.secure()
    assert asked == [32]
    assert made.facts == records.Randomness("operating-system", "chacha20")
    assert Streams.seeded(1).facts == records.Randomness("seeded", "chacha20")
    made.stream("a").bytes(8)
    assert asked == [32]


def test_a_name_goes_on_where_it_was() -> None:
    streams = Streams.seeded(1)
    first = streams.stream("noise")
    begin = first.bytes(10)
    assert streams.stream("noise") is first
    assert streams.stream("noise").bytes(10) != begin
    assert first.range_since(10) == records.StreamRange(first.id, 10, 20)


@for_each("name", ["", None, 3])
def test_a_stream_needs_a_name(name: object) -> None:
    with pytest.raises(InvalidInput, match="name"):
        Streams.seeded(1).stream(name)  # type: ignore[arg-type]


@for_each("seed", [-1, 1.5, "1", True])
def test_seeds_are_counted_from_zero(seed: object) -> None:
    with pytest.raises(InvalidInput, match="seed"):
        Streams.seeded(seed)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="segment"):
        Streams.seeded(1, seed)  # type: ignore[arg-type]


def test_a_fork_costs_32_bytes_however_much_is_drawn() -> None:
    one, other = stream(), stream()
    little, much = one.fork(), other.fork()
    assert little.bytes(1) == much.bytes(1)
    much.bytes(10_000)
    assert one.position == other.position == 32
    assert one.bytes(32) == other.bytes(32)
    assert little.id not in (one.id, stream("x").id)


def test_a_guarded_stream_asks_each_time_and_so_do_its_forks() -> None:
    allowed = [True]

    def check() -> None:
        if not allowed[0]:
            raise PrivplanError("over")

    plain = stream()
    guarded = plain.guarded(check)
    fork = guarded.fork()
    assert guarded.id == plain.id
    guarded.bytes(8)
    assert plain.position == 40
    allowed[0] = False
    for one in (guarded, fork):
        with pytest.raises(PrivplanError, match="over"):
            one.bytes(1)
        with pytest.raises(PrivplanError, match="over"):
            one.integers64(1)
    assert plain.position == 40


def test_threads_never_get_the_same_bytes() -> None:
    shared, found = stream(), []

    def draw() -> None:
        found.extend(shared.bytes(16) for _ in range(200))

    threads = [threading.Thread(target=draw) for _ in range(8)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    whole = stream().bytes(16 * 1600)
    assert sorted(found) == sorted(whole[at : at + 16] for at in range(0, len(whole), 16))


ROOT = bytes.fromhex("c0ffee" * 10 + "c0ff")


def secret_streams() -> tuple[Streams, list[bytes]]:
    """Return streams on a known root, and the keys that must not show."""
    import hashlib

    own = hashlib.blake2b(b"noise", key=ROOT, digest_size=32, person=b"privplan-stream").digest()
    return Streams(Secret(ROOT), records.Randomness("operating-system")), [ROOT, own]


def shows(text: str, keys: list[bytes]) -> bool:
    forms = [form for key in keys for form in (key.hex(), repr(key)[2:-1], str(list(key)))]
    return any(form[:16] in text for form in forms)


def test_the_check_for_secrets_can_fail() -> None:
    _, keys = secret_streams()
    assert shows(f"key={keys[1]!r}", keys)
    assert shows(keys[0].hex(), keys)


def test_keys_show_in_no_text() -> None:
    streams, keys = secret_streams()
    own = streams.stream("noise")
    own.bytes(10)
    held = [streams, own, own.fork(), own._keystream, own._keystream._key, streams._root]
    for one in held:
        for text in (repr(one), str(one), f"{one}", f"{one!s:>9}", "%s" % one, ascii(one)):  # noqa: UP031
            assert not shows(text, keys)
    assert repr(own) == f"Stream(id='{own.id}', position=42)"
    for one in (streams, own, own._keystream):
        with pytest.raises(TypeError):
            vars(one)


def test_keys_show_in_no_traceback_with_locals(monkeypatch: pytest.MonkeyPatch) -> None:
    streams, keys = secret_streams()

    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("no cipher")

    monkeypatch.setattr("cryptography.hazmat.primitives.ciphers.Cipher", broken)
    with pytest.raises(RuntimeError) as caught:
        streams.stream("noise")
    whole = traceback.TracebackException.from_exception(caught.value, capture_locals=True)
    ours = [frame for frame in whole.stack if frame.filename == randomness.__file__]
    shown = str([(frame.name, frame.locals) for frame in ours])
    assert "<secret>" in shown
    assert len(ours) >= 3
    assert not shows(shown, keys)


@for_each("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_nothing_is_pickled_or_copied(protocol: int) -> None:
    streams, _ = secret_streams()
    own = streams.stream("noise")
    for one in (streams, own, own._keystream, own._keystream._key):
        with pytest.raises(TypeError, match="not pickled or copied"):
            pickle.dumps(one, protocol)
        for duplicate in (copy.copy, copy.deepcopy):
            with pytest.raises(TypeError, match="not pickled or copied"):
                duplicate(one)


def test_a_missing_cipher_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [known for known in sys.modules if known.split(".")[0] == "cryptography"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "cryptography", None)
    with pytest.raises(MissingExtra, match="cryptography"):
        Streams.secure().stream("noise")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_a_forked_child_is_refused() -> None:
    streams = Streams.secure()
    own = streams.stream("noise")
    own.bytes(8)
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:  # in the child: nothing may leave but one word
        said = b"drew"
        try:
            own.bytes(8)
        except PrivplanError as error:
            said = b"refused" if "forked" in str(error) else b"other"
        finally:
            os.write(writing, said)
            os._exit(0)
    os.waitpid(child, 0)
    assert os.read(reading, 100) == b"refused"
    os.close(reading)
    os.close(writing)
    assert len(own.bytes(8)) == 8


def _child(own: Stream, streams: Streams, answers: multiprocessing.SimpleQueue[str]) -> None:
    new = (lambda: streams.stream("noise"), lambda: streams.stream("never asked for before"))
    for draw in (lambda: own.bytes(8), lambda: own.integers64(1), own.fork, *new):
        try:
            draw()
        except PrivplanError:
            answers.put("refused")
        else:
            answers.put("drew")
    answers.put(Streams.secure().stream("noise").bytes(8).hex())


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_children_of_multiprocessing_draw_from_streams_of_their_own() -> None:
    context = multiprocessing.get_context("fork")
    streams, answers = Streams.secure(), context.SimpleQueue()
    own = streams.stream("noise")
    children = [context.Process(target=_child, args=(own, streams, answers)) for _ in range(2)]
    for child in children:
        child.start()
    for child in children:
        child.join(60)
    said = [answers.get() for _ in range(12)]
    assert said.count("refused") == 10
    drawn = [one for one in said if one != "refused"]
    assert len({*drawn, own.bytes(8).hex()}) == 3


def test_a_reused_process_number_is_no_excuse(monkeypatch: pytest.MonkeyPatch) -> None:
    """A grandchild may get its grandparent's number; the count of forks tells them apart."""
    own = stream()
    monkeypatch.setattr(randomness, "_forks", [randomness._forks[0] + 1])
    with pytest.raises(PrivplanError, match="forked"):
        own.bytes(1)


def test_poisson_rounds_the_rate_down() -> None:
    rate = 2.0**-60 * 1.75  # 28 / 2^64
    words = [0, 27, 28, 2**64 - 1]
    mask = randomness.poisson(Scripted(words), 4, rate)  # type: ignore[arg-type]
    assert mask.tolist() == [True, True, False, False]
    tiny = randomness.poisson(Scripted([0]), 1, 2.0**-64 * 0.75)  # type: ignore[arg-type]
    assert tiny.tolist() == [False]  # rounded down to 0, never up


@given(st.floats(2.0**-11, 1.0, exclude_max=True))
def test_poisson_is_exact_for_rates_with_53_bits_below_2_64(rate: float) -> None:
    threshold = int(rate * 2.0**64)
    assert threshold / 2.0**64 == rate
    words = [threshold - 1, threshold]
    mask = randomness.poisson(Scripted(words), 2, rate)  # type: ignore[arg-type]
    assert mask.tolist() == [True, False]


def test_poisson_at_the_ends() -> None:
    assert randomness.poisson(stream(), 50, 1.0).all()
    assert not randomness.poisson(stream(), 50, 0.0).any()
    assert randomness.poisson(stream(), 0, 0.5).shape == (0,)
    for rate in (-0.1, 1.1, float("nan")):
        with pytest.raises(InvalidInput, match="rate"):
            randomness.poisson(stream(), 1, rate)


def test_poisson_takes_the_same_bytes_at_every_rate() -> None:
    """What a mask costs must not tell who is in it."""
    positions = set()
    for rate in (0.0, 0.3, 1.0):
        own = stream()
        randomness.poisson(own, 100, rate)
        positions.add(own.position)
    assert positions == {800}


def test_poisson_has_its_rate() -> None:
    count = 400_000
    found = int(randomness.poisson(stream(), count, 0.3).sum())
    assert stats.binomtest(found, count, 0.3).pvalue > FALSE_ALARM


@for_each("below", [1, 2, 3, 7, 1000])
def test_uniform_is_uniform(below: int) -> None:
    count = 200_000
    drawn = randomness.uniform(stream(), count, below)
    assert drawn.min() >= 0
    counts = np.bincount(drawn, minlength=below)
    assert len(counts) == below
    if below > 1:
        assert stats.chisquare(counts).pvalue > FALSE_ALARM / 4


def test_uniform_rejects_the_words_that_would_favour_some() -> None:
    below = 3 * 2**56  # 85 whole copies in 2^64, and a third of one that is rejected
    last = 85 * below - 1
    words = [2**64 - 1, last + 1, last]
    drawn = randomness.uniform(Scripted(words), 1, below)  # type: ignore[arg-type]
    assert drawn.tolist() == [below - 1]


def test_a_range_of_a_power_of_two_rejects_nothing() -> None:
    drawn = randomness.uniform(Scripted([2**64 - 1]), 1, 2**40)  # type: ignore[arg-type]
    assert drawn.tolist() == [2**40 - 1]


def test_permutations_are_uniform() -> None:
    own = stream()
    counts = Counter(tuple(randomness.permutation(own, 4).tolist()) for _ in range(24_000))
    assert set(counts) == set(permutations(range(4)))
    assert stats.chisquare(list(counts.values())).pvalue > FALSE_ALARM


def test_a_permutation_with_equal_words_is_drawn_anew() -> None:
    order = randomness.permutation(Scripted([5, 5, 1, 9, 7, 8]), 3)  # type: ignore[arg-type]
    assert order.tolist() == [1, 2, 0]
    assert randomness.permutation(stream(), 0).shape == (0,)


def test_choices_are_uniform_sets() -> None:
    own = stream()
    counts = Counter(tuple(randomness.choice(own, 5, 2).tolist()) for _ in range(20_000))
    assert len(counts) == 10
    assert all(first < second for first, second in counts)
    assert stats.chisquare(list(counts.values())).pvalue > FALSE_ALARM
    with pytest.raises(InvalidInput, match="chosen"):
        randomness.choice(own, 3, 4)
