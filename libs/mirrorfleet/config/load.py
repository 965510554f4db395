"""Reading `estate.yaml`: YAML with line marks, models, checks; every problem at once.

A ConfigError lists all problems, one a line: `estate.yaml:12 links[0].rules[1].topics: ...`, with
the nearest valid key for an unknown one. Values of secrets never get here; what may be one all the
same, because it stands in a wrong place, is not repeated in a message either.
"""

from __future__ import annotations

import os
import re
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypedDict, cast

import yaml
from pydantic import BaseModel, ValidationError
from yaml.reader import ReaderError

from mirrorfleet.config.checks import estate_problems
from mirrorfleet.config.keys import unknown_key
from mirrorfleet.config.model import (
    Estate,
    EstateCluster,
    EstateLink,
    Rule,
    TelemetryModel,
)
from mirrorfleet.config.security import Secret, SecurityModel
from mirrorfleet.core.errors import ConfigError

_MODELS: Final[tuple[tuple[tuple[str, ...], type[BaseModel]], ...]] = (
    ((), Estate),
    (("clusters", "*"), EstateCluster),
    (("clusters", "*", "security"), SecurityModel),
    (("clusters", "*", "security", "*"), Secret),
    (("links", "*"), EstateLink),
    (("links", "*", "rules", "*"), Rule),
    (("telemetry",), TelemetryModel),
    (("telemetry", "headers", "*"), Secret),
)
"""Which model's keys are valid where; by parts, because a header's name may hold dots."""

_NAMING: Final = re.compile(r"could not determine a constructor|found undefined (alias|tag handle)")
"""What YAML says of a tag or an alias; behind it comes the name, which may be a secret."""
_IN_QUOTES: Final = "text that begins with '!', '*' or '&' is to stand in quotes"
_GLUED: Final = re.compile("([^:=]+)[:=]")
_NO_BLANK: Final = "unknown key; it is written as `KEY: VALUE`, with a blank behind the colon"
_MAPPINGS: Final = frozenset({"model_type", "model_attributes_type", "dict_type"})
_TEXT: Final = "tag:yaml.org,2002:str"
_MERGE: Final = "tag:yaml.org,2002:merge"
_READ_AS: Final = {
    "bool": "true or false",
    "int": "a number",
    "float": "a number",
    "null": "nothing",
    "timestamp": "a time",
}
"""What YAML takes a word for that is not in quotes, by the last part of its tag."""

_MAX_SHOWN: Final = 60


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong, and where."""

    path: str
    message: str


class _Loader(yaml.SafeLoader):
    """Tells where a value stands that only looks like a time or a number, as 2026-02-31 does."""

    def construct_object(self, node: yaml.Node, deep: bool = False) -> object:  # noqa: FBT001, FBT002 - PyYAML's signature
        try:
            made: object = super().construct_object(node, deep)
        except (ValueError, OverflowError, LookupError, AttributeError) as error:
            raise yaml.MarkedYAMLError(None, None, str(error), node.start_mark) from None
        return made

    def construct_mapping(
        self,
        node: yaml.MappingNode,
        deep: bool = False,  # noqa: FBT001, FBT002 - PyYAML's signature
    ) -> dict[Hashable, object]:
        """Keys are what was written; `_mark` tells of those that YAML takes for something else."""
        if isinstance(node, yaml.MappingNode):
            self.flatten_mapping(node)
            for key, _ in node.value:
                if isinstance(key, yaml.ScalarNode):
                    key.tag = _TEXT
        return super().construct_mapping(node, deep)


class _Detail(TypedDict):
    """What we read of pydantic's error details."""

    type: str
    loc: tuple[int | str, ...]
    msg: str
    input: object


def load_estate(path: Path | str, env: Mapping[str, str] | None = None) -> Estate:
    """The estate of a file. `env` is where `{env: NAME}` looks (the process's by default).

    Raises: ConfigError with every problem, each with path and line; nothing was connected.
    """
    file = Path(path)
    try:
        text = file.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise ConfigError(
            f"{file}:{line} not UTF-8 text: byte 0x{error.object[error.start]:02x}.",
            line=line,
            hint="Save the file as UTF-8.",
        ) from None
    except OSError as error:
        raise ConfigError(
            f"cannot read the estate file {file}: {error.strerror or ''}.",
            hint="Name it with --estate FILE.",
        ) from None
    return parse_estate(text, str(file), directory=file.parent, env=env)


def parse_estate(
    text: str, name: str, *, directory: Path, env: Mapping[str, str] | None = None
) -> Estate:
    """The estate of a text; `name` stands in messages, `directory` is for relative files.

    Raises: ConfigError.
    """
    data, lines, problems = _read_yaml(text, name)
    estate, wrong = _validate(data)
    problems += wrong
    if estate is None or problems:
        raise _error(name, lines, problems)
    estate.bind(directory, os.environ if env is None else env, lines)
    problems += [Problem(*problem) for problem in estate_problems(estate)]
    if problems:
        raise _error(name, lines, problems)
    return estate


def _validate(data: object) -> tuple[Estate | None, list[Problem]]:
    try:
        return Estate.model_validate(data), []
    except ValidationError as error:
        details = cast("list[_Detail]", error.errors(include_url=False, include_context=False))
        found = [_problem(detail) for detail in details if not _follows(detail, details)]
        return None, list(dict.fromkeys(found))


