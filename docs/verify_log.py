"""Check a log of privplan with nothing but Python: the chain of hashes, and what was begun.

    python verify_log.py FOLDER [HEAD]

HEAD is a head that was kept elsewhere (or its first 32 digits or more).  It must be the hash of a
line of the log; the lines after it may be anybody's.
"""

import hashlib
import json
import sys
from pathlib import Path


def canonical(value):
    """Return JSON with sorted keys, without spaces, in ASCII, without infinite numbers."""
    return json.dumps(
        value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False
    )


def verify(folder, head=""):
    """Return what the log says; raise `ValueError` at the first line that does not fit."""
    before, hashes, begun, released = "0" * 64, [], set(), set()
    content = (Path(folder) / "log.jsonl").read_bytes()
    if not content.endswith(b"\n"):
        raise ValueError("the last line is cut off")
    for number, line in enumerate(content.splitlines()):
        record = json.loads(line)
        claimed = record.pop("hash", None)
        text = canonical(record)
        if record.get("seq") != number or record.get("prev") != before:
            raise ValueError(f"line {number + 1} does not follow the line before")
        if hashlib.sha256(text.encode("ascii")).hexdigest() != claimed:
            raise ValueError(f"line {number + 1} was changed")
        if canonical({**record, "hash": claimed}).encode("ascii") != line:
            raise ValueError(f"line {number + 1} is not in canonical form")
        # An intent is written before any noise is drawn, and counts as spent from then on.
        if record["type"] == "round.intent":
            begun.add(number)
        if record["type"] == "round.release":
            if record["intent"] not in begun or record["intent"] in released:
                raise ValueError(f"line {number + 1} releases what was not begun, or twice")
            released.add(record["intent"])
        before = claimed
        hashes.append(claimed)
    if head and (len(head) < 32 or not any(each.startswith(head) for each in hashes)):
        raise ValueError("the head that was kept elsewhere is in no line: something was cut off")
    return {"lines": len(hashes), "begun": len(begun), "released": len(released), "head": before}


if __name__ == "__main__":
    try:
        print(json.dumps(verify(*sys.argv[1:3]), indent=2))
    except (ValueError, KeyError, OSError) as fault:
        sys.exit(f"FAILED: {fault}")
