"""The three kinds of parties of a shuffled round; each holds only what is its own."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...accountant.arrays import IntArray
from ...accountant.errors import InvalidInput
from ...accountant.randomness import SecretHolder, Stream, grouped_order
from ..crypto.paillier.processes import SERIAL, Workers
from ..crypto.sealed_box import BoxKey, sealed
from ..parties.network import Post
from .terms import (
    ANALYZER,
    SHUFFLER,
    Bundle,
    MixedBoxes,
    ReceivedMessages,
    Terms,
    client_name,
    fault,
    kept_messages,
    lacking,
    summable,
)


class Client:
    """The client of one unit, in one round: it sends its messages, and hears nothing."""

    def __init__(self, terms: Terms, public: bytes, post: Post, session: bytes, round: int) -> None:
        """Enter the round; `public` is the analyzer's key."""
        self._terms, self._post = terms, post
        self._tag = terms.tag(session, round, public)
        post.enter(session, round, {})

    def contents(self, places: IntArray, messages: IntArray) -> list[bytes]:
        """Return what goes into its boxes: `chosen` messages, (chosen, width), and places of them.

        They are locked apart from it, with those of other clients, by processes that share the work
        of all; each box is locked by itself.
        """
        return self._terms.packed(self._tag, places, messages)

    def send(self, places: IntArray, boxes: bytes) -> None:
        """Send its boxes, end to end, of different coordinates, (chosen,)."""
        self._post.send(SHUFFLER, Bundle(places.astype("<u4").tobytes(), boxes))
        self._post.leave()


class Shuffler:
    """Takes the senders off, adds dummies, and hands the boxes on in random order.

    `order` is its randomness, `dummies` returns so many messages that stand for nobody; `workers`
    share the locking of these.
    """

    def __init__(
        self,
        terms: Terms,
        public: bytes,
        post: Post,
        session: bytes,
        round: int,
        order: Stream,
        dummies: Callable[[int], IntArray] | None,
        workers: Workers = SERIAL,
    ) -> None:
        self._terms, self._public, self._post = terms, public, post
        self._tag = terms.tag(session, round, public)
        self._order, self._dummies, self._workers = order, dummies, workers
        post.enter(session, round, terms.limits)

    def mix(self) -> None:
        """Take every client's bundle, pad each coordinate, and send the analyzer all of them."""
        terms, order = self._terms, self._order.fork()
        places, boxes = self._gathered_bundles()
        missing = lacking(terms, places)
        kept = kept_messages(order, terms, places, missing)
        added = np.repeat(np.arange(terms.dimensions), np.maximum(missing, 0))
        places, boxes = np.concatenate((places[kept], added)), boxes[kept]
        if terms.padded_to is not None:
            boxes = np.concatenate((boxes, self._dummy_boxes(added)))
        # Every coordinate now has as many as agreed; those of each are put in random order.
        mixed = boxes[grouped_order(order, places)].reshape(terms.dimensions, -1)
        for coordinate, row in enumerate(mixed):
            self._post.send(ANALYZER, MixedBoxes(coordinate, row.tobytes()))
        self._post.leave()

    def _gathered_bundles(self) -> tuple[IntArray, np.ndarray[tuple[int, int], np.dtype[np.uint8]]]:
        """Return the coordinates of all messages, and their boxes, one a row."""
        terms = self._terms
        names = [client_name(number) for number in range(terms.clients)]
        bundles = self._post.gather(Bundle, names)
        for name, bundle in bundles.items():
            if len(bundle.places) != 4 * terms.chosen:
                raise fault(f"{name} did not send {terms.chosen:,} messages.")
            if len(bundle.boxes) != terms.box * terms.chosen:
                raise fault(f"{name} sent boxes of another length.")
        joined = b"".join(bundle.places for bundle in bundles.values())
        places = np.frombuffer(joined, "<u4").astype(np.int64).reshape(-1, terms.chosen)
        # Sorted by client, a coordinate that is sent twice stands next to itself.
        ranked = np.sort(places, axis=1)
        wrong = ranked[:, -1] >= terms.dimensions
        wrong |= (ranked[:, 1:] == ranked[:, :-1]).any(axis=1)
        if wrong.any():
            raise fault(f"{names[int(wrong.argmax())]} sent a coordinate that it may not send.")
        boxes = np.frombuffer(b"".join(bundle.boxes for bundle in bundles.values()), np.uint8)
        table = boxes.reshape(-1, terms.box)
        first, counts = np.unique(table, axis=0, return_index=True, return_counts=True)[1:]
        if (counts > 1).any():
            same = (table == table[first[counts > 1][0]]).all(axis=1)
            by = dict.fromkeys(names[row // terms.chosen] for row in np.flatnonzero(same))
            raise fault(f"The same box was sent twice, by {' and by '.join(by)}.")
        return places.reshape(-1), table

    def _dummy_boxes(self, places: IntArray) -> np.ndarray[tuple[int, int], np.dtype[np.uint8]]:
        """Return boxes with dummies of these coordinates."""
        terms = self._terms
        if self._dummies is None:
            raise InvalidInput("The terms ask for dummies, and no mechanism is given to draw them.")
        messages = self._dummies(len(places))[:, None]
        contents = terms.packed(self._tag, places, messages)
        boxes = sealed(self._public, contents, self._workers)
        return np.frombuffer(boxes, np.uint8).reshape(-1, terms.box)


class Analyzer(SecretHolder):
    """Opens the boxes that the shuffler hands on; it never learns who sent one."""

    def __init__(
        self,
        terms: Terms,
        key: BoxKey,
        post: Post,
        session: bytes,
        round: int,
        workers: Workers = SERIAL,
    ) -> None:
        self._terms, self._key, self._post, self._workers = terms, key, post, workers
        self._tag = terms.tag(session, round, key.public)
        post.enter(session, round, terms.limits)

    def receive(self) -> ReceivedMessages:
        """Return all messages, if every one of them is right."""
        terms = self._terms
        raw = b"".join(self._boxes(coordinate) for coordinate in range(terms.dimensions))
        boxes = [raw[at : at + terms.box] for at in range(0, len(raw), terms.box)]
        if len(set(boxes)) < len(boxes):
            raise fault("The shuffler handed the same box on twice.")
        opened = self._key.opened(boxes, self._workers)
        contents = [content for content in opened if content is not None]
        if len(contents) < len(boxes):
            raise fault("A box from the shuffler does not open.")
        unpacked = terms.unpacked(self._tag, [bytes(content) for content in contents])
        if unpacked is None:
            raise fault("The shuffler handed on a message that belongs to another round.")
        places, values = unpacked
        if not np.array_equal(places, np.repeat(np.arange(terms.dimensions), terms.count)):
            raise fault("The shuffler handed on a message that is of another coordinate.")
        if not summable(values, terms.count):
            raise fault("The shuffler handed on a message that is too large to be summed.")
        self._post.leave()
        return ReceivedMessages(values.reshape(terms.dimensions, terms.count, terms.width))

    def _boxes(self, coordinate: int) -> bytes:
        mixed = self._post.receive(MixedBoxes, SHUFFLER)
        if (
            mixed.coordinate != coordinate
            or len(mixed.boxes) != self._terms.box * self._terms.count
        ):
            raise fault("The shuffler handed on another number of messages than agreed.")
        return mixed.boxes
