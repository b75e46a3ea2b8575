"""`python -m depthstress.verify outputs/<suite>`: do the results there stand?

Nothing is believed but what models wrote and what training recorded. The data are made again from the settings, the
texts scored again, the tables, the figures and the report made again from them, and every byte is compared with what
lies there. The manifest's hashes tie it together: what was changed with its hash adjusted still has to follow from the
step before it. A text that a model never wrote, put there consistently, can't be found: only generating again shows it.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from .checks import CHECKS, MAY_LACK, Check, NoResults, Results, json_object, shown
from .provenance import versions

LISTED = 10  # problems of a check


def verify(folder: Path, checks: tuple[Check, ...] = CHECKS) -> dict[str, list[str]]:
    """The problems that each check found. Raises NoResults where there is nothing to check."""
    with tempfile.TemporaryDirectory() as scratch:
        results = Results(folder.resolve(), Path(scratch))
        return {check.__name__: found(check, results) for check in checks}


def found(check: Check, results: Results) -> list[str]:
    """The problems that one check finds; that it can't be carried out is one."""
    try:
        return check(results)
    except Exception as error:  # a damaged file can fail anywhere; that is an answer, too
        return [f"could not be checked: {type(error).__name__}: {shown(str(error))}"]


def main(arguments: list[str] | None = None) -> int:
    """The command; returns its exit code: 0 only if the results stand."""
    parser = argparse.ArgumentParser(prog="python -m depthstress.verify", description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path, metavar="DIR", help="the results of a suite, e.g. outputs/local")
    folder = parser.parse_args(arguments).folder
    try:
        problems_of = verify(folder)
    except NoResults as error:
        print(error)
        return 2
    for check, problems in problems_of.items():
        print(f"{check.replace('_', ' ')}: {'yes' if not problems else f'NO, {len(problems)} problems'}")
        print("".join(f"  {problem}\n" for problem in problems[:LISTED]), end="")
        print(f"  and {len(problems) - LISTED} more\n" if len(problems) > LISTED else "", end="")
    stands = not any(problems_of.values())
    absent = [name for name in MAY_LACK if not (folder / name).is_dir()]
    print(_versions(folder) if not stands else "", end="")
    print(
        f"{folder}: the results {'stand' if stands else 'DO NOT STAND'}"
        + (f"; not there, and so not checked: {', '.join(absent)}" if absent else "")
    )
    return 0 if stands else 1


def _versions(folder: Path) -> str:
    """What else may explain that bytes differ."""
    made = json_object(folder / "manifest.json").get("stages", {}).get("04_analysis", {}).get("versions", {})
    others = [f"{name} {made[name]} (here {here})" for name, here in versions().items() if name in made and made[name] != here]
    return f"made with other versions, which alone can change bytes: {', '.join(others)}\n" if others else ""


if __name__ == "__main__":
    sys.exit(main())
