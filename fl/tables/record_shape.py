"""How many features a record has, and how many classes there are: known without any record."""

from __future__ import annotations

from ...accountant.errors import InvalidInput
from ..datasets.registry import SHAPES
from ..declarations.data_table import DataSettings
from ..declarations.declaration import Read
from ..declarations.stated_settings import StatedSettings
from ..declarations.toml_key import TABLE
from .schema_text import schema_in

RecordShape = tuple[int, int]
"""Features of a record, and classes."""


def shape_of_record(name: object, schema: object = None) -> RecordShape | None:
    """Return the shape of the records of a data set; None for what is not known here.

    `name` and `schema`, that of a table, are as a configuration states them.

    >>> shape_of_record("digits"), shape_of_record("table", '{"columns":{"a":{"kind":"boolean"}}}')
    ((64, 10), (1, 1))
    """
    if name != TABLE:
        return SHAPES.get(name) if isinstance(name, str) else None
    try:
        columns = schema_in(schema) if isinstance(schema, str) else None
    except InvalidInput:
        return None
    if columns is None:
        return None
    return columns.width, 1 if columns.label is None else columns.label.classes


def shape_in(data: DataSettings) -> RecordShape | None:
    """Return the shape of the records that settings are about; None for what is not known here."""
    return shape_of_record(data.name, data.schema)


def required_shape(data: DataSettings) -> RecordShape:
    """Return the shape of the records that settings are about; raises `InvalidInput` for none."""
    shape = shape_in(data)
    if shape is None:
        raise InvalidInput(
            f"How many features records of {data.name} have is not known beforehand.",
            next_step="Choose a data set of records with labels.",
        )
    return shape


def has_number_label(data: DataSettings) -> bool:
    """Return whether the labels of the data that settings are about are numbers."""
    if data.name != TABLE:
        return False
    label = schema_in(data.schema or "{}").label
    return label is not None and label.kind == "number"


def shape_read(read: Read) -> RecordShape | None:
    """Return the shape of the records that a configuration is about, from its keys."""
    data = StatedSettings(read).data
    return shape_of_record(data.name, data.schema if data.name == TABLE else None)
