"""A federation: whose records lie where.  Users x silos x records, as arrays and two indices.

|U| and |S| are public constants of the run, not facts about the data: a neighbouring federation
(`without`) has the same list of users and silos, one of which has no records.

Where records were dealt for a study, the list of users is public, and `users` is |U|.  The users of
a table are those who have a row: their list is private, `user_names` tell them apart, and what
divides by the number of users divides by the public number of the settings (`Setup.users`).  Or
they are those of a public list, whoever has a row, and `users` is |U| again.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, cast, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...accountant import validate
from ...accountant.arrays import Float32Array, IntArray
from ...accountant.errors import InvalidInput
from .groups import Groups, Pairs, pairs_of

if TYPE_CHECKING:
    from .held_out import HeldOutRows

Task = Literal["binary", "multiclass", "survival", "regression"]
TASKS: Final[tuple[Task, ...]] = get_args(Task)

Indices: TypeAlias = IntArray
Labels: TypeAlias = IntArray | Float32Array


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Federation:
    """Training records with the user and the silo that each belongs to, and a test set.

    - `features`: (records, ...) float32, finite.
    - `labels`: (records,) int64 from 0 to `classes` - 1, or for the task `survival`
      (records, 2) float32 with rows [time, event], time 0 or above, event 0 or 1 (1: observed),
      or for `regression` (records,) float32 from -1 to 1, which stand for the ends of
      `label_range`, public, and None of other tasks.
    - `user`, `silo`: (records,) int64, from 0 to `users` - 1 and `silos` - 1.
    - `users`, `silos`: the lengths of the lists of users and silos; |S| is a public constant.
    - `user_names`: (users,) int64, rising: what every user's public draws follow, where users are
      those of a table; None where users are named by their numbers.
    - `classes`: 2 for `binary`, 1 (one score) for `survival` and `regression`.
    - `test_features`, `test_labels`: as above; held out, and looked at only where they are public.
      There may be none where the list of users is private.
    - `test_silo`: (test records,) int64, where test records have a silo of their own; else None.
    - `held_out`: the records of users who are held out of the training; None where none are.
    - `absent_users`, `empty_silos`: allow a user or a silo without any record, as in a neighbour.

    The arrays are read-only; indexing with `order` gives a copy that is not.

    Raises `InvalidInput` for wrong shapes, a feature that is NaN or infinite (its row and column
    are named), labels and indices out of range, and, unless allowed, a user or a silo without
    records.

    >>> one = Federation(name="tiny", task="binary", classes=2, users=2, silos=1,
    ...                  features=[[0.0], [1.0], [2.0]], labels=[0, 1, 1], user=[0, 1, 1],
    ...                  silo=[0, 0, 0], test_features=[[0.5]], test_labels=[1])
    >>> one.counts.tolist(), one.without(1).counts.tolist()
    ([[1], [2]], [[1], [0]])
    """

    name: str
    task: Task
    classes: int
    users: int
    silos: int
    features: Float32Array
    labels: Labels
    user: IntArray
    silo: IntArray
    test_features: Float32Array
    test_labels: Labels
    label_range: tuple[float, float] | None = None
    test_silo: IntArray | None = None
    user_names: IntArray | None = None
    held_out: HeldOutRows | None = None
    absent_users: bool = False
    empty_silos: bool = False

    def __post_init__(self) -> None:
        checked: dict[str, object] = {
            "users": validate.count(users=self.users),
            "silos": validate.count(silos=self.silos),
            "classes": classes_of(self.task, self.classes),
        }
        if (self.label_range is None) == (self.task == "regression"):
            raise InvalidInput(
                f"`label_range` is {self.label_range}, which does not fit the task {self.task}.",
                "It says what number the label -1 stands for, and what 1.",
                "Give (low, high) for regression, and None for any other task.",
            )
        train = checked_features("features", self.features)
        test = checked_features("test_features", self.test_features)
        if test.shape[1:] != train.shape[1:]:
            raise InvalidInput(
                f"A test record has shape {test.shape[1:]}, a training record {train.shape[1:]}.",
                next_step="Give `features` and `test_features` records of one shape.",
            )
        self._refuse_empty_test(test)
        checked["features"], checked["test_features"] = train, test
        for field, given, records in (
            ("labels", self.labels, len(train)),
            ("test_labels", self.test_labels, len(test)),
        ):
            checked[field] = checked_labels(field, given, records, self.task, self.classes)
        checked["user"] = checked_indices("user", self.user, len(train), self.users)
        checked["silo"] = checked_indices("silo", self.silo, len(train), self.silos)
        if self.user_names is not None:
            checked["user_names"] = _rising_names(self.user_names, self.users)
        if self.test_silo is not None:
            held_out = checked_indices("test_silo", self.test_silo, len(test), self.silos)
            checked["test_silo"] = held_out
        for field, value in checked.items():
            object.__setattr__(self, field, _read_only(value))
        self._refuse_absent()

    def __repr__(self) -> str:
        return f"Federation({self.name!r}, {self.task}, users={self.users}, silos={self.silos})"

    def _refuse_empty_test(self, test: Float32Array) -> None:
        if not len(test) and self.user_names is None:
            raise InvalidInput(
                "The test set is empty.",
                "A run is judged on records that it did not train on.",
                "Give at least one test record.",
            )

    def _refuse_absent(self) -> None:
        absent = np.flatnonzero(np.bincount(self.user, minlength=self.users) == 0)
        if absent.size and not self.absent_users:
            raise InvalidInput(
                f"User {absent[0]} has no record in any silo ({absent.size} such users).",
                "A user without records is only meant in a neighbouring federation.",
                "Allocate at least one record to each user, or set `absent_users`.",
            )
        empty = np.flatnonzero(np.bincount(self.silo, minlength=self.silos) == 0)
        if empty.size and not self.empty_silos:
            raise InvalidInput(
                f"Silo {empty[0]} has no records.",
                "It would take part in every round with nothing but noise.",
                "Allocate records to it, or set `empty_silos`.",
            )

    @property
    def names(self) -> IntArray:
        """What the public draws of each user follow: (users,) int64, rising."""
        return np.arange(self.users) if self.user_names is None else self.user_names

    @property
    def records(self) -> int:
        """How many training records there are."""
        return len(self.user)

    @property
    def test_records(self) -> int:
        """How many records results are measured on, where test data are public."""
        return len(self.test_labels)

    @property
    def counts(self) -> IntArray:
        """How many records each user has in each silo: (users, silos).  Private."""
        cells = np.bincount(self.user * self.silos + self.silo, minlength=self.users * self.silos)
        return cells.reshape(self.users, self.silos).astype(np.int64)

    def pairs(self) -> Pairs:
        """Return the records of every user in every silo where it has any, by silo, then user."""
        return pairs_of(self.user, self.silo, self.users)

    def by_silo(self) -> Groups:
        """Return the records of each silo: group s is silo s, empty silos included."""
        return _by(self.silo, self.silos)

    def without(self, user: int) -> Federation:
        """Return the neighbouring federation (add-remove): this user's records are gone.

        The lists of users and of silos, |U|, |S| and the test set stay what they are.
        Raises `InvalidInput` for a user that is not on the list.
        """
        gone = validate.count_from(0, user=user)
        if gone >= self.users:
            raise InvalidInput(
                f"`user` must be below `users` ({self.users}); it is {gone}.",
                next_step="Users are numbered from 0.",
            )
        return self.only(self.user != gone)

    def only(self, kept: NDArray[np.bool_] | IntArray) -> Federation:
        """Return the federation with these of its records alone; all else stays as it is.

        `kept` says of each record whether it stays, or numbers those that stay.
        """
        return replace(
            self,
            features=self.features[kept],
            labels=self.labels[kept],
            user=self.user[kept],
            silo=self.silo[kept],
            absent_users=True,
            empty_silos=True,
        )


def _by(index: IntArray, groups: int) -> Groups:
    order = np.argsort(index, kind="stable").astype(np.int64)
    return Groups(order, _offsets(np.bincount(index, minlength=groups)))


def _offsets(sizes: IntArray) -> IntArray:
    return np.concatenate(([0], np.cumsum(sizes))).astype(np.int64)


def _rising_names(names: ArrayLike, users: int) -> IntArray:
    given = np.asarray(names)
    if given.shape != (users,) or given.dtype.kind not in "iu" or (np.diff(given) <= 0).any():
        raise InvalidInput(f"`user_names` must be {users} integers that rise.")
    return cast(IntArray, given.astype(np.int64))


def _read_only(value: object) -> object:
    if not isinstance(value, np.ndarray):
        return value
    view = value.view()
    view.flags.writeable = False
    return view


def classes_of(task: str, classes: int) -> int:
    """Return `classes` where it fits the task: 2, 2 or more, or 1 where there are none."""
    validate.choice(TASKS, task=task)
    number = validate.count(classes=classes)
    fits = {
        "binary": number == 2,
        "multiclass": number >= 2,
        "survival": number == 1,
        "regression": number == 1,
    }
    if not fits[task]:
        raise InvalidInput(
            f"`classes` is {number}, which does not fit the task {task}.",
            next_step="Give 2 classes for binary, 1 for survival and regression, 2 or more for "
            "multiclass.",
        )
    return number


def checked_features(field: str, features: ArrayLike) -> Float32Array:
    """Return features as (records, ...) float32, or refuse what is not finite, by its place."""
    try:
        with np.errstate(over="ignore"):  # what is infinite as float32 is refused below
            table = np.asarray(features, np.float32)
    except (TypeError, ValueError):
        table = np.empty(0, np.float32)
    if table.ndim < 2 or 0 in table.shape[1:]:
        raise InvalidInput(
            f"`{field}` must be an array of numbers of shape (records, ...).",
            next_step="Give one row per record, with at least one feature.",
        )
    # The least and the largest say it of all, without a mask as long as the table.
    if table.size and not np.isfinite([table.min(), table.max()]).all():
        row, *column = np.argwhere(~np.isfinite(table))[0].tolist()
        where = column[0] if len(column) == 1 else tuple(column)
        raise InvalidInput(
            f"`{field}` has a value that is NaN or infinite, first in row {row}, column {where}.",
            "One such value would spread through the whole model.",
            "Drop the row, or fill the value in by a public rule.",
        )
    return table


def checked_labels(field: str, labels: ArrayLike, records: int, task: Task, classes: int) -> Labels:
    """Return labels in the form of the task (see `Federation`), or refuse them by their place."""
    if task == "survival":
        return _checked_survival(field, labels, records)
    if task == "regression":
        return _checked_numbers(field, labels, records)
    return checked_indices(field, labels, records, classes)


def _checked_numbers(field: str, labels: ArrayLike, records: int) -> Float32Array:
    try:
        column = np.asarray(labels, np.float32)
    except (TypeError, ValueError):
        column = np.empty((0, 0), np.float32)
    if column.shape != (records,) or not ((column >= -1.0) & (column <= 1.0)).all():
        raise InvalidInput(
            f"`{field}` must be of shape ({records},), with numbers from -1 to 1.",
            "They stand for those of the public `label_range`.",
            "Clip and scale them.",
        )
    return column


def _checked_survival(field: str, labels: ArrayLike, records: int) -> Float32Array:
    try:
        table = np.asarray(labels, np.float32)
    except (TypeError, ValueError):
        table = np.empty(0, np.float32)
    if table.shape != (records, 2):
        raise InvalidInput(
            f"`{field}` must be of shape ({records}, 2), with rows [time, event].",
            next_step="Give a time and an event for each record.",
        )
    fits = np.isfinite(table[:, 0]) & (table[:, 0] >= 0) & np.isin(table[:, 1], (0.0, 1.0))
    if not fits.all():
        raise InvalidInput(
            f"Row {int(np.argmin(fits))} of `{field}` is no [time, event].",
            next_step="Give a finite time, 0 or above, and an event that is 0 or 1.",
        )
    return table


def checked_indices(field: str, values: ArrayLike, records: int, below: int) -> IntArray:
    """Return (records,) int64 from 0 to `below` - 1, or refuse them by their place."""
    given = np.asarray(values)
    if given.shape != (records,):
        raise InvalidInput(
            f"`{field}` must be of shape ({records},); it is {given.shape}.",
            next_step=f"Give `{field}` one value per record.",
        )
    whole = given.dtype.kind in "iu" or not records
    if not whole:
        raise InvalidInput(f"`{field}` must hold integers; it holds {given.dtype}.")
    outside = np.flatnonzero((given < 0) | (given >= below))
    if outside.size:
        raise InvalidInput(
            f"`{field}` must be from 0 to {below - 1}; row {outside[0]} is not.",
            next_step=f"Number `{field}` from 0.",
        )
    return cast(IntArray, given.astype(np.int64))
