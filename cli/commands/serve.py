"""`privplan serve`: the budget ledger of an institution."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from ..terminal.output import one_line, table

Database = Annotated[
    str | None,
    typer.Argument(
        metavar="[DATABASE]",
        help="The file of the ledger, or the URL of a PostgreSQL database.",
        show_default=False,
    ),
]
Key = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Ed25519 private key that signs; made where there is none, outside of the database's "
        "folder and its backups.",
        show_default=False,
    ),
]
FormerKey = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", help="The key that signed so far: it names the next.", show_default=False
    ),
]
Owner = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="Issue a token for this owner.", show_default=False),
]
Witness = Annotated[
    list[Path] | None,
    typer.Option(
        metavar="FILE",
        help="Heads that a witness kept: a database that lacks them is not served from.",
        show_default=False,
    ),
]
New = Annotated[
    bool,
    typer.Option(
        "--new", help="The key exists, and has signed no data set: begin with an empty database."
    ),
]
Host = Annotated[str, typer.Option(metavar="NAME", help="Where it answers.")]
Port = Annotated[int, typer.Option(metavar="N", help="0 takes a free one.", min=0, max=65535)]
Certificate = Annotated[
    Path | None,
    typer.Option("--tls-cert", metavar="FILE", help="Certificate chain.", show_default=False),
]
CertificateKey = Annotated[
    Path | None,
    typer.Option("--tls-key", metavar="FILE", help="Its private key.", show_default=False),
]
DailyClaims = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        min=1,
        help="Most claims of one holder on a data set in a day (100,000 unless given).",
        show_default=False,
    ),
]
DailyMegabytes = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        min=1,
        help="Most megabytes that they may write (100 unless given).",
        show_default=False,
    ),
]
Demo = Annotated[
    bool,
    typer.Option("--demo", help="An example in a temporary folder, with a token of each role."),
]
Quiet = Annotated[
    bool, typer.Option("--quiet", "-q", help="Print the address alone, and each token on a line.")
]
AsJson = Annotated[
    bool, typer.Option("--json", help="Print one JSON object, on the first line, when it answers.")
]


def serve(
    database: Database = None,
    key: Key = None,
    former_key: FormerKey = None,
    owner: Owner = None,
    witness: Witness = None,
    host: Host = "127.0.0.1",
    port: Port = 8443,
    tls_cert: Certificate = None,
    tls_key: CertificateKey = None,
    new: New = False,
    daily_claims: DailyClaims = None,
    daily_megabytes: DailyMegabytes = None,
    demo: Demo = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Serve a budget ledger that many spend from, and that nobody overspends.

    It prints its address, and the tokens that it issues, when it answers; tokens are shown once.
    It runs until it is interrupted.  The addresses and an example: privplan explain ledger.
    """
    from ...accountant.errors import InvalidInput
    from ...audit.budget_service import serving
    from .doctor import naming_install_command

    def announce(said: Mapping[str, Any]) -> None:
        alone = "\n".join([str(said["url"]), *map(str, said["tokens"].values())])
        # Whoever started it waits for this line.
        print(json.dumps(said) if as_json else alone if quiet else _text(said), flush=True)

    with naming_install_command("serve"):
        if demo:
            if database is not None or key is not None:
                raise InvalidInput("--demo has a database and a key of its own.")
            serving.demo(port, announce)
            return
        if database is None or key is None:
            raise InvalidInput(
                "A ledger needs a database and --key.",
                "The key that signs its history must lie outside of the database and its backups.",
                "privplan serve ledger.db --key /safe/place/ledger.pem, or privplan serve --demo",
            )
        asked = serving.ServiceOptions(
            database,
            key,
            host,
            port,
            owner,
            former_key,
            tuple(witness or ()),
            tls_cert,
            tls_key,
            new,
            daily_claims,
            daily_megabytes,
        )
        serving.serve(asked, announce)


def _text(said: Mapping[str, Any]) -> str:
    rows = [("answers", str(said["url"]))]
    if "data_set" in said:
        rows.append(("data set", str(said["data_set"])))
    rows += [(f"token {name}", str(token)) for name, token in said["tokens"].items()]
    if "key" not in said:  # the example has one that is gone with it
        return table(rows)
    rows.append(("key", str(said["key"])))
    rows += [("BEHIND", f"{name}: takes no claims") for name in said["behind"]]
    rows += [("unchecked", f"{name}: too long to be added up now") for name in said["unchecked"]]
    if "warning" in said:
        rows.append(("warning", one_line(str(said["warning"]))))
    return table(rows)
