"""Whether a dashboard is one to Grafana: its members and types are those of the models that Grafana Labs generate from
Grafana's own schemas (grafana-foundation-sdk). Owns the reading of those models; knows no dashboard.

The models read leniently: they drop a member that they do not know and keep a value of a wrong type. So a dashboard is read
and written again, and what got lost is unknown; then each value that was read is held against the annotation of its member.
Invariant: a panel or query of a type that the models do not have is a fault, because nothing would be checked in it.
"""

import enum
import json
import types
import typing

from grafana_foundation_sdk.cog import encoder, plugins, runtime
from grafana_foundation_sdk.models import dashboard as models

PLAIN = {bool: bool, str: str, int: int, float: (int, float)}


def faults(board):
    """What is wrong with a parsed dashboard, as `place: fault` each."""
    plugins.register_default_plugins()
    try:
        read = models.Dashboard.from_json(board)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        return [f"cannot be read: {error!r}"]
    return [*strangers(board), *lost(board, plain(read), ""), *judged(read, ".")]


def plain(model):
    """The JSON that a model writes."""
    return json.loads(json.dumps(model, cls=encoder.JSONEncoder))


def strangers(board):
    """Panels and queries that the models do not know. (Rows have panels and no options.)"""
    known = runtime.Runtime()
    for panel in board.get("panels", []):
        if panel.get("type") == "row":
            yield from strangers(panel)
            continue
        if panel.get("type") not in known.panelcfg_variants:
            yield f"panel {panel.get('title')!r}: no such type {panel.get('type')!r}"
        for target in panel.get("targets", []):
            kind = target.get("datasource", {}).get("type")
            if kind not in known.dataquery_variants:
                yield f"panel {panel.get('title')!r}: no queries to a {kind!r}"


def lost(given, written, where):
    """Members that the models dropped. Absent and null are one."""
    if isinstance(given, dict) and isinstance(written, dict):
        for name, value in given.items():
            if value is not None and name not in written:
                yield f"{where}.{name}: no such member"
            elif value is not None:
                yield from lost(value, written[name], f"{where}.{name}")
    elif isinstance(given, list) and isinstance(written, list) and len(given) == len(written):
        for n, pair in enumerate(zip(given, written)):
            yield from lost(*pair, f"{where}[{n}]")
    elif given != written:
        yield f"{where}: {given!r} is read as {written!r}"


def judged(read, where):
    """Faults in the types of what a model holds."""
    for name, hint in typing.get_type_hints(type(read)).items():
        yield from mismatch(getattr(read, name), hint, f"{where}{name}")


def mismatch(value, hint, where):
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        tried = [list(mismatch(value, one, where)) for one in inner]
        if all(tried):
            yield min(tried, key=lambda found: (len(found), "is no NoneType" in found[0]))[0]
    elif origin is list or isinstance(value, list) and hint in (object, typing.Any):
        if not isinstance(value, list):
            yield f"{where}: {value!r} is no list"
            return
        for n, item in enumerate(value):
            yield from mismatch(item, inner[0] if inner else object, f"{where}[{n}]")
    elif origin is dict:
        if not isinstance(value, dict):
            yield f"{where}: {value!r} is no object"
            return
        for key, item in value.items():
            yield from mismatch(item, inner[1], f"{where}.{key}")
    elif origin is typing.Literal:
        if value not in inner:
            yield f"{where}: {value!r} is none of {list(inner)}"
    elif hint in (object, typing.Any):
        if is_model(value):
            yield from judged(value, f"{where}.")
    elif isinstance(hint, type) and issubclass(hint, enum.Enum):
        if value not in [one.value for one in hint]:
            yield f"{where}: {value!r} is none of {[one.value for one in hint]}"
    elif hint in PLAIN:
        if not isinstance(value, PLAIN[hint]) or isinstance(value, bool) and hint is not bool:
            yield f"{where}: {value!r} is no {hint.__name__}"
    elif isinstance(value, dict) and hasattr(hint, "from_json"):  # which a model has left as it was
        read = hint.from_json(value)
        yield from lost(value, plain(read), where)
        yield from judged(read, f"{where}.")
    elif not isinstance(value, hint):
        yield f"{where}: {value!r} is no {hint.__name__}"
    elif is_model(value):
        yield from judged(value, f"{where}.")


def is_model(value):
    return type(value).__module__.startswith("grafana_foundation_sdk.models.")