def _follows(detail: _Detail, details: Sequence[_Detail]) -> bool:
    """A list that is "too short" only because its items were refused."""
    size = len(detail["loc"])
    return detail["type"] == "too_short" and any(
        len(other["loc"]) > size and other["loc"][:size] == detail["loc"] for other in details
    )


def _read_yaml(text: str, name: str) -> tuple[object, dict[str, int], list[Problem]]:
    """Plain data, the line of each path, and keys that stand twice."""
    lines: dict[str, int] = {}
    problems: list[Problem] = []
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        data: object = yaml.load(text, Loader=_Loader)
        if isinstance(node, yaml.MappingNode):
            _mark(node, "", lines, problems)
    except RecursionError:
        why = "nested too deep, or an anchor that holds itself"
        raise ConfigError(f"{name}: not YAML: {why}.") from None
    except yaml.YAMLError as error:
        line, what = _not_yaml(error, text)
        raise ConfigError(f"{name}:{line} not YAML: {what}.", line=line) from None
    if not isinstance(node, yaml.MappingNode):
        raise ConfigError(
            f"{name}:1 an estate is a mapping with 'estate', 'clusters' and 'links'.", line=1
        )
    return data, lines, problems


def _not_yaml(error: yaml.YAMLError, text: str) -> tuple[int, str]:
    """Where, and what. A character that no YAML may hold has a position and no mark."""
    if isinstance(error, ReaderError):
        line = text.count("\n", 0, error.position) + 1
        return line, f"the character U+{error.character:04X}: {error.reason}"
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    line = mark.line + 1 if mark is not None else 0
    what = str(getattr(error, "problem", None) or "not readable")
    named = _NAMING.match(what)
    return line, f"{named[0]}; {_IN_QUOTES}" if named else what


def _mark(node: yaml.Node, path: str, lines: dict[str, int], problems: list[Problem]) -> None:
    lines.setdefault(path, node.start_mark.line + 1)
    if isinstance(node, yaml.SequenceNode):
        for number, item in enumerate(node.value):
            _mark(item, f"{path}[{number}]", lines, problems)
    if not isinstance(node, yaml.MappingNode):
        return
    for key, value in node.value:
        inner = f"{path}.{key.value}" if path else str(key.value)
        if inner in lines:
            problems.append(Problem(inner, f"stands twice (first in line {lines[inner]})"))
        if key.tag not in {_TEXT, _MERGE}:
            taken = _READ_AS.get(key.tag.rpartition(":")[2], "something else")
            problems.append(Problem(inner, f"YAML takes this name for {taken}; write it in quotes"))
        lines[inner] = key.start_mark.line + 1
        _mark(value, inner, lines, problems)


def _problem(detail: _Detail) -> Problem:
    path = _path(detail["loc"])
    match detail["type"]:
        case "extra_forbidden":
            *parent, last = map(str, detail["loc"])
            if glued := _GLUED.match(last):  # what is behind it may be a secret
                return Problem(_path((*detail["loc"][:-1], glued[1])), _NO_BLANK)
            return Problem(path, unknown_key(last, sorted(_valid_keys(parent))))
        case "missing":
            return Problem(path, "is missing")
        case "too_short":
            return Problem(path, "is empty")
        case "value_error":
            return Problem(path, detail["msg"].removeprefix("Value error, "))
    shown = "" if _may_be_secret(path, detail) else f" (found {_shown(detail['input'])})"
    return Problem(path, _in_words(detail["msg"]) + shown)


def _may_be_secret(path: str, detail: _Detail) -> bool:
    """By its place, or because it is more than one value: a whole cluster that stands in a list; or
    because a cluster is wanted there: its password may stand too far left.
    """
    return bool(
        "security" in path
        or path.startswith(("telemetry", "services"))
        or isinstance(detail["input"], (dict, list))
        or (path.startswith("clusters") and detail["type"] in _MAPPINGS and detail["input"])
    )


def _path(loc: Sequence[int | str]) -> str:
    path = ""
    for part in loc:
        if isinstance(part, int):
            path += f"[{part}]"
        elif part != "[key]":
            path += f".{part}" if path else part
    return path


def _valid_keys(parts: Sequence[str]) -> Iterator[str]:
    for pattern, model in _MODELS:
        if len(pattern) == len(parts) and all(
            each in {"*", part} for each, part in zip(pattern, parts, strict=True)
        ):
            for name, field in model.model_fields.items():
                yield field.alias or name


def _in_words(message: str) -> str:
    return (
        re.sub(r" or instance of \w+", "", message.removeprefix("Input "))
        .replace("valid tuple", "list")
        .replace("valid dictionary", "mapping")
        .replace("a valid integer", "a whole number")
        .replace("valid ", "")
    )


def _shown(value: object) -> str:
    try:
        text = repr(value)
    except ValueError:  # of a number of more than 4,300 digits, as hexadecimal ones may have
        return "a number too long to show"
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}..."


def _error(name: str, lines: Mapping[str, int], problems: Sequence[Problem]) -> ConfigError:
    placed = sorted((_line(lines, p.path), p.path, p.message) for p in problems)
    texts = [
        f"{name}:{line} {path or '(top)'}: {message.rstrip('.')}." for line, path, message in placed
    ]
    line, path, _ = placed[0]
    return ConfigError("\n".join(texts), path=path, line=line)


def _line(lines: Mapping[str, int], path: str) -> int:
    while path and path not in lines:
        path = re.sub(r"(?:^|\.)[^.\[\]]*$|\[[^\]]*\]$", "", path)
    return lines.get(path, 1)
