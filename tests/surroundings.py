"""The tests that look at their surroundings, run in two that are unlike a developer's.

python tests/surroundings.py [WORD ...]      only tests whose id holds one of the words

Each runs in a copy of the checkout in a folder with a space and an umlaut.  `northern`: a German
locale, no home, a narrow terminal without colour, a strict umask, no network, no standard input,
signals ignored as in the background of a script.  `southern`: a locale of ASCII, a home that nobody
may write to, a wide terminal with colour, a lax umask, and not root.  What needs root to be set up
is left out, and said, where somebody else starts this.
"""

from __future__ import annotations

import locale
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]

SUSPICIOUS: Final = re.compile(
    r"umask|st_mode|chmod|getuid|PermissionError|HOME\b|environ|setenv|locale|ascii|encoding|README"
    r"|datetime|utime|mtime|socket|signal|fork\(|stdin|COLUMNS|/dev/|mkfifo|symlink|OSError"
    r"|chdir|getcwd|shlex|isatty|terminal|--help|COLOR|tempfile|absolute|unlink"
    r"|subprocess|shell\(|started\(|python\(|privplan\("
)
"""What the text of a test has that may look at something outside of it."""

ANOTHER: Final = "65534"
"""The user and the group that are nobody's."""

NORTHERN: Final = {
    "LC_ALL": "de_DE.UTF-8",
    "TZ": "Pacific/Kiritimati",
    "HOME": "/nonexistent/home",
    "COLUMNS": "40",
    "TERM": "dumb",
    "NO_COLOR": "1",
}
SOUTHERN: Final = {
    "LC_ALL": "C",
    "PYTHONUTF8": "0",
    "PYTHONCOERCECLOCALE": "0",
    "TZ": "America/St_Johns",
    "COLUMNS": "200",
    "TERM": "xterm-256color",
    "FORCE_COLOR": "1",
}


def suspects(words: list[str]) -> list[str]:
    """Return the ids of the tests that may depend on their surroundings."""
    found: list[str] = []
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        for block in path.read_text(encoding="utf-8").split("\n\n\n"):
            name = re.search(r"^def (test_\w+)", block, re.MULTILINE)
            if name and SUSPICIOUS.search(block):
                found.append(f"{path.relative_to(ROOT).as_posix()}::{name[1]}")
    return [name for name in found if not words or any(word in name for word in words)]


def copied(folder: Path) -> Path:
    """Return a copy of the checkout, with a link beside it by which it is `privplan`."""
    ignored = shutil.ignore_patterns(".*", "build", "dist", "__pycache__", "*.egg-info")
    copy = folder / "eine K\u00f6pie"
    shutil.copytree(ROOT, copy, ignore=ignored)
    shutil.copytree(ROOT / ".ci", copy / ".ci")
    (folder / "path").mkdir()
    (folder / "path" / "privplan").symlink_to(copy)
    return copy


def northern() -> None:
    """Start a process without standard input, as a script starts one in its background."""
    os.umask(0o077)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    os.close(0)


def southern() -> None:
    """Start a process whose files anybody may change."""
    os.umask(0)


def run(
    copy: Path, tests: list[str], around: dict[str, str], start: Callable[[], None], as_root: bool
) -> int:
    """Run tests in a copy; return the exit code of pytest."""
    prefix: list[str] = []
    if os.geteuid() == 0 and as_root:
        prefix = ["unshare", "-n"]
    elif os.geteuid() == 0:
        prefix = ["setpriv", f"--reuid={ANOTHER}", f"--regid={ANOTHER}", "--clear-groups"]
        child = [*prefix, "bash", "-c", '"$0" -c 0', sys.executable]
        if subprocess.run(child, stderr=subprocess.DEVNULL).returncode:
            print(f"Nobody else may run {os.path.realpath(sys.executable)}: this runs as root.")
            prefix = []
    options = ["-q", "-p", "no:cacheprovider", "--tb=short", "--color=no"]
    left = ("PRIVPLAN_", "XDG_", "LC_", "LANG")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(left)}
    paths = {"PYTHONPATH": str(copy.parent / "path"), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [*prefix, sys.executable, "-m", "pytest", *options, *tests]
    return subprocess.run(command, cwd=copy, env=kept | paths | around, preexec_fn=start).returncode


def main(words: list[str]) -> int:
    """Run the suspects in both surroundings; return whether any failed."""
    tests = suspects(words)
    try:
        locale.setlocale(locale.LC_ALL, NORTHERN["LC_ALL"])
    except locale.Error:
        print("There is no German locale here: `localedef -i de_DE -f UTF-8 de_DE.UTF-8` makes it.")
    with tempfile.TemporaryDirectory(prefix="umgebung \u00fc ") as name:
        folder = Path(name)
        folder.chmod(0o755)
        copy = copied(folder)
        files, home = folder / "files", folder / "home"
        files.mkdir()
        home.mkdir(mode=0o555)
        print(f"{len(tests)} tests in a German background process:", flush=True)
        failed = run(copy, tests, NORTHERN | {"TMPDIR": str(files)}, northern, as_root=True)
        print(f"{len(tests)} tests of somebody else in a locale of ASCII:", flush=True)
        failed |= run(copy, tests, SOUTHERN | {"HOME": str(home)}, southern, as_root=False)
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
