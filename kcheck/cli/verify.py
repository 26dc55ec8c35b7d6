"""``kcheck verify``."""

from __future__ import annotations

from pathlib import Path

import click

from kcheck.cli.exits import Exit


@click.command("verify")
@click.argument("file", metavar="FILE", type=click.Path(path_type=Path, dir_okay=False))
@click.option(
    "--key", required=True, metavar="PUB", type=click.Path(path_type=Path, dir_okay=False), help="The public key."
)
@click.option(
    "--root",
    metavar="DIR",
    type=click.Path(path_type=Path, file_okay=False),
    help="Also compare this project's specs, kernels and references with those that the report is about.",
)
def command(file: Path, key: Path, root: Path | None) -> int:
    """Check the signature of a report, offline.

    \b
      kcheck verify kcheck.dsse.json --key kcheck.key.pub
      kcheck verify kcheck.dsse.json --key kcheck.key.pub --root .

    Signed report files are also checked if they are in the same folder. Exit code: 0 if the signature is valid and
    no file differs, 1 otherwise. The exit code does not depend on whether the kernels passed.
    """
    from kcheck.cli.signing import BadSignature, verified
    from kcheck.report import plain

    try:
        statement = verified(file, key)
    except BadSignature:
        click.echo(f"INVALID: {file} was changed after it was signed, or another key signed it")
        return Exit.FAILED
    predicate = statement["predicate"]
    click.echo(f"signature valid; run of {plain.line(str(predicate.get('started', '?')))}")
    click.echo(f"kcheck {predicate.get('kcheck', '?')} on {plain.line(str(predicate['device']['name']))}")
    for each in predicate["ops"]:
        cases = each["cases"]
        dtypes = ", ".join(f"{name} {' '.join(found)}" for name, found in each["dtypes"].items())
        passed = f"{cases['passed']} of {sum(cases.values())} cases passed"
        click.echo(plain.line(f"  {each['verdict']:<10} {each['op']}  {passed}  {dtypes}").rstrip())
    for each in predicate["refused"]:
        click.echo(plain.line(f"  not run    {each['spec']}"))
    return Exit.GOOD if _files_match(statement, file.parent, root) else Exit.FAILED


def _files_match(statement: dict[str, object], folder: Path, root: Path | None) -> bool:
    """Compares the files that a statement names; says which differ."""
    from kcheck.cli.signing import digest
    from kcheck.report import plain

    predicate = statement["predicate"]
    assert isinstance(predicate, dict)
    sources = {path for each in predicate["ops"] for path in each["sources"]}
    subjects = statement["subject"]
    assert isinstance(subjects, list)
    good = True
    for subject in subjects:
        name = str(subject["name"])
        base = root if name in sources else folder
        if base is None:
            continue
        path = base / name
        if not path.is_file():
            state = "missing" if name in sources else "not in this folder"
        else:
            state = "as signed" if digest(path) == subject["digest"]["sha256"] else "DIFFERS"
        good = good and state in ("as signed", "not in this folder")
        click.echo(plain.line(f"  {state:<18} {name}"))
    return good
