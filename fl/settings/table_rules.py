"""What a configuration says of a table of one's own: whose rows they are, and what is public."""

from __future__ import annotations

from typing import Final

from ...accountant.errors import enumerated
from ..declarations.declaration import Complaint, Rule
from ..declarations.given_settings import GivenSettings
from ..declarations.own_code import is_own
from ..declarations.registry import with_use_for
from ..declarations.toml_key import LOSSES_OF_NUMBERS, TABLE
from ..declarations.toml_keys import STUDY_KEYS, TABLE_KEYS
from ..tables.schema_text import schema_in
from .held_out_rules import HELD_OUT_RULES
from .rating_rules import idle_on, of_other_data, path_complaint

_KEYS_OF_DEALING: Final = ("users", "allocation", "labels_per_user", *STUDY_KEYS, "normalisation")
"""Keys of [data] that say how records are dealt to users, and how they are scaled."""

_MESSAGES_OF_USERS: Final = {
    "private-weighting": "That protocol has a number for each user of a public list, and who has a "
    "row in a table is private.",
    "shuffle": "Each user of a public list sends messages; fewer of them hide less, and how many "
    "have a row in a table is private.",
}
"""Why some aggregations need a public list of users."""

_INSTEAD_OF_USERS: Final = (
    "Write `users_at_most` instead; or `users_public` and `users_list` with it, where the list "
    "of users is public."
)

_LISTS: Final = ("users_public", "users_list")

_WITH_A_LIST: Final = {
    "users_public": (
        "That a list of users is public is said by somebody, and stands in the log.",
        'Write users_public = "who published the list, and where" under [data].',
    ),
    "users_list": (
        "The list is never made of the rows: whether somebody is on it must not depend on them.",
        'Write users_list = "patients.csv" under [data], a file with the column of the ids.',
    ),
    "users": (
        "Who is on a public list takes part, with rows or without, so how many they are decides "
        "the numbers of a guarantee.",
        "Write users = 500 under [data], for example: how many are on the list.",
    ),
    "user": (
        "A list of users is one of ids, which stand in a column.",
        'Write user = "patient" under [data], or leave the list out.',
    ),
}
"""What is said with a public list of users: why, and how."""

_LABELS_OF_MODEL: Final = {
    "logistic": ("binary",),
    "softmax": ("binary", "classes"),
    "linear": ("number",),
    "cox": ("survival",),
}
"""The kinds of label that some models are for; all others are for these but `survival`."""

_LABELS_OF_OTHERS: Final = ("binary", "classes", "number")

_LABELS_OF_LOSS: Final = {
    "binary-cross-entropy": ("binary",),
    "cross-entropy": ("binary", "classes"),
    "cox": ("survival",),
    **dict.fromkeys(LOSSES_OF_NUMBERS, ("number",)),
}
"""The kinds of label that each loss is for."""


def _keys_of_tables(given: GivenSettings) -> Complaint | None:
    if given.of_table:
        return None
    key = next((key for key in TABLE_KEYS if given.states("data", key)), None)
    if key is None and given.silo_files is None:
        return None
    return of_other_data(given, key or "silos", TABLE)


def _systems_for_tables(given: GivenSettings) -> Complaint | None:
    if not given.of_table or given.system.has_use_for("data", "schema"):
        return None
    readers = enumerated(with_use_for("data", "schema"), "and") or "none that is installed"
    return (
        f'names "{TABLE}" in [data], and {given.system.name} does not run on one yet',
        f"Systems that do: {readers}.",
        "Choose one of these.",
    )


def _keys_of_dealing(given: GivenSettings) -> Complaint | None:
    if not given.of_table:
        return None
    listed = _names_a_list(given)  # of which it is known how many users are on it
    keys = [key for key in _KEYS_OF_DEALING if key != "users" or not listed]
    key = next((key for key in keys if given.states("data", key)), None)
    if key is None:
        return None
    return idle_on(
        given,
        key,
        "Nothing is dealt: a row is of the user and the silo that its file says, and the schema "
        "says how values are scaled.",
        _INSTEAD_OF_USERS if key == "users" else "",
    )


