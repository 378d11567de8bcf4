"""Import the app that a command names: `shop.tasks:app`, or the path of its file, `./shop.py:app`."""

from __future__ import annotations

import importlib
import os
import sys
import traceback
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from flowfabric.app import FlowFabric
from flowfabric.cli.exits import Exit, Refused

DEFAULT_NAME: Final = "app"
METAVAR: Final = "APP"
HELP: Final = "MODULE:NAME or FILE:NAME, as in shop.tasks:app or ./shop.py:app; without :NAME it is app"


def load(target: str) -> FlowFabric:
    """Import an app by its module or file, and its name in there."""
    where, name = split(target)
    module = _import_file(Path(where)) if is_path(where) else _import_module(where)
    found = getattr(module, name or DEFAULT_NAME, None)
    if not isinstance(found, FlowFabric):
        raise Refused(_no_app(where, name or DEFAULT_NAME, module, found), Exit.USAGE)
    return found


def split(target: str) -> tuple[str, str]:
    """Split a target into its module or file, and a name, which may be empty."""
    where, separator, name = target.rpartition(":")
    if not separator or (name and not name.isidentifier()):  # the colon of a drive, as in C:\shop.py
        return target, ""
    return where, name


def is_path(where: str) -> bool:
    """Tell the path of a file from the name of a module."""
    separators = {os.sep, os.altsep or os.sep, "/"}
    return where.endswith(".py") or any(each in where for each in separators)


def folder_of(target: str) -> Path | None:
    """Return the folder that the code of an app lies in, if its file was named."""
    where, _ = split(target)
    return Path(where).resolve().parent if is_path(where) else None


def _import_module(name: str) -> ModuleType:
    _search_first(Path.cwd())
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        parents = {name.rsplit(".", count)[0] for count in range(name.count(".") + 1)}
        if error.name not in parents:
            raise _broken(name, error) from error
        raise Refused(_no_module(name), Exit.USAGE) from error
    except ValueError as error:  # an empty name, or a relative one
        raise Refused(
            f"{name!r} is no name of a module; write shop.tasks:app or ./shop.py:app", Exit.USAGE
        ) from error
    except Exception as error:
        raise _broken(name, error) from error


def _import_file(path: Path) -> ModuleType:
    """Import a file by its dotted name, so that its own imports, and other processes, find everything."""
    if not path.exists() and path.with_suffix(".py").is_file():
        raise Refused(f"there is no file {path}; there is {path.with_suffix('.py')}", Exit.USAGE)
    if not path.exists():
        raise Refused(f"there is no file {path} in {Path.cwd()}", Exit.USAGE)
    if path.is_dir():
        raise Refused(
            f"{path} is a folder; name the file that the app lies in, as in {path / 'tasks.py'}:app",
            Exit.USAGE,
        )
    whole = path.resolve()
    parts, root = [whole.stem], whole.parent
    if "." in whole.stem or whole.suffix != ".py":
        raise Refused(f"{path} cannot be imported; call the file NAME.py, with no other dot", Exit.USAGE)
    while (root / "__init__.py").is_file() and root != root.parent:
        parts.insert(0, root.name)
        root = root.parent
    if parts[-1] == "__init__":
        parts.pop()
    name = ".".join(parts)
    _search_first(root)
    try:
        module = importlib.import_module(name)
    except Exception as error:
        raise _broken(str(path), error) from error
    if Path(module.__file__ or "").resolve() != whole:
        text = f"{path} cannot be imported: {name} is another module already ({module.__file__}); rename the file"
        raise Refused(text, Exit.USAGE)
    return module


def _search_first(folder: Path) -> None:
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))


def _no_module(name: str) -> str:
    parent, _, last = name.rpartition(".")
    if Path(f"{name}.py").is_file():
        return f"there is no module {name}; for the file write ./{name}.py:app"
    if parent and Path(f"{parent.replace('.', os.sep)}.py").is_file():
        return f"there is no module {name}; for {last} in {parent} write {parent}:{last}"
    return (
        f"there is no module {name}; run ff where it lies, install it, or give its file, as in ./shop.py:app"
    )


def _no_app(where: str, name: str, module: ModuleType, found: Any) -> str:
    apps = [f"{where}:{each}" for each, value in vars(module).items() if isinstance(value, FlowFabric)]
    instead = f"write {' or '.join(apps)}" if apps else "make one: app = FlowFabric()"
    if found is not None:
        return f"{name} in {where} is of type {type(found).__qualname__}, not a FlowFabric; {instead}"
    return f"{where} has no FlowFabric called {name}; {instead}"


def _broken(where: str, error: Exception) -> Refused:
    """Say what went wrong in the user's code, and on which line."""
    what = traceback.format_exception_only(error)[-1].strip()
    if isinstance(error, SyntaxError):
        return Refused(f"{where} cannot be imported: {what} ({error.filename}, line {error.lineno})")
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith("<") and frame.filename not in {__file__, importlib.__file__}
    ]
    own = [frame for frame in frames if "site-packages" not in frame.filename] or frames
    place = f" ({own[-1].filename}, line {own[-1].lineno})" if own else ""
    return Refused(f"{where} cannot be imported: {what}{place}")
