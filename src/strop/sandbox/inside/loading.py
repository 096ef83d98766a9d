"""Loads a program as a module, for the modes that ask something of it."""

import contextlib
import sys
import types

# in scope without an import: programs are often written below a header that had these
_TYPING = frozenset(
    (
        *("Any", "Callable", "DefaultDict", "Deque", "Dict", "FrozenSet", "Generator", "Generic", "Iterable"),
        *("Iterator", "List", "Literal", "Mapping", "NamedTuple", "Optional", "Sequence", "Set", "Text", "Tuple"),
        *("Type", "TypeVar", "Union"),
    )
)


def load(code, name="solution"):
    """Run `code` once as the module `name`, which stands in sys.modules from then on. What the code raises, rises."""
    module = types.ModuleType(name)
    module.__file__ = code.co_filename
    sys.modules[name] = module
    offer_typing(code, vars(module))
    exec(code, vars(module))
    return module


def offer_typing(code, namespace):
    """Set the names of `typing` that the code uses; its own definitions and imports replace them."""
    used = names_used(code) & _TYPING
    if used:
        import typing

        namespace.update((name, getattr(typing, name)) for name in used)


def names_used(code):
    names = set(code.co_names)
    for constant in code.co_consts:
        if type(constant) is types.CodeType:
            names |= names_used(constant)
    return names


def describe(error):
    """One line about an error; its class may be the program's own, so even asking it for its text may fail."""
    try:
        text = str(error)
    except BaseException:
        text = ""
    name = type.__dict__["__name__"].__get__(type(error))
    return f"{name}: {text}"[:500] if text else str(name)[:500]


def show(error):
    """The traceback on stderr, by the interpreter's own hook: `traceback` would cost an import."""
    with contextlib.suppress(BaseException):
        sys.__excepthook__(type(error), error, error.__traceback__)