def _files(given: GivenSettings) -> Complaint | None:
    """Require the files of each silo, or one file with a column that says the silo."""
    if not given.of_table:
        return None
    # Either all silos have files of their own, or none has, and a column says the silo of a row.
    silos, path = given.silo_files, given.states("data", "path")
    if silos is None:
        return (
            f'names "{TABLE}" in [data], and does not say which `silos` there are',
            "The list of silos is public, and may hold one that has no row.",
            'Write silos = { north = "north.csv", south = "south/*.csv" }, or a list of names '
            'with path = "all.csv" and silo = "hospital".',
        )
    named = [silo for silo, files in silos if not files]
    column = given.states("data", "silo")
    if given.states("data", "rows"):
        if not path and len(named) == len(silos):
            return None
        return (
            f'gives {"`path`" if path else "files of `silos`"} in [data] with `rows` = "program"',
            "No file has the rows: a program hands them over.",
            "Leave out one of the two; `silos` is then a list of names.",
        )
    if not named and (path or column):
        return (
            f"gives `{'path' if path else 'silo'}` in [data] with the files of `silos`",
            "Those say which rows there are, and in which silo.",
            "Leave it out.",
        )
    if named and not (len(named) == len(silos) and path and column):
        return (
            "says no files of some `silos` in [data], and not where else their rows are",
            "Rows of several silos in one file have a column that says of which they are.",
            'Write path = "all.csv" and silo = "hospital" under [data], or files for all silos.',
        )
    return None


def _what_is_public(given: GivenSettings) -> Complaint | None:
    if not given.of_table:
        return None
    if not given.states("data", "schema"):
        return (
            f'names "{TABLE}" in [data], and lacks `schema` there',
            "Ranges, categories and widths are public, and are never looked up in the records.",
            "privplan data schema FILE... writes a draft of it.",
        )
    if _names_a_list(given):
        return _users_on_list(given)
    if not given.states("data", "users_at_most"):
        return (
            f'names "{TABLE}" in [data], and lacks `users_at_most` there',
            "What is released is divided by a public number of users; how many there are is "
            "private.",
            "Write users_at_most = 5000 under [data], for example: a number that is not counted "
            "in the files.",
        )
    return None


def _names_a_list(given: GivenSettings) -> bool:
    return any(given.states("data", key) for key in _LISTS)


def _users_on_list(given: GivenSettings) -> Complaint | None:
    """Require of a public list how many users are on it, and a column that says who they are."""
    if given.states("data", "users_at_most"):
        return (
            "gives `users_at_most` with `users_public` in [data]",
            "Of a public list it is known how many users are on it.",
            "Write users = 500 in its place, for example: how many are on the list.",
        )
    for key, (why, step) in _WITH_A_LIST.items():
        if not given.states("data", key):
            there = next(name for name in _LISTS if given.states("data", name))
            return f"says `{there}` of a table in [data], and lacks `{key}` there", why, step
    return path_complaint(
        given, given.stated("data", "users_public"), "in `users_public` of [data]", "list"
    )


def _unit_column(given: GivenSettings) -> Complaint | None:
    if not given.of_table or given.states("data", "user") or given.privacy.unit == "record":
        return None
    if not given.system.promises or given.privacy.unit != "user":
        return None
    return (
        f'names "{TABLE}" in [data], and lacks `user` there',
        "Without the column that says whose record a row is, every row would count as another "
        "person, and who has two of them would not be protected.",
        'Write user = "patient" under [data], or unit = "record" under [privacy].',
    )


def _label(given: GivenSettings) -> Complaint | None:
    if not given.of_table:
        return None
    schema = schema_in(given.data.schema or "{}")
    named, trains = given.states("data", "label"), given.system.trains
    if trains and (not named or schema.label is None):
        lacking = "`label` there" if not named else "[label] in its schema"
        return (
            f'names "{TABLE}" in [data], and lacks {lacking}',
            f"{given.system.name} learns a label from the other columns.",
            'Write label = "outcome" under [data], and its kind under [label] of the schema.',
        )
    if named and schema.label is None:
        return (
            "gives `label` in [data], and its schema has no [label]",
            "What a label may be is public.",
            "Write [label] into the schema.",
        )
    if trains and schema.label is not None:
        return _model(given, schema.label.kind)
    return None


