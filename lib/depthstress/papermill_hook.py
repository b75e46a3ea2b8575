"""Lets `papermill 03_eval.ipynb -p suite main` work as it is typed.

papermill loads the entry points of `papermill.io` before it reads its command line. This one, when papermill
is run on one of the project's notebooks, checks the parameters' names (papermill only warns of a wrong one)
and supplies the output path `outputs/<run>/notebooks/<name>.ipynb` where none was given. Without one papermill
refuses on a terminal, and with a pipe as its input takes the notebook for the output. Other notebooks, and
papermill as a library, are left alone.
"""

from __future__ import annotations

import base64
import os
import sys
from dataclasses import dataclass, field
from pathlib import Path

# papermill's options that take values (all others are flags); a test holds this against papermill itself
OPTIONS_WITH_VALUES = {
    "-p": 2, "--parameters": 2, "-r": 2, "--parameters_raw": 2, "-f": 1, "--parameters_file": 1, "-y": 1, "--parameters_yaml": 1,
    "-b": 1, "--parameters_base64": 1, "--inject-input-path": 0, "--engine": 1, "--autosave-cell-every": 1, "-k": 1, "--kernel": 1,
    "-l": 1, "--language": 1, "--cwd": 1, "--stdout-file": 1, "--stderr-file": 1, "--log-level": 1, "--start-timeout": 1,
    "--start_timeout": 1, "--execution-timeout": 1,
}  # fmt: skip
LONG = {"b": "parameters_base64", "f": "parameters_file", "y": "parameters_yaml", "p": "parameters", "r": "parameters_raw"}
INFORMATIVE = {"-h", "--help", "--version", "--help-notebook"}


@dataclass
class CommandLine:
    """papermill's arguments: where the paths stand, and the parameters given."""

    paths: list[int] = field(default_factory=list)
    given: list[tuple[str, dict]] = field(default_factory=list)  # the kind of option, and the parameters in it
    informative: bool = False

    @property
    def parameters(self) -> dict[str, object]:
        """All parameters; papermill lets one kind of option overrule another, whatever their order on the line."""
        merged: dict[str, object] = {}
        for kind in "bfypr":
            for option, parameters in self.given:
                if option.lstrip("-") in (kind, LONG[kind]):
                    merged |= parameters
        return merged


def read(arguments: list[str]) -> CommandLine:
    """Read papermill's arguments as far as they concern us."""
    line, index, options = CommandLine(), 0, True
    while index < len(arguments):
        word = arguments[index]
        name, equals, attached = word.partition("=") if word.startswith("--") else (word, "", "")
        if word == "--" and options:
            options = False
        elif not options or word == "-" or not word.startswith("-"):
            line.paths.append(index)
        elif name in INFORMATIVE:
            line.informative = True
        elif not word.startswith("--") and len(word) > 2 and word[:2] in OPTIONS_WITH_VALUES:  # -psuite main
            count = OPTIONS_WITH_VALUES[word[:2]] - 1
            _take(line, word[:2], [word[2:], *arguments[index + 1 : index + 1 + count]])
            index += count
        else:
            count = OPTIONS_WITH_VALUES.get(name, 0) - (1 if equals else 0)
            values = ([attached] if equals else []) + arguments[index + 1 : index + 1 + max(count, 0)]
            _take(line, name, values)
            index += max(count, 0)
        index += 1
    return line


def _take(line: CommandLine, option: str, values: list[str]) -> None:
    import yaml

    try:
        if option in ("-p", "--parameters", "-r", "--parameters_raw") and len(values) == 2:
            line.given.append((option, {values[0]: values[1]}))
        elif option in ("-y", "--parameters_yaml"):
            line.given.append((option, dict(yaml.safe_load(values[0]) or {})))
        elif option in ("-f", "--parameters_file"):
            line.given.append((option, dict(yaml.safe_load(Path(values[0]).read_text(encoding="utf-8")) or {})))
        elif option in ("-b", "--parameters_base64"):
            line.given.append((option, dict(yaml.safe_load(base64.b64decode(values[0])) or {})))
    except (yaml.YAMLError, OSError, ValueError, TypeError, IndexError):
        pass  # papermill reads it again and says what is wrong


def completed(arguments: list[str]) -> list[str]:
    """The arguments with an output path where one of our notebooks has none.

    Raises SystemExit for a parameter that the notebook does not know.
    """
    from .notebook import ParameterError, check, parameter_defaults
    from .runs import Run
    from .stages import NOTEBOOKS

    line = read(arguments)
    if line.informative or not line.paths:
        return arguments
    path = Path(arguments[line.paths[0]])
    ours = NOTEBOOKS / path.name
    if not path.is_file() or not ours.is_file() or path.resolve() != ours.resolve():
        return arguments
    known = parameter_defaults(path.read_text(encoding="utf-8"))
    if unknown := sorted(map(str, set(line.parameters) - set(known))):
        raise SystemExit(f"papermill: {path.name} knows no parameter {', '.join(map(repr, unknown))}; it knows {', '.join(sorted(known))}")
    try:
        given = check(path.stem, known | line.parameters)
        run = Run(given.suite, given.model, given.arms, given.seeds)
    except (ParameterError, ValueError) as error:
        raise SystemExit(f"papermill: {error}") from None
    if len(line.paths) > 1:
        return arguments
    part = [*(given.arms or []), *(f"s{seed}" for seed in given.seeds or [])]  # jobs of one run keep their copies apart
    output = run.folder / "notebooks" / f"{'-'.join([path.stem, *part])}.ipynb"
    output.parent.mkdir(parents=True, exist_ok=True)
    position = line.paths[0] + 1
    return [*arguments[:position], os.path.relpath(output), *arguments[position:]]


def _is_papermill() -> bool:
    name = Path(sys.argv[0]).name if sys.argv else ""
    by_module = name in ("-m", "__main__.py") and "papermill" in " ".join(sys.orig_argv[:4])
    return name in ("papermill", "papermill.exe") or by_module


def _open_stdin() -> None:
    """Give a process whose standard input is closed an empty one: papermill asks what kind it is, and would fail."""
    try:
        os.fstat(0)
    except OSError:
        os.open(os.devnull, os.O_RDONLY)


class Handler:
    """What papermill asks of an entry point: a reader for `depthstress://03_eval`, our notebooks by name."""

    def read(self, path: str) -> str:
        from .stages import NOTEBOOKS

        return (NOTEBOOKS / f"{path.removeprefix('depthstress://').removesuffix('.ipynb')}.ipynb").read_text(encoding="utf-8")

    def listdir(self, path: str) -> list[str]:
        from .stages import NOTEBOOKS

        return sorted(f"depthstress://{notebook.stem}" for notebook in NOTEBOOKS.glob("*.ipynb"))

    def write(self, buf: str, path: str) -> None:
        raise PermissionError(f"{path} is one of the project's notebooks; give an output path")

    def pretty_path(self, path: str) -> str:
        return path


handler = Handler()

if _is_papermill():
    _open_stdin()
    sys.argv[1:] = completed(sys.argv[1:])
