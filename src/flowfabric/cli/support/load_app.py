"""Import the app that a command names, as in `shop.tasks:app` or `./shop.py:app`."""

from __future__ import annotations

import importlib
import os
import sys
import traceback
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from flowfabric.app import FlowFabric
from flowfabric.cli.support.exit_codes import CommandError, ExitCode

DEFAULT_NAME: Final = "app"
APP_METAVAR: Final = "APP"
APP_HELP: Final = "MODULE:NAME or FILE:NAME, as in shop.tasks:app or ./shop.py:app; without :NAME it is app"


def load_app(target: str) -> FlowFabric:
    """Import the app that a target names; raise `CommandError` if that fails."""
    where, name = _split(target)
    module = _import_file(Path(where)) if _is_path(where) else _import_module(where)
    found = getattr(module, name or DEFAULT_NAME, None)
    if not isinstance(found, FlowFabric):
        raise CommandError(_no_app(where, name or DEFAULT_NAME, module, found), ExitCode.USAGE)
    return found


def _split(target: str) -> tuple[str, str]:
    """Split a target into its module or file, and the name of the app, which may be empty."""
    where, separator, name = target.rpartition(":")
    if not separator or (name and not name.isidentifier()):  # the colon belongs to a drive, as in C:\shop.py
        return target, ""
    return where, name


def _is_path(where: str) -> bool:
    """Return whether a target is the path of a file, not the name of a module."""
    separators = {os.sep, os.altsep or os.sep, "/"}
    return where.endswith(".py") or any(each in where for each in separators)


def folder_of(target: str) -> Path | None:
    """Return the folder of the file that a target names; None if it names a module."""
    where, _ = _split(target)
    return Path(where).resolve().parent if _is_path(where) else None


def _import_module(name: str) -> ModuleType:
    _add_to_path(Path.cwd())
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        parents = {name.rsplit(".", count)[0] for count in range(name.count(".") + 1)}
        if error.name not in parents:
            raise _import_error(name, error) from error
        raise CommandError(_no_module(name), ExitCode.USAGE) from error
    except ValueError as error:  # an empty name, or a relative one
        raise CommandError(
            f"{name!r} is not the name of a module; write shop.tasks:app or ./shop.py:app", ExitCode.USAGE
        ) from error
    except Exception as error:
        raise _import_error(name, error) from error


def _import_file(path: Path) -> ModuleType:
    """Import a file under its dotted name, so that its relative imports and worker processes find it."""
    if not path.exists() and path.with_suffix(".py").is_file():
        raise CommandError(f"there is no file {path}; there is {path.with_suffix('.py')}", ExitCode.USAGE)
    if not path.exists():
        raise CommandError(f"there is no file {path} in {Path.cwd()}", ExitCode.USAGE)
    if path.is_dir():
        raise CommandError(
            f"{path} is a folder; name the file of the app, as in {path / 'tasks.py'}:app",
            ExitCode.USAGE,
        )
    whole = path.resolve()
    parts, root = [whole.stem], whole.parent
    if "." in whole.stem or whole.suffix != ".py":
        raise CommandError(
            f"{path} cannot be imported; call the file NAME.py, with no other dot", ExitCode.USAGE
        )
    while (root / "__init__.py").is_file() and root != root.parent:
        parts.insert(0, root.name)
        root = root.parent
    if parts[-1] == "__init__":
        parts.pop()
    name = ".".join(parts)
    _add_to_path(root)
    try:
        module = importlib.import_module(name)
    except Exception as error:
        raise _import_error(str(path), error) from error
    if Path(module.__file__ or "").resolve() != whole:
        text = f"{path} cannot be imported: {name} is another module already ({module.__file__}); rename the file"
        raise CommandError(text, ExitCode.USAGE)
    return module


def _add_to_path(folder: Path) -> None:
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))


def _no_module(name: str) -> str:
    parent, _, last = name.rpartition(".")
    if Path(f"{name}.py").is_file():
        return f"there is no module {name}; for the file write ./{name}.py:app"
    if parent and Path(f"{parent.replace('.', os.sep)}.py").is_file():
        return f"there is no module {name}; for {last} in {parent} write {parent}:{last}"
    return (
        f"there is no module {name}; run ff in its folder, install it, or name its file, as in ./shop.py:app"
    )


def _no_app(where: str, name: str, module: ModuleType, found: Any) -> str:
    apps = [f"{where}:{each}" for each, value in vars(module).items() if isinstance(value, FlowFabric)]
    instead = f"write {' or '.join(apps)}" if apps else "make one: app = FlowFabric()"
    if found is not None:
        return f"{name} in {where} is of type {type(found).__qualname__}, not a FlowFabric; {instead}"
    return f"{where} has no FlowFabric called {name}; {instead}"


def _import_error(where: str, error: Exception) -> CommandError:
    """Return an error that names the exception of the user's code and its line."""
    what = traceback.format_exception_only(error)[-1].strip()
    if isinstance(error, SyntaxError):
        return CommandError(f"{where} cannot be imported: {what} ({error.filename}, line {error.lineno})")
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith("<") and frame.filename not in {__file__, importlib.__file__}
    ]
    own = [frame for frame in frames if "site-packages" not in frame.filename] or frames
    where_raised = f" ({own[-1].filename}, line {own[-1].lineno})" if own else ""
    return CommandError(f"{where} cannot be imported: {what}{where_raised}")