def _model(given: GivenSettings, kind: str) -> Complaint | None:
    model = given.training.model
    if is_own(model) or kind in _LABELS_OF_MODEL.get(model, _LABELS_OF_OTHERS):
        return _loss(given, kind)
    return (
        f'has model = "{model}" in [training], and kind = "{kind}" in [label] of its schema',
        "A model is made for one kind of label.",
        "Leave `model` out, or choose one for that label.",
    )


def _loss(given: GivenSettings, kind: str) -> Complaint | None:
    """Require the loss of the label; one of one's own fits any."""
    loss = given.training.loss
    if loss is None or is_own(loss) or kind in _LABELS_OF_LOSS[loss]:
        return None
    return (
        f'has loss = "{loss}" in [training], and kind = "{kind}" in [label] of its schema',
        "A loss is made for one kind of label.",
        "Leave `loss` out, or choose one for that label.",
    )


def _roles(given: GivenSettings) -> Complaint | None:
    """Refuse a column that is a feature besides saying whose, where or what a row is."""
    if not given.of_table:
        return None
    data = given.data
    described = {column.name: column.kind for column in schema_in(data.schema or "{}").columns}
    schema = schema_in(data.schema or "{}")
    event = None if schema.label is None else schema.label.event
    named = {key: given.stated("data", key) for key in ("user", "label", "silo")}
    if not any(kind != "ignored" for kind in described.values()):
        return (
            "describes no feature in the schema of its table",
            "Nothing can be learnt from columns that are all ignored.",
            "Describe a column in the schema.",
        )
    for key, column in {**named, "label of an event": event}.items():
        if column is not None and described.get(column, "ignored") != "ignored":
            return (
                f"names the column {column!r:.60} as `{key}` in [data] and as a feature in its "
                "schema",
                "A model must not learn from who somebody is, or from its own answer.",
                f'Leave [columns.{column:.60}] out of the schema, or write kind = "ignored".',
            )
    return None


def _public_list(given: GivenSettings) -> Complaint | None:
    return list_complaint(given.security.aggregation) if given.users_are_private else None


def list_complaint(aggregation: str) -> Complaint | None:
    """Refuse messages of each user where who has a row is private."""
    if aggregation not in _MESSAGES_OF_USERS:
        return None
    return (
        f'names "{TABLE}" in [data], lacks `users_public` there, and has aggregation = '
        f'"{aggregation}" in [security]',
        _MESSAGES_OF_USERS[aggregation],
        "Where a list of users is public, write users_public, users_list and users in place of "
        "users_at_most (privplan explain tables); else choose "
        + ("another system." if aggregation == "shuffle" else 'aggregation = "masked".'),
    )


def _test_data(given: GivenSettings) -> Complaint | None:
    if given.test_file is not None and not given.of_table:
        return (
            f'names a file as `test` in [evaluation], and "{given.dataset}" has test data',
            "Data sets of papers come with a split of their own.",
            'Write test = "public" with `source`, or test = "none".',
        )
    if given.test_file is None and given.of_table and given.evaluation.test == "public":
        return (
            f'names "{TABLE}" in [data], and has test = "public" in [evaluation]',
            "No rows of a table are set aside for tests.",
            'Write test = "test.csv", a public file with the columns of the schema, or "held-out".',
        )
    return None


TABLE_RULES: Final[tuple[Rule, ...]] = (
    _keys_of_tables,
    _systems_for_tables,
    _keys_of_dealing,
    _files,
    _what_is_public,
    _unit_column,
    _label,
    _roles,
    _public_list,
    _test_data,
    *HELD_OUT_RULES,
)
"""In the order in which they are asked."""
