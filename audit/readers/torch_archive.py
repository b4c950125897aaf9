"""Files of torch.save, read without torch: the pickle in them, never a tensor.

    since 1.6    a zip archive `NAME/data.pkl`, `NAME/data/0`, ...: only `data.pkl` is read
    before       pickles in a row: a magic number, the protocol 1001, facts about the machine, the
                 object; then the names and the bytes of the tensors, which are not read

A checkpoint of many gigabytes is read like a small one.  `pickled_member` takes a stream for that.

Source: PyTorch 2.13, torch.serialization (`_save`, `_legacy_save`); APPNOTE 6.3 of ZIP for the
end records.
"""

from __future__ import annotations

import struct
import zipfile
import zlib
from io import BytesIO
from typing import BinaryIO, Final

from ...accountant.errors import InvalidInput
from .safe_pickle import MAX_PICKLE_BYTES, next_pickle, read_pickle

LEGACY_MAGIC: Final = 0x1950A86A20F9469CFC6C
LEGACY_PROTOCOL: Final = 1001
LEGACY_START: Final = b"\x8a\x0a" + LEGACY_MAGIC.to_bytes(10, "little")
"""How the magic number is pickled, in every protocol that torch has used for it."""

MAX_DIRECTORY_BYTES: Final = 32 * 1024 * 1024
"""Largest directory of an archive: one of 100,000 tensors has about 8 MiB."""

_END_RECORD: Final = b"PK\x05\x06"
_LARGE_END_RECORD: Final = b"PK\x06\x06"
_LONGEST_END: Final = 22 + 65_535 + 20 + 56


def looks_like_archive(content: bytes) -> bool:
    """Return whether content begins as a zip archive does."""
    return content.startswith(b"PK\x03\x04")


def looks_like_legacy(content: bytes) -> bool:
    """Return whether content begins as files of torch.save did before version 1.6."""
    return LEGACY_START in content[:32]


def pickled_member(stream: BinaryIO, source: str) -> bytes:
    """Return the pickle of a zip archive of torch.save: its one member `*/data.pkl`.

    Raises `InvalidInput` for a damaged archive, none or two such members, and one of more than
    `MAX_PICKLE_BYTES`.  No other member is read.
    """
    try:
        _check_directory(stream, source)
        with zipfile.ZipFile(stream) as archive:
            members = [
                member
                for member in archive.infolist()
                if member.filename.rpartition("/")[2] == "data.pkl"
            ]
            # Other methods than these two may take gigabytes to unpack a few bytes.
            plain = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
            if len(members) != 1 or members[0].compress_type not in plain:
                raise InvalidInput(
                    f"`{source}` is a zip archive with {len(members)} members `data.pkl`, or packs "
                    "it in a way that torch does not.",
                    "A file of torch.save has exactly 1.",
                    "Give the file that torch.save or save_checkpoint wrote.",
                )
            with archive.open(members[0]) as member:
                content = member.read(MAX_PICKLE_BYTES + 1)
    except InvalidInput:
        raise
    except (
        zipfile.BadZipFile,
        zlib.error,
        struct.error,
        NotImplementedError,
        RuntimeError,
        ValueError,
        LookupError,
        EOFError,
        OSError,
        OverflowError,
    ):
        raise InvalidInput(
            f"`{source}` begins as a zip archive does and is none that can be read.",
            "It is damaged, cut off or encrypted.",
            "Save the checkpoint again.",
        ) from None
    if len(content) > MAX_PICKLE_BYTES:
        raise InvalidInput(
            f"The member `data.pkl` of `{source}` is larger than {MAX_PICKLE_BYTES // 2**20} MiB.",
            "It holds names and small values only; tensors lie in members of their own.",
            "Save the accountant's state by itself: json.dump(accountant.state_dict(), file).",
        )
    return content


def read_torch_file(content: bytes, source: str) -> object:
    """Return what torch.save, or a plain pickler, saved: values and placeholders.

    Raises `InvalidInput` as `pickled_member` and `read_pickle` do.
    """
    if looks_like_archive(content):
        return read_pickle(pickled_member(BytesIO(content), source), source)
    if looks_like_legacy(content):
        return _legacy_object(BytesIO(content), source)
    return read_pickle(content, source)


def _legacy_object(stream: BinaryIO, source: str) -> object:
    magic, protocol = next_pickle(stream, source), next_pickle(stream, source)
    if magic != LEGACY_MAGIC or protocol != LEGACY_PROTOCOL:
        raise InvalidInput(
            f"`{source}` begins as an old file of torch.save does and has an unknown version.",
            next_step="Load it with torch where you trust it, and save the accountant's state.",
        )
    next_pickle(stream, source)  # sizes and byte order of the machine that wrote it
    return next_pickle(stream, source)


def _check_directory(stream: BinaryIO, source: str) -> None:
    """Refuse a directory so large that listing it would take the machine's memory."""
    length = stream.seek(0, 2)
    stream.seek(max(0, length - _LONGEST_END))
    tail = stream.read()
    stream.seek(0)
    # As zipfile looks for it: at the very end, or before a comment.
    end = len(tail) - 22 if tail[-22:-18] == _END_RECORD else tail.rfind(_END_RECORD)
    size = struct.unpack_from("<L", tail, end + 12)[0] if end >= 0 else 0
    large = tail.rfind(_LARGE_END_RECORD, 0, max(end, 0))
    if large >= 0:
        size = max(size if size < 2**32 - 1 else 0, struct.unpack_from("<Q", tail, large + 40)[0])
    if size > MAX_DIRECTORY_BYTES:
        raise InvalidInput(
            f"The directory of the archive `{source}` is larger than "
            f"{MAX_DIRECTORY_BYTES // 2**20} MiB.",
            "A checkpoint has a few thousand members.",
            "Save the accountant's state by itself: json.dump(accountant.state_dict(), file).",
        )
